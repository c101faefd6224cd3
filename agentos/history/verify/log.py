"""The check of one log: its chain, the fold of its entries, and the rows that stand in the tables for it.

Heads are decoded once, for the chain and for the fold. A fork is folded from the last snapshot that it shares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

from agentos.components import AgentConfig, Component, ToolboxConfig, TurnConfig
from agentos.errors import CodecError
from agentos.events.entry import Head, Registry, decode_entry, seed_digest
from agentos.history.anchors.anchor import Anchors
from agentos.history.anchors.check import check_log, wanted_seqs
from agentos.history.pages import Page, Said
from agentos.history.reading import stored_pages
from agentos.history.report import Finder
from agentos.history.verify.chain import Chain
from agentos.history.verify.children import Family
from agentos.history.verify.rows import FoldedRows, compare_messages, compare_table
from agentos.history.verify.snapshots import compare_snapshot
from agentos.history.verify.tables import ORPHANED, Tables, messages_of
from agentos.history.verify.waiting import LogFacts, Pinned, times_waited_for
from agentos.ids import Digest, LogId
from agentos.persistence.base import LogRow, Store, StoredEntry

UNITS_AT_ONCE = 64
"""How many units are chained before they are folded: two short loops are quicker than a long one, as long as what the first
leaves is in the processor's caches still."""


class LogCheck:
    """Checks one log after the other. pinned collects the definitions that they name, with the first place of each;
    families, what each says of the logs below it."""

    def __init__(self, store: Store, registry: Registry, writers: Collection[int], anchors: Anchors | None) -> None:
        self.pinned: dict[Digest, Pinned] = {}
        self.families: dict[str, Family] = {}
        self._store, self._registry = store, registry
        self._writers, self._anchors = writers, anchors

    async def check(self, row: LogRow, n: int, tables: Tables, finder: Finder) -> tuple[LogFacts, int, int]:
        """What is left of the log for checks across logs, and how many entries and payloads were read.

        Errors: StoreDamaged when the store itself lost a part of the log.
        """
        shared = row.upto if row.forked_from is not None else 0
        chain = Chain(shared, await self._digest_before(row, shared), finder, wanted_seqs(row.id, self._anchors))
        rows = FoldedRows(row.id)
        said: Said = {}
        family = self.families[row.id] = Family()
        folded = await self._read(row, tables.pages.of(row, n), chain, rows, said, finder)
        chain.end(row.seq, row.digest)
        config = rows.folding.config
        family.end(rows.tables["calls"], is_child=(config or row).parent_call is not None)
        if self._anchors is not None:
            check_log(row, chain.passed, self._anchors, finder)
        messages = await self._check_messages(n, tables, chain, said, finder)
        await self._check_orphans(n, tables, chain.values.count - messages, finder)
        for table, cursor in tables.projections.items():
            stored = await cursor.of(n)
            if folded:
                compare_table(table, rows.tables[table], stored, finder)
        if folded:
            self._check_row(row, rows, finder)
        if row.erased_at != chain.values.erased_at:
            finder.differ(0, "logs", "erased_at", row.erased_at, chain.values.erased_at)
        return _facts(chain, rows, folded=folded), chain.entries, chain.values.count

    async def _read(
        self, row: LogRow, pages: AsyncIterator[Page], chain: Chain, rows: FoldedRows, said: Said, finder: Finder
    ) -> bool:
        """Whether the whole log could be folded. said takes up the messages that are read with the entries."""
        folded = not chain.seq or await self._fold_shared(row, chain.seq, rows, finder)
        take = self.families[row.id].take
        async for units, columns, messages in pages:
            said.update(messages or {})
            for first in range(0, len(units), UNITS_AT_ONCE):
                checked = []
                for unit in units[first : first + UNITS_AT_ONCE]:
                    heads = chain.add(unit, columns)
                    take(unit, heads)
                    checked.append((unit, heads, chain.gaps))
                for unit, heads, gaps in checked:
                    folded = folded and not gaps and self._fold(unit, heads, rows, finder)
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

    def _fold(self, unit: Sequence[StoredEntry], heads: Sequence[Head], rows: FoldedRows, finder: Finder) -> bool:
        try:
            if len(heads) < len(unit):
                raise CodecError("one of its entries has no head")
            changed = rows.add_heads(heads, self._registry)
            for component, head in changed.naming:
                self._note_definition(rows.log, head, component)
            for snapshot in changed.snapshots:
                compare_snapshot(snapshot, rows.folding.rows, finder)
        except Exception as error:  # what was edited may follow no rule at all
            finder.differ(unit[0].seq, "entries", "head", f"cannot be folded: {_said(error)}", "an entry")
            return False
        return True

    def _note_definition(self, log: LogId, head: Head, component: Component) -> None:
        """A context is named with its unit, an agent and a toolset with their entry."""
        if type(component) is TurnConfig:
            self.pinned.setdefault(component.context, Pinned(log, head.unit, "context"))
        elif type(component) is AgentConfig:
            self.pinned.setdefault(component.definition, Pinned(log, head.seq, "agent"))
        elif type(component) is ToolboxConfig and component.toolset:
            self.pinned.setdefault(component.toolset, Pinned(log, head.seq, "toolset"))

    async def _digest_before(self, row: LogRow, shared: int) -> bytes:
        """What the chain of a log starts from: in a fork, the digest of the last entry that it shares."""
        before = await self._store.entries(row.id, shared - 1, shared) if shared else []
        return before[0].digest if before else seed_digest(row.id)

    async def _check_messages(self, n: int, tables: Tables, chain: Chain, said: Said, finder: Finder) -> int:
        """How many there are. They are read by themselves only where those that came with the entries are not all right."""
        count: int = sum(found for (found,) in await tables.message_counts.of(n))
        if count != len(said) or said != chain.messages:
            compare_messages(chain.messages, await messages_of(self._store, n).of(n), finder)
        return count

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
        if row.forked_from is None and row.upto:
            finder.differ(0, "logs", "upto", row.upto, 0)
        if row.forked_from is not None and not row.upto:
            finder.differ(0, "logs", "forked_from", row.forked_from, None)
        config = rows.folding.config
        begun = {name: getattr(config, name, None) for name in ("root", "parent_call", "tenant")}
        if row.forked_from is not None:  # its first entries are another's, and older ones say nothing else later
            begun |= {"root": row.id, "parent_call": None}
        for name, expected in begun.items():
            if getattr(row, name) != expected:
                finder.differ(0, "logs", name, getattr(row, name), expected)


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
