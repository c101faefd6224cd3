"""Verify: is what is stored what was written? Digests and commitments anew over raw bytes, tables anew from the log.

Every log is read once: its chain is checked, its entries are folded, and the rows that stand in the tables are compared
with those that the fold gives. Then come the checks across logs: inbox, wake-ups, definitions, rows of no log. The
store may be at work meanwhile: a log that moved on while it was read is read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentos.components import AgentConfig
from agentos.errors import CodecError, StoreDamaged
from agentos.events.entry import Entry, Registry, decode_entry, seed_digest
from agentos.history.chain import Chain
from agentos.history.reading import pinned_by, stored_units
from agentos.history.report import Difference, Finder, Report
from agentos.history.rows import FoldedRows, compare_messages, compare_table
from agentos.history.tables import LOGS, ORPHANED, ORPHANS, PAGE_ROWS, Tables
from agentos.history.waiting import LogFacts, check_definitions, check_inbox, check_wakeups, times_waited_for
from agentos.ids import Digest, Kind
from agentos.persistence.base import LogRow, Store, StoredEntry
from agentos.world import World

TRIES = 3
"""How often a log that moves on while it is read is read again."""
LASTING = frozenset({("entries", "head"), ("entries", "digest"), ("payloads", "body"), ("messages", "text")})
"""What may be compared in a log that still moves on: nobody writes these again."""


async def verify_store(store: Store, *, registry: Registry | None = None, differences_max: int = 1_000) -> Report:
    """Recomputes everything that can be recomputed, and names log, seq, table and field of what differs.

    Errors: StoreUnavailable, StoreDamaged when tables cannot be read at all.
    """
    check = _Verification(store, registry or Registry())
    await check.check_logs()
    await check.check_across()
    return check.report(differences_max)


class _Verification:
    """One verification of one store."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry
        self._world = World()
        self._finders: dict[str, Finder] = {}
        self._facts: dict[str, LogFacts] = {}
        self._pinned: dict[Digest, tuple[str, int]] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._writers: set[int] = set()

    async def check_logs(self) -> None:
        rows: dict[str, LogRow] = {row.id: row for row in await self._store.logs()}
        self._writers = {n for (n,) in (await self._store.query("select n from writers")).rows}
        tables = Tables(self._store, 1)
        for n, log in await self._numbers():
            if log in rows:
                await self._check_whole(rows[log], n, tables)

    async def _numbers(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        while True:
            page = (await self._store.query(LOGS, (found[-1][0] if found else 0, PAGE_ROWS))).rows
            found += [(n, log) for n, log in page]
            if len(page) < PAGE_ROWS:
                return found

    async def _check_whole(self, row: LogRow, n: int, tables: Tables) -> None:
        """A log of which the store itself lost a part is named, and the others are checked."""
        try:
            await self._check_log(row, n, tables)
            await self._check_again(row, n)
        except StoreDamaged as damaged:
            self._finders[row.id].differ(row.seq, "logs", "units", damaged.reason, "a whole log")

    async def _check_again(self, row: LogRow, n: int) -> None:
        """What differs in a log that somebody wrote to meanwhile may be no difference."""
        finder = self._finders[row.id]
        for _ in range(TRIES):
            now = await self._store.log(row.id) if finder.found else row
            if now is None or now.seq == row.seq:
                return
            row = now
            await self._check_log(row, n, Tables(self._store, n, page=500))
            finder = self._finders[row.id]
        finder.found = [difference for difference in finder.found if (difference.table, difference.field) in LASTING]

    async def _check_log(self, row: LogRow, n: int, tables: Tables) -> None:
        finder = self._finders[row.id] = Finder(row.id)
        shared = row.upto if row.forked_from is not None else 0
        chain = Chain(shared, await self._digest_before(row, shared), finder)
        rows = FoldedRows(row.id, self._world)
        try:
            folded = await self._read(row, n, tables, chain, rows)
            chain.end(row.seq, row.digest)
            self._counts[row.id] = (chain.entries, chain.payloads)
            self._facts[row.id] = _facts(chain, rows, folded=folded)
            compare_messages(chain.messages, messages := await tables.messages.of(n), finder)
            await self._check_orphans(n, tables, chain.payloads - len(messages), finder)
            for table, cursor in tables.projections.items():
                stored = await cursor.of(n)
                if folded:
                    compare_table(table, rows.tables[table], stored, finder)
            if folded:
                self._check_row(row, rows, finder)
        finally:
            self._world.unload(row.id)

    async def _read(self, row: LogRow, n: int, tables: Tables, chain: Chain, rows: FoldedRows) -> bool:
        """Whether the whole log could be folded."""
        columns = {seq: (turn, call, at) for seq, turn, call, at in await tables.entries.of(n)}
        folded, shared = True, chain.seq
        async for unit in stored_units(self._store, row.id):
            own = unit[0].seq > shared
            if own:
                chain.add(unit, columns)
            folded = folded and not chain.gaps and self._fold(row, unit, rows, own=own)
        return folded

    def _fold(self, row: LogRow, unit: Sequence[StoredEntry], rows: FoldedRows, *, own: bool) -> bool:
        try:
            entries = [decode_entry(row.id, stored.head, {}, self._registry) for stored in unit]
            self._note_definitions(entries)
            rows.add(entries, own=own)
        except Exception as error:  # what was edited may follow no rule at all
            why = str(error) if isinstance(error, CodecError) else type(error).__name__
            self._finders[row.id].differ(unit[0].seq, "entries", "head", f"cannot be folded: {why}", "an entry")
            return False
        return True

    def _note_definitions(self, entries: Sequence[Entry]) -> None:
        for digest in pinned_by(entries):
            self._pinned.setdefault(digest, (entries[0].log, entries[0].seq))
        for entry in entries:
            for _, component in entry.changes:
                if isinstance(component, AgentConfig):
                    self._pinned.setdefault(component.definition, (entry.log, entry.seq))

    async def _digest_before(self, row: LogRow, shared: int) -> bytes:
        """What the chain of a log starts from: in a fork, the digest of the last entry that it shares."""
        before = await self._store.entries(row.id, shared - 1, shared) if shared else []
        return before[0].digest if before else seed_digest(row.id)

    async def _check_orphans(self, n: int, tables: Tables, expected: int, finder: Finder) -> None:
        """Payload rows whose entry is not there are found by their number, and only then looked for."""
        found = sum(count for (count,) in await tables.payloads.of(n))
        if found != expected:
            for seq, i, name in (await self._store.query(ORPHANED, (n,))).rows:
                finder.differ(seq, "payloads", "row", f"value {i}, {name}", None)

    def _check_row(self, row: LogRow, rows: FoldedRows, finder: Finder) -> None:
        """What the row of a log says beside its head."""
        if row.id.partition("_")[0] != row.kind:
            finder.differ(0, "logs", "kind", row.kind, row.id.partition("_")[0])
        if row.owner and row.owner not in self._writers:
            finder.differ(0, "logs", "owner", row.owner, "a writer")
        config = rows.folding.config
        if config is None or row.kind != Kind.CONVERSATION.value or row.forked_from is not None:
            return
        for name in ("root", "parent_call", "tenant"):
            if getattr(row, name) != getattr(config, name):
                finder.differ(0, "logs", name, getattr(row, name), getattr(config, name))

    async def check_across(self) -> None:
        across: dict[str, Finder] = {}

        def finder_of(log: str) -> Finder:
            return across.setdefault(log, Finder(log))

        await check_inbox(self._store, self._facts, finder_of)
        await check_wakeups(self._store, self._facts, finder_of)
        await check_definitions(self._store, self._pinned, finder_of)
        for damage in await self._store.damages():
            whole = Difference("store", 0, "files", "lines", str(damage), "as they were written")
            finder_of("store").found.append(whole)
        for table, sql in ORPHANS.items():
            for (n,) in (await self._store.query(sql)).rows:
                finder_of(f"log number {n}").differ(0, table, "row", "rows of a log that is not there", None)
        for log, finder in across.items():
            if finder.found and not await self._moved(log):
                self._finders.setdefault(log, Finder(log)).found += finder.found

    async def _moved(self, log: str) -> bool:
        """Whether somebody wrote to the log since it was read."""
        now, known = await self._store.log(log), self._facts.get(log)
        return now is not None and (known is None or now.seq > known.seq)

    def report(self, differences_max: int) -> Report:
        differences = [difference for finder in self._finders.values() for difference in finder.found]
        return Report(
            logs=len(self._counts),
            entries=sum(entries for entries, _ in self._counts.values()),
            payloads=sum(payloads for _, payloads in self._counts.values()),
            differences=tuple(differences[:differences_max]),
            more=max(0, len(differences) - differences_max),
        )


def _facts(chain: Chain, rows: FoldedRows, *, folded: bool) -> LogFacts:
    if not folded:
        return LogFacts(seq=chain.seq, open_turn=None)
    open_ = rows.folding.open_turn
    if open_ is None:
        return LogFacts(seq=chain.seq)
    turn, config, state = open_
    return LogFacts(
        seq=chain.seq, open_turn=turn, due=times_waited_for(state.phase, state.retry_at, config.deadline_at)
    )
