"""The entries of one log after the other, in pages of whole units: by one sweep over a database, or log by log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from agentos.history.reading import in_units, stored_pages
from agentos.persistence.base import LogRow, Store, StoredEntry
from agentos.persistence.reading import SEQ_MAX
from agentos.persistence.scanning import Scannable, Stretch

SCANNED_ENTRIES = 1_000
"""How many entries of any logs are read at once."""

NUMBERS_AT_ONCE = 5_000
_LOGS = "select n, id from logs where n > ? order by n limit ?"

Units = list[list[StoredEntry]]
Columns = dict[int, tuple[int, int, int]]
"""turn, call and at of rows, by seq."""
Said = dict[int, tuple[str, int, int]]
"""role, turn and call of rows of `messages`, by seq."""
Page = tuple[Units, Columns, Said | None]
"""Many units at once; what stands beside their heads; and the messages that belong to them, None where they are not read
with them."""


class Pages(Protocol):
    """A source of entries. Logs are asked for by ascending number."""

    def of(self, row: LogRow, n: int) -> AsyncIterator[Page]:
        """The log's own entries, many units at once."""


class Rows(Protocol):
    """Gives the rows of one table, log by log."""

    async def of(self, n: int) -> Sequence[tuple[int, ...]]: ...


class LogByLog:
    """Reads each log by itself; rows are seq, turn, call and at of its entries."""

    def __init__(self, store: Store, rows: Rows) -> None:
        self._store, self._rows = store, rows

    async def of(self, row: LogRow, n: int) -> AsyncIterator[Page]:
        columns = {seq: (turn, call, at) for seq, turn, call, at in await self._rows.of(n)}
        async for units in stored_pages(self._store, row.id, _shared(row)):
            yield units, columns, None


class Swept:
    """Reads all logs in one sweep, from the one with this number on."""

    def __init__(self, store: Scannable, first: int) -> None:
        self._store, self._after = store, (first - 1, SEQ_MAX)
        self._read: deque[Stretch] = deque()
        self._more = True

    async def of(self, row: LogRow, n: int) -> AsyncIterator[Page]:
        """Entries of logs before it that nobody asked for are passed over."""
        held: list[StoredEntry] = []
        columns: Columns = {}
        while await self._fill() and self._read[0].n <= n:
            stretch = self._read.popleft()
            if stretch.n < n:
                continue
            columns = {one.seq: columns[one.seq] for one in held} | stretch.columns
            units = in_units([*held, *stretch.entries])
            held = [] if self._read else units.pop()  # the last of what was read may go on in what is read next
            if units or stretch.messages:
                yield units, columns, stretch.messages
        if held:
            yield [held], columns, {}

    async def _fill(self) -> bool:
        """Whether there is a next stretch."""
        if not self._read and self._more:
            self._read.extend(await self._store.scan(self._after, SCANNED_ENTRIES))
            self._more = bool(self._read)
            if self._more:
                self._after = (self._read[-1].n, self._read[-1].entries[-1].seq)
            await asyncio.sleep(0)
        return bool(self._read)


def pages_of(store: Store, first: int, rows: Rows, *, whole: bool) -> Pages:
    """One sweep from this log on where all are asked for and the store can do it, else each log by itself."""
    return Swept(store, first) if whole and isinstance(store, Scannable) else LogByLog(store, rows)


async def numbers_of(store: Store) -> list[tuple[int, str]]:
    """The number of every log, in order, and its name."""
    found: list[tuple[int, str]] = []
    while True:
        page = (await store.query(_LOGS, (found[-1][0] if found else 0, NUMBERS_AT_ONCE))).rows
        found += [(n, log) for n, log in page]
        if len(page) < NUMBERS_AT_ONCE:
            return found


def _shared(row: LogRow) -> int:
    return row.upto if row.forked_from is not None else 0
