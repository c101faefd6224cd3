"""The conversations of a store as they were at a time: what `ps` showed then.

A row of the table `conversations` that was last updated by then is as it was. Of the others the row is folded, each from
the last snapshot before that time, so that neither the length of a log nor how much was stored since costs anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

import msgspec

from agentos.errors import QueryRefused, StoreDamaged, StoreError
from agentos.events.entry import Registry, decode_entry
from agentos.history.copy.rebuilding import NOBODY, new_row
from agentos.history.verify.folding import Folding
from agentos.persistence.base import LogRow, Rows, Store, Unit
from agentos.persistence.past import PastTables
from agentos.persistence.rows import CONVERSATION
from agentos.settings import Settings
from agentos.world import World

ENTRIES_MAX = 1_000_000
"""How many entries are folded for one look at the conversations of the past."""
PAGE_ROWS = 2_000

Row = tuple[Any, ...]

_ROWS = (
    f"select n, (select tenant from logs where logs.n = conversations.n), {', '.join(CONVERSATION)}"  # noqa: S608 - names
    " from conversations where n > ? and started_at <= ? order by n limit ?"
)
_UPTO = "select seq from entries where n = ? and at <= ? order by seq desc limit 1"
_UPDATED_AT = CONVERSATION.index("updated_at")


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations as they were at a time, in microseconds, UTC; writers counts the processes that had begun by then.

    folded counts the conversations that went on since, entries the entries that were folded for them.
    """

    tables: PastTables
    at: int
    writers: int
    folded: int
    entries: int

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Over `logs` and `conversations` alone: the other tables are empty."""
        return await self.tables.query(sql, parameters)


@asynccontextmanager
async def processes_of(
    store: Store, at: int, *, entries_max: int = ENTRIES_MAX, registry: Registry | None = None
) -> AsyncIterator[Processes]:
    """What `list_conversations` reads a page of. Raises QueryRefused beyond entries_max, StoreDamaged, StoreError."""
    tables = PastTables(store.url, Settings())
    try:
        rows = _Rows(store, at, registry or Registry(), entries_max)
        async for page in rows.pages():
            tables.append([_unit(row, tenant) for tenant, row in page])
        writers = sum(row.started_at <= at for row in await store.writers())
        yield Processes(tables=tables, at=at, writers=writers, folded=rows.folded, entries=rows.entries)
    finally:
        await tables.close()


class _Rows:
    """The rows of the table `conversations` as they were."""

    def __init__(self, store: Store, at: int, registry: Registry, entries_max: int) -> None:
        self._store, self._at, self._registry = store, at, registry
        self._entries_max = entries_max
        self._world = World()
        self.folded = self.entries = 0

    async def pages(self) -> AsyncIterator[list[tuple[str | None, Row]]]:
        """Each row with the tenant of its log, which never changes."""
        after = -1
        while True:
            page = (await self._store.query(_ROWS, (after, self._at, PAGE_ROWS))).rows
            rows = [(tenant, await self._then(n, tuple(row))) for n, tenant, *row in page]
            yield [(tenant, row) for tenant, row in rows if row is not None]
            if len(page) < PAGE_ROWS:
                return
            after = page[-1][0]

    async def _then(self, n: int, now: Row) -> Row | None:
        """The row as it was; of a conversation that went on since it is folded. None for a fork that had not begun."""
        if now[_UPDATED_AT] <= self._at:
            return now
        id_ = str(now[0])
        row = await self._store.log(id_)
        found = (await self._store.query(_UPTO, (n, self._at))).rows
        if row is None or not found:
            return None
        self.folded += 1
        try:
            return await self._row_after(row, int(found[0][0]))
        except StoreError:
            raise
        except Exception as error:  # what was edited may follow no rule at all
            reason = f"{id_}: what stands up to seq {found[0][0]} cannot be folded ({type(error).__name__})"
            raise StoreDamaged(self._store.url, reason) from error

    async def _row_after(self, row: LogRow, upto: int) -> Row | None:
        """Its last change up to there: in what came after the last snapshot, or else after the one before that."""
        end = upto
        while end > row.upto:
            snapshot = await self._store.last_snapshot(row.id, end - 1)
            found = await self._folded(row, snapshot, end)
            if found is not None:
                return found
            end = snapshot
        return None

    async def _folded(self, row: LogRow, snapshot: int, upto: int) -> Row | None:
        stored = await self._store.entries(row.id, max(snapshot - 1, 0), upto)
        self._count(len(stored))
        entries = [decode_entry(row.id, entry.head, {}, self._registry) for entry in stored]
        folding, found = Folding(row.id, self._world), None
        try:
            if snapshot:
                folding.begin_at(entries.pop(0))
            for _, unit in groupby(entries, lambda entry: entry.unit):
                own = list(unit)
                changed = folding.fold(own).conversation
                found = changed if changed is not None and own[-1].seq > row.upto else found
        finally:
            self._world.unload(row.id)
        return found

    def _count(self, entries: int) -> None:
        self.entries += entries
        if self.entries > self._entries_max:
            raise QueryRefused(
                f"more than {self._entries_max:,} entries (entries_max) would have to be folded: too many conversations"
                " went on since; name a later time, or raise it"
            )


def _unit(row: Row, tenant: str | None) -> Unit:
    """The row of a conversation and of its log, without entries."""
    log = LogRow(id=row[0], kind="conversation", owner=NOBODY, epoch=0, seq=0, digest=b"", tenant=tenant)
    return Unit(
        log=log.id,
        owner=NOBODY,
        epoch=0,
        previous_seq=0,
        previous=b"",
        seq=0,
        digest=b"",
        entries=[],
        payloads=[],
        messages=[],
        conversation=row,
        create=new_row(log, 0, b""),
    )
