"""As of: the tables and views of a store as they were at a point of the past, asked in SQL.

The logs that are chosen are folded up to that point into a private SQLite database in memory, which has the tables and
views of a store and holds queries to the same bounds. The store is only read, and no kernel is needed.

The log tells entries, private values (those erased since are erased here too), and all that is folded from them. It does
not tell owners, wake-ups, or what waited in an inbox: these are empty. Definitions carry no time; all are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agentos.errors import QueryRefused
from agentos.events.entry import Registry, decode_head
from agentos.history.copy.rebuilding import NOBODY, Rebuilding, catch_up, new_row, remember
from agentos.history.copy.source import CopySource, parents_first
from agentos.history.past.points import Point
from agentos.history.past.reach import Only, Reach, reach_of
from agentos.history.reading import stored_units
from agentos.persistence.base import LogRow, Rows, Store, StoredEntry, Unit
from agentos.persistence.past import PastTables
from agentos.persistence.sizes import size_of_entry
from agentos.settings import Settings
from agentos.world import World

ENTRIES_MAX = 1_000_000
"""How many entries are folded for one look into the past."""
BYTES_MAX = 1024 * 1024 * 1024
"""How many bytes of heads and private values such a look holds in memory."""
BATCH_UNITS = 256
PAGE_DEFINITIONS = 100


class Past:
    """Logs as they were. at is the time, in microseconds, UTC; writers counts those that wrote these entries.

    asked is the seq that was asked for when it lies within a unit, which counts whole: the log ends before it.
    """

    def __init__(self, tables: PastTables, reach: Reach, writers: int) -> None:
        self._tables = tables
        self.at, self.asked, self.writers = reach.at, reach.asked, writers
        self.logs, self.entries = len(reach.rows), reach.entries

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """One reading statement in the dialect of SQLite. Raises QueryRefused."""
        return await self._tables.query(sql, parameters)


async def query_as_of(
    store: Store, sql: str, parameters: Sequence[object] = (), *, point: Point, only: Only | None = None
) -> Rows:
    """One statement over the past. Errors as those of `past_of`, and QueryRefused."""
    async with past_of(store, point, only) as past:
        return await past.query(sql, parameters)


@asynccontextmanager
async def past_of(
    store: Store,
    point: Point,
    only: Only | None = None,
    *,
    entries_max: int = ENTRIES_MAX,
    bytes_max: int = BYTES_MAX,
    settings: Settings | None = None,
    registry: Registry | None = None,
) -> AsyncIterator[Past]:
    """Logs of a store as they were at a point, for as many queries as one likes. A seq is one of the log or root chosen;
    with a root, the conversations below it are taken as of the time of that entry.

    Errors: ConfigurationError for a seq that is none, UnknownConversation; QueryRefused beyond entries_max or bytes_max;
    StoreDamaged, CodecError for a log that cannot be folded; StoreError.
    """
    reach = await reach_of(store, point, only or Only(), entries_max)
    tables = PastTables(store.url, settings or Settings())
    try:
        folder = _Folder(store, tables, registry or Registry(), bytes_max)
        for row in parents_first(reach.rows, store.url):
            await folder.fold(row, reach.upto[row.id])
        await folder.end(reach.at)
        yield Past(tables, reach, len(folder.writers))
    finally:
        await tables.close()


class _Folder:
    """Folds one log after the other into the tables."""

    def __init__(self, store: Store, tables: PastTables, registry: Registry, bytes_max: int) -> None:
        self._source, self._tables = CopySource(store), tables
        self._registry, self._bytes_max = registry, bytes_max
        self._world = World()
        self._units: list[Unit] = []
        self._bytes = 0
        self.writers: set[int] = set()

    async def fold(self, row: LogRow, upto: int) -> None:
        """The entries of a log's own up to there; none when only what it shares itself is asked for."""
        begin = await self._source.beginning(row)
        if upto <= begin.seq:
            await self._add(_without_entries(row, begin))
            return
        keys = await self._source.keys(row.id)
        rebuilding = Rebuilding(row, begin.seq, begin.digest, self._world, self._registry)
        create = True
        try:
            await catch_up(rebuilding, self._source.store, row.id, begin.seq)
            async for stored in stored_units(self._source.store, row.id, begin.seq, upto):
                unit = self._rebuilt(rebuilding, row, stored, create=create)
                remember(unit, keys.get(unit.seq, ()))
                self._count(stored)
                await self._add(unit)
                create = False
        finally:
            self._world.unload(row.id)

    async def end(self, at: int) -> None:
        await self._flush()
        self._tables.add_writers([row for row in await self._source.store.writers() if row.started_at <= at], at)
        after: str | None = ""
        while after is not None:
            page = await self._source.store.definitions(after, PAGE_DEFINITIONS)
            self._tables.add_definitions(page)
            after = page[-1][0] if len(page) == PAGE_DEFINITIONS else None

    def _rebuilt(self, rebuilding: Rebuilding, row: LogRow, stored: Sequence[StoredEntry], *, create: bool) -> Unit:
        try:
            return rebuilding.next(stored, row.epoch, create=create)
        except Exception as error:  # what was edited, and chained anew, may follow no rule at all
            raise self._source.damaged(
                row.id, stored[0].seq, f"it cannot be folded ({type(error).__name__})"
            ) from error

    def _count(self, stored: Sequence[StoredEntry]) -> None:
        self.writers.add(decode_head(stored[0].head).writer)
        for entry in stored:
            self._bytes += size_of_entry(entry)
        if self._bytes > self._bytes_max:
            raise QueryRefused(
                f"the logs chosen held more than {self._bytes_max:,} bytes by then (BYTES_MAX);"
                " name one log, a root or an agent, or an earlier point"
            )

    async def _add(self, unit: Unit) -> None:
        self._units.append(unit)
        if len(self._units) >= BATCH_UNITS:
            await self._flush()

    async def _flush(self) -> None:
        units, self._units = self._units, []
        self._tables.append(units)
        await asyncio.sleep(0)


def _without_entries(row: LogRow, begin: LogRow) -> Unit:
    """The row of a fork that others fork from before its own first entry."""
    return Unit(
        log=row.id,
        owner=NOBODY,
        epoch=row.epoch,
        previous_seq=begin.seq,
        previous=begin.digest,
        seq=begin.seq,
        digest=begin.digest,
        entries=[],
        payloads=[],
        messages=[],
        create=new_row(row, begin.seq, begin.digest),
    )
