"""All entries of a database in the order of their logs, many logs at once: how a whole store is checked.

A log by itself costs three statements at least, however short it is; read in one sweep, a thousand entries cost three.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

import msgspec

from agentos.persistence.base import StoredEntry
from agentos.persistence.rows import message_payload


class Stretch(msgspec.Struct, kw_only=True):
    """Entries of the log with this number that follow each other. columns are turn, call and at of their rows, messages
    role, turn and call of the rows in `messages` that belong to them; both by seq."""

    n: int
    entries: list[StoredEntry]
    columns: dict[int, tuple[int, int, int]]
    messages: dict[int, tuple[str, int, int]]


@runtime_checkable
class Scannable(Protocol):
    """A store whose entries lie in one table. Others read each log by itself."""

    async def scan(self, after: tuple[int, int], limit: int) -> list[Stretch]:
        """The next entries behind (number of a log, seq), at most so many; none at the end. Of a fork, only its own.

        A value whose entry is not there is left out. Raises StoreUnavailable.
        """


_ENTRIES = (
    "SELECT n, seq, unit, kind, turn, call, at, head, digest FROM entries WHERE (n, seq) > (?, ?)"
    " ORDER BY n, seq LIMIT ?"
)
_MESSAGES = "SELECT n, seq, role, turn, call, salt, text FROM messages WHERE (n, seq) >= (?, ?) AND (n, seq) <= (?, ?)"
_PAYLOADS = (
    "SELECT n, seq, i, name, salt, body FROM payloads WHERE (n, seq) >= (?, ?) AND (n, seq) <= (?, ?)"
    " ORDER BY n, seq, i"
)


class SqlScan:
    """The sweep over one way to fetch rows; an adapter adds `_fetch`."""

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def scan(self, after: tuple[int, int], limit: int) -> list[Stretch]:
        rows = await self._fetch(_ENTRIES, (*after, limit))
        if not rows:
            return []
        stretches = {n: _stretch(n, list(part)) for n, part in groupby(rows, itemgetter(0))}
        values = {n: {stored.seq: stored.payloads for stored in part.entries} for n, part in stretches.items()}
        ends = (*rows[0][:2], *rows[-1][:2])
        for n, seq, role, turn, call, salt, text in await self._fetch(_MESSAGES, ends):
            if n in values and seq in values[n]:
                values[n][seq].append((0, message_payload(role), salt, text))
                stretches[n].messages[seq] = (role, turn, call)
        for n, seq, i, name, salt, body in await self._fetch(_PAYLOADS, ends):
            if n in values and seq in values[n]:
                values[n][seq].append((i, name, salt, body))
        return list(stretches.values())


def _stretch(n: int, rows: Sequence[tuple[Any, ...]]) -> Stretch:
    entries = [
        StoredEntry(seq=seq, unit=unit, kind=kind, head=head, digest=digest, payloads=[])
        for _, seq, unit, kind, _, _, _, head, digest in rows
    ]
    return Stretch(n=n, entries=entries, columns={row[1]: row[4:7] for row in rows}, messages={})
