"""The check of one log: its chain, the fold of its entries, and the rows that stand in the tables for it.

Heads are decoded once, for the chain and for the fold. A fork is folded from the last snapshot that it shares.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentos.components import AgentConfig, TurnConfig
from agentos.errors import CodecError
from agentos.events.entry import Entry, Head, Registry, bare_entry_of, decode_entry, seed_digest
from agentos.history.anchors.anchor import Anchors
from agentos.history.anchors.check import check_log, wanted_seqs
from agentos.history.reading import stored_pages
from agentos.history.report import Finder
from agentos.history.verify.chain import Chain
from agentos.history.verify.rows import FoldedRows, compare_messages, compare_table
from agentos.history.verify.tables import ORPHANED, Tables
from agentos.history.verify.waiting import LogFacts, times_waited_for
from agentos.ids import Digest, Kind, LogId
from agentos.persistence.base import LogRow, Store, StoredEntry


class LogCheck:
    """Checks one log after the other. pinned collects the definitions that they name, with the first place of each."""

    def __init__(self, store: Store, registry: Registry, writers: Collection[int], anchors: Anchors | None) -> None:
        self.pinned: dict[Digest, tuple[str, int]] = {}
        self._store, self._registry = store, registry
        self._writers, self._anchors = writers, anchors

    async def check(self, row: LogRow, n: int, tables: Tables, finder: Finder) -> tuple[LogFacts, int, int]:
        """What is left of the log for checks across logs, and how many entries and payloads were read.

        Errors: StoreDamaged when the store itself lost a part of the log.
        """
        shared = row.upto if row.forked_from is not None else 0
        chain = Chain(shared, await self._digest_before(row, shared), finder, wanted_seqs(row.id, self._anchors))
        rows = FoldedRows(row.id)
        folded = await self._read(row, n, tables, chain, rows, finder)
        chain.end(row.seq, row.digest)
        if self._anchors is not None:
            check_log(row, chain.passed, self._anchors, finder)
        compare_messages(chain.messages, messages := await tables.messages.of(n), finder)
        await self._check_orphans(n, tables, chain.payloads - len(messages), finder)
        for table, cursor in tables.projections.items():
            stored = await cursor.of(n)
            if folded:
                compare_table(table, rows.tables[table], stored, finder)
        if folded:
            self._check_row(row, rows, finder)
        return _facts(chain, rows, folded=folded), chain.entries, chain.payloads

    async def _read(self, row: LogRow, n: int, tables: Tables, chain: Chain, rows: FoldedRows, finder: Finder) -> bool:
        """Whether the whole log could be folded."""
        columns = {column[0]: column[1:] for column in await tables.entries.of(n)}
        shared, log = chain.seq, LogId(row.id)
        folded = not shared or await self._fold_shared(row, shared, rows, finder)
        async for units in stored_pages(self._store, log, shared):
            for unit in units:
                heads = chain.add(unit, columns)
                folded = folded and not chain.gaps and self._fold(log, unit, heads, rows, finder)
        return folded

    async def _fold_shared(self, row: LogRow, upto: int, rows: FoldedRows, finder: Finder) -> bool:
        """Takes what a fork shares with its parent, whose own check looks at it; from the last snapshot in it on."""
        log = LogId(row.id)
        after = await self._store.last_snapshot(log, upto)
        try:
            for snapshot in await self._store.entries(log, after - 1, after) if after else ():
                rows.folding.begin_at(decode_entry(log, snapshot.head, {}, self._registry))
            async for units in stored_pages(self._store, log, after, upto):
                for unit in units:
                    rows.folding.fold([decode_entry(log, stored.head, {}, self._registry) for stored in unit])
        except Exception as error:  # what was edited may follow no rule at all
            finder.differ(upto, "entries", "head", f"cannot be folded: {_said(error)}", "entries to fork from")
            return False
        return True

    def _fold(
        self, log: LogId, unit: Sequence[StoredEntry], heads: Sequence[Head], rows: FoldedRows, finder: Finder
    ) -> bool:
        try:
            if len(heads) < len(unit):
                raise CodecError("one of its entries has no head")
            entries = [bare_entry_of(log, head, self._registry) for head in heads]
            self._note_definitions(entries)
            rows.add(entries)
        except Exception as error:  # what was edited may follow no rule at all
            finder.differ(unit[0].seq, "entries", "head", f"cannot be folded: {_said(error)}", "an entry")
            return False
        return True

    def _note_definitions(self, entries: Sequence[Entry]) -> None:
        """Contexts are named with their unit, agents with their entry."""
        for entry in entries:
            for _, component in entry.changes:
                if type(component) is TurnConfig:
                    self.pinned.setdefault(component.context, (entry.log, entry.unit))
                elif type(component) is AgentConfig:
                    self.pinned.setdefault(component.definition, (entry.log, entry.seq))

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


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, CodecError) else type(error).__name__


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
