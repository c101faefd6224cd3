"""Keys of the inbox as PostgreSQL can hold them.

A person may choose any text for a key, and a text of PostgreSQL holds neither U+0000 nor half of a surrogate pair. Such a
key is stored as the codec stores such a body; every other one as it is.
"""

from __future__ import annotations

from agentos import codec


def stored_key(key: str) -> str:
    return codec.encode_body(key)


def plain_key(stored: str) -> str:
    return codec.decode_text(stored)
