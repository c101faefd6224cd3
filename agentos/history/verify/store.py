"""Verify: is what is stored what was written? Digests and commitments anew over raw bytes, tables anew from the log.

Every log is read once: its chain is checked, its entries are folded, and the rows that stand in the tables are compared
with those that the fold gives. Then come the checks across logs: inbox, wake-ups, definitions, rows of no log. The
store may be at work meanwhile: a log that moved on while it was read is read again.

A store can tell that something in it was edited, not that it was put back or made anew as a whole: for that, anchors are
kept apart from it, and given here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence

from agentos.errors import StoreDamaged, UnknownConversation
from agentos.events.entry import Registry
from agentos.history.anchors.anchor import Anchors
from agentos.history.anchors.check import STORE, check_gone, check_rolled_back, prove
from agentos.history.anchors.keys import AnchorKey
from agentos.history.collecting import rarely_collected
from agentos.history.pages import numbers_of
from agentos.history.report import Difference, Finder, Proof, Report
from agentos.history.verify.children import check_children
from agentos.history.verify.log import LogCheck
from agentos.history.verify.tables import LOG_NUMBER, ORPHANS, Tables
from agentos.history.verify.waiting import LogFacts, check_definitions, check_inbox, check_wakeups
from agentos.persistence.base import LogRow, Store
from agentos.persistence.shape import Shaped

TRIES = 3
"""How often a log that moves on while it is read is read again."""
LASTING = frozenset({("entries", "head"), ("entries", "digest"), ("payloads", "body"), ("messages", "text")})
"""What may be compared in a log that still moves on: nobody writes these again."""


async def verify_store(
    store: Store,
    *,
    log: str | None = None,
    anchors: Anchors | None = None,
    keys: Sequence[AnchorKey] = (),
    registry: Registry | None = None,
    differences_max: int = 1_000,
) -> Report:
    """Recomputes everything that can be recomputed, and names log, seq, table and field of what differs.

    With a log, only that one is looked at, and those that it forks from. anchors are what a file kept apart says of the
    store, keys those that may have proven them.

    Errors: UnknownConversation for a log that neither store nor anchors have; StoreUnavailable, StoreDamaged when tables
    cannot be read at all.
    """
    check = _Verification(store, registry or Registry(), anchors)
    with rarely_collected():
        await (check.check_all() if log is None else check.check_one(log))
    return check.report(differences_max, prove(anchors, keys) if anchors is not None else None)


class _Verification:
    """One verification of one store."""

    def __init__(self, store: Store, registry: Registry, anchors: Anchors | None) -> None:
        self._store, self._registry, self._anchors = store, registry, anchors
        self._check = LogCheck(store, registry, frozenset(), anchors)
        self._finders: dict[str, Finder] = {}
        self._facts: dict[str, LogFacts] = {}
        self._shape: list[Difference] = []
        self._counts: dict[str, tuple[int, int]] = {}

    async def check_all(self) -> None:
        """Its shape first, since a value that is not of its type may be like nothing that the other checks know."""
        await self._check_shape()
        await self._as_far_as_can_be(self._check_all())

    async def _check_shape(self, *, rows: bool = True) -> None:
        """Whether the database itself is as its schema has it; see `Shaped`."""
        named: list[Difference] = []
        for misfit in await self._store.misfits(rows=rows) if isinstance(self._store, Shaped) else ():
            finder = Finder(misfit.log or STORE)
            finder.differ(misfit.seq, misfit.table, misfit.field, misfit.stored, misfit.expected)
            named += finder.found
        self._shape = named

    async def _as_far_as_can_be(self, checks: Awaitable[None]) -> None:
        """What stands in a table of another shape may be of any type, and compare with nothing."""
        try:
            await checks
        except (AttributeError, TypeError, ValueError, StoreDamaged) as error:
            await self._check_shape()
            if not self._shape:
                raise
            why = error.reason if isinstance(error, StoreDamaged) else type(error).__name__
            unread = f"not read to the end: {why}"
            self._finder(STORE).differ(0, "schema", "rows", unread, "rows of the types of their columns")

    async def _check_all(self) -> None:
        rows: dict[str, LogRow] = {row.id: row for row in await self._store.logs()}
        writer = await self._begin()
        tables = Tables(self._store, 1)
        numbers = await numbers_of(self._store)
        for n, log in numbers:
            if log in rows:
                await self._check_whole(rows[log], n, tables)
        for log in rows.keys() - {log for _, log in numbers}:
            self._finder(log).differ(0, "logs", "n", "below 1", "a number from 1 on, as stores give them")
        await self._check_across(None)
        if self._anchors is not None:
            check_gone(rows, self._anchors, self._anchors.heads, self._finder)
            check_rolled_back(list(rows.values()), writer, self._anchors, self._finder(STORE))

    async def check_one(self, log: str) -> None:
        """Parents first."""
        await self._check_shape(rows=False)
        await self._as_far_as_can_be(self._check_line(log))

    async def _check_line(self, log: str) -> None:
        await self._begin()
        line = await self._line(log)
        for row in reversed(line):
            for (n,) in (await self._store.query(LOG_NUMBER, (row.id,))).rows:
                await self._check_whole(row, n, Tables(self._store, n, whole=False))
        await self._check_across([row.id for row in line])

    async def _begin(self) -> int:
        """The highest number of a writer."""
        writers = frozenset(n for (n,) in (await self._store.query("select n from writers")).rows)
        self._check = LogCheck(self._store, self._registry, writers, self._anchors)
        return max(writers, default=0)

    async def _line(self, log: str) -> list[LogRow]:
        """The log and those that it forks from; empty for one that is gone, which is named."""
        row = await self._store.log(log)
        if row is None and (self._anchors is None or log not in self._anchors.heads):
            raise UnknownConversation(log[:80])
        if row is None and self._anchors is not None:
            check_gone((), self._anchors, [log], self._finder)
        line: list[LogRow] = []
        while row is not None and row not in line:
            line.append(row)
            row = await self._store.log(row.forked_from) if row.forked_from is not None else None
        return line

    async def _check_whole(self, row: LogRow, n: int, tables: Tables) -> None:
        """A log of which the store itself lost a part is named, and the others are checked. What cannot be read together
        with others is read by itself, so that the right one is named."""
        lost = ""
        for those in (tables, Tables(self._store, n, whole=False)):
            try:
                await self._check_log(row, n, those)
                await self._check_again(row, n)
            except StoreDamaged as damaged:
                lost = damaged.reason
            else:
                return
        self._finder(row.id).differ(row.seq, "logs", "units", lost, "a whole log")

    async def _check_log(self, row: LogRow, n: int, tables: Tables) -> None:
        finder = self._finders[row.id] = Finder(row.id)
        self._facts[row.id], *counts = await self._check.check(row, n, tables, finder)
        self._counts[row.id] = (counts[0], counts[1])

    async def _check_again(self, row: LogRow, n: int) -> None:
        """What differs in a log that somebody wrote to meanwhile may be no difference."""
        finder = self._finders[row.id]
        for _ in range(TRIES):
            now = await self._store.log(row.id) if finder.found else row
            if now is None or now.seq == row.seq:
                return
            row = now
            await self._check_log(row, n, Tables(self._store, n, whole=False))
            finder = self._finders[row.id]
        finder.found = [difference for difference in finder.found if (difference.table, difference.field) in LASTING]

    async def _check_across(self, logs: Iterable[str] | None) -> None:
        """What belongs to all logs, or to some."""
        across: dict[str, Finder] = {}

        def finder_of(log: str) -> Finder:
            return across.setdefault(log, Finder(log))

        names = list(logs) if logs is not None else None
        await check_inbox(self._store, self._facts, finder_of, names)
        await check_wakeups(self._store, self._facts, finder_of, names)
        await check_definitions(self._store, self._check.pinned, finder_of, whole=names is None)
        if names is None:
            seqs = {log: known.seq for log, known in self._facts.items()}
            families = {log: family for log, family in self._check.families.items() if log in seqs}
            await check_children(self._store, families, seqs, finder_of)
        for damage in await self._store.damages():
            whole = Difference(STORE, 0, "files", "lines", str(damage), "as they were written")
            finder_of(STORE).found.append(whole)
        for table, sql in ORPHANS.items() if names is None else ():
            for (n,) in (await self._store.query(sql)).rows:
                finder_of(f"log number {n}").differ(0, table, "row", "rows of a log that is not there", None)
        await self._keep(across)

    async def _keep(self, across: Mapping[str, Finder]) -> None:
        for log, finder in across.items():
            if finder.found and not await self._moved(log):
                self._finder(log).found += finder.found

    async def _moved(self, log: str) -> bool:
        """Whether somebody wrote to the log since it was read."""
        now, known = await self._store.log(log), self._facts.get(log)
        return now is not None and (known is None or now.seq > known.seq)

    def _finder(self, log: str) -> Finder:
        return self._finders.setdefault(log, Finder(log))

    def report(self, differences_max: int, proof: Proof | None) -> Report:
        found = [difference for finder in self._finders.values() for difference in finder.found]
        differences = [*self._shape, *found]
        if proof is not None:
            differences = [*proof.differences, *differences]
        return Report(
            logs=len(self._counts),
            entries=sum(entries for entries, _ in self._counts.values()),
            payloads=sum(payloads for _, payloads in self._counts.values()),
            differences=tuple(differences[:differences_max]),
            more=max(0, len(differences) - differences_max),
            proof=proof,
        )
