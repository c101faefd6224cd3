"""What the demo prints: all of it read from the World or the store, in ways that are open to anybody."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from agentos import Kernel, RunOutcome
from agentos.components import CallState, CallStatus, ConversationConfig, Phase, TurnState
from agentos.history import Divergence, Identical, lineage_of, render_tree, replay_all, verify_store
from agentos.interfaces.cli.demo.leaks import Held
from agentos.interfaces.cli.demo.notes import Notebook
from agentos.interfaces.cli.demo.sampling import Sample
from agentos.interfaces.cli.output import bold, counted, put, put_table
from agentos.interfaces.cli.ps import COLUMNS, as_row, with_tenants
from agentos.kernel.listing import Listing, list_conversations
from agentos.kernel.reading import Reading, reading

SHOWN = 10

QUERIES = (
    "select state, depth, count(*) as conversations from conversations group by state, depth",
    "select tool, status, count(*) as calls, round(avg(ms), 1) as mean_ms from tool_calls group by tool, status",
    "select agent, count(*) as n, sum(input_tokens + output_tokens) as tokens from conversations group by agent",
)

MESSAGES = "select agent, role, text from conversations join messages using (n) limit 20"
SLOWEST = "select tool, round(ms) as ms, arguments from tool_calls order by ms desc limit 10"


class Report:
    """Prints the demo's sections in the order of its methods."""

    def opening(self, folder: Path, seed: int, drawn: Sample, count: int) -> None:
        put(f"{count} conversations on {counted(len(drawn.files), 'text file')} of {folder.absolute()} (--seed {seed})")
        put("  librarian asks searcher and walker, walker asks itself once more, clerk works alone")
        put("  toolbox files: three scripts, a pool of 4; toolbox notes: Python over a SQLite file, exclusive")

    def glance(self, kernel: Kernel, after_s: float) -> None:
        """What the World says while everybody works."""
        conversations = len(kernel.world.find(ConversationConfig))
        turns = sum(state.phase is not Phase.SETTLED for _, state in kernel.world.find(TurnState))
        calls = kernel.world.find(CallState, status=CallStatus.STARTED)
        delegated = sum(state.child is not None for _, state in calls)
        put(f"\nAfter {after_s:.1f} s the World holds {conversations} conversations, {turns} of them at work")
        put(f"  {counted(delegated, 'call')} with other agents")
        for room in kernel.slots.statistics():
            put(f"  toolbox {room.toolbox}: {len(room.holders)} inside, {len(room.waiters)} waiting")

    def played(self, outcomes: Sequence[RunOutcome], took_s: float) -> None:
        counts = Counter(str(outcome) for outcome in outcomes)
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        put(f"After {took_s:.1f} s all {len(outcomes)} have their answer: {said}")

    async def tell(self, url: str, notes: Notebook) -> bool:
        """What the store has, read after the kernel is closed; whether replay and verify found it in order."""
        async with reading(url) as store:
            await self._processes(store)
            for sql in QUERIES:
                await self._query(store, sql)
            await self._lineage(store)
            self._notes(notes)
            return await self._replay(store) & await self._verify(store)

    def held(self, before: Held, after: Held) -> None:
        self._title("What the process holds, before and after")
        rows = [(name, getattr(before, name), getattr(after, name)) for name in Held.__struct_fields__]
        put_table(("", "before", "after"), [(name, _known(first), _known(last)) for name, first, last in rows])
        put("equal" if before == after else "NOT equal: something was not given back")

    def farewell(self, url: str) -> None:
        command = f"agentos --store {shlex.quote(url)}"
        put("\nThe store stays; ask it yourself:")
        for rest in ("ps", f'query "{MESSAGES}"', f'query "{SLOWEST}"'):
            put(f"  {command} {rest}")

    async def _processes(self, store: Reading) -> None:
        page = await list_conversations(store.store, Listing(limit=SHOWN))
        shown = len(page.conversations)
        self._title(f"agentos ps: the first {shown} of {shown + page.more}")
        put_table(*with_tenants(COLUMNS, [(row.tenant, as_row(row)) for row in page.conversations]))

    async def _query(self, store: Reading, sql: str) -> None:
        self._title(f'agentos query "{sql}"')
        found = await store.query(sql)
        put_table(found.columns, found.rows)

    async def _lineage(self, store: Reading) -> None:
        """Of the conversation that goes down furthest."""
        deepest = "select root from conversations order by depth desc, started_at limit 1"
        for (root,) in (await store.query(deepest)).rows:
            self._title(f"agentos lineage {root}")
            put(render_tree(await lineage_of(store.store, root)))

    async def _replay(self, store: Reading) -> bool:
        self._title("agentos replay: all decided again from the log, without a model or a tool")
        results = [result async for result in replay_all(store.store)]
        diverged = [result for result in results if isinstance(result, Divergence)]
        identical = [result for result in results if isinstance(result, Identical)]
        for result in diverged:
            put(f"{result.log}: {result}")
        put(f"identical: {len(identical)} conversations, {sum(result.entries for result in identical)} entries")
        return not diverged

    async def _verify(self, store: Reading) -> bool:
        self._title("agentos verify: digests, commitments and tables computed anew")
        report = await verify_store(store.store)
        put(str(report))
        for difference in report.differences:
            put(f"  {difference}")
        return report.ok

    def _notes(self, notes: Notebook) -> None:
        self._title("Notes")
        put(f"{counted(notes.count(), 'note')} in {notes.path}")
        put(f"calls that read and wrote there: never more than {notes.most_at_once} inside at once")

    def _title(self, text: str) -> None:
        put()
        print(bold(text, sys.stdout))


def _known(count: int | None) -> object:
    return "unknown here" if count is None else count
