"""One digest over the heads of all logs: two stores that give the same hold the same entries, whatever they are kept in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from agentos.persistence.base import LogRow, Store


async def heads_digest(store: Store) -> str:
    """Of all logs of a store as they are now; see `digest_of_heads`."""
    return digest_of_heads(await store.logs())


def digest_of_heads(rows: Iterable[LogRow]) -> str:
    """sha256, as 64 hexadecimal digits, over a line "id seq digest" for each log, sorted by id.

    The digest of a head ties all entries before it, so that nothing but owners, epochs and tables is left out.
    """
    found = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row.id):
        found.update(f"{row.id} {row.seq} {row.digest.hex()}\n".encode())
    return found.hexdigest()
