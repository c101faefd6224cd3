"""A line of logs/*.jsonl: one stored entry as JSON, in one form alone.

    {"digest":"<64 digits>","head":"<raw head>","kind":"...","payloads":[[0,"text","<salt>","<body>"]],"seq":2,"unit":2}

A line is written anew from what was read and has to come out byte for byte: so no key stands twice, no number is written
in another way, and nothing stands in it that is not looked at.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from agentos.persistence.base import StoredEntry

_Digits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
_Salt = Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{2})*\\Z", max_length=128)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Word = Annotated[str, msgspec.Meta(max_length=200)]


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Salts and digests stand as hexadecimal digits; salt and body are null together where they were left out."""

    seq: _Count
    unit: _Count
    kind: _Word
    digest: _Digits
    head: str
    payloads: list[tuple[_Count, _Word, _Salt | None, str | None]]


_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(_Line).decode


def encode_line(entry: StoredEntry, *, redacted: bool) -> bytes:
    """With its line break. Raises UnicodeEncodeError for a text that has no bytes."""
    payloads: list[tuple[int, str, str | None, str | None]] = [
        (i, name, None, None) if redacted or salt is None else (i, name, salt.hex(), body)
        for i, name, salt, body in entry.payloads
    ]
    return _encode(_Line(entry.seq, entry.unit, entry.kind, entry.digest.hex(), entry.head, payloads)) + b"\n"


def decode_line(line: bytes) -> StoredEntry:
    """From a line without its break. Raises ValueError, which says what is wrong and shows nothing of it."""
    try:
        found = _decode(line)
        same = _encode(found) == line
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"it is no entry ({type(error).__name__})") from None
    if not same:
        raise ValueError("it is not written as a bundle writes it")
    return StoredEntry(
        seq=found.seq,
        unit=found.unit,
        kind=found.kind,
        head=found.head,
        digest=bytes.fromhex(found.digest),
        payloads=[
            (i, name, bytes.fromhex(salt) if salt is not None else None, body) for i, name, salt, body in found.payloads
        ],
    )
