"""A fork at the end of any unit is decided again and verified; what it shares stays its parent's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentos.components import AgentContext, CallConfig, Narrowing
from agentos.events.entry import Registry
from agentos.events.intake import Resume
from agentos.history import Identical, lineage_of, replay_log, request_of, verify_store
from agentos.ids import AgentId, Digest, Kind, LogId, Micros, hashed_id
from agentos.journal import Head, fold, seal
from agentos.kernel import Kernel
from agentos.persistence.base import LogRow, Store, StoredEntry, Verdict
from agentos.systems import SCHEDULE, run_pass
from agentos.testing.ids import SequentialSalts
from agentos.world import View, World
from tests.history.support import Desk, office

LONG = 10**9


class Anything:
    """Says yes to every slot; contexts are those of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return True

    def deadlock(self, view: View, call: int) -> bool:
        return False

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        return self._kernel.services.context(agent, depth)

    def pinned(self, digest: Digest) -> AgentContext:
        return self._kernel.services.pinned(digest)


def ends_of_units(entries: Sequence[StoredEntry]) -> list[int]:
    return [
        entry.seq
        for entry, later in zip(entries, [*entries[1:], None], strict=True)
        if not later or later.unit == later.seq
    ]


async def fork(kernel: Kernel, parent: str, upto: int) -> str | None:
    """A fork with its first unit, as the kernel would begin it; None when nothing was open there."""
    log = LogId(hashed_id(Kind.CONVERSATION, "fork", parent, str(upto)))
    shared = await kernel.store.entries(parent, 0, upto)
    slice_, times = fold(World(), log, shared, Registry())
    view = View(slice_, upto, Micros(kernel.clock.now()), [Resume(fork=True)], Anything(kernel))
    assert not run_pass(view, SCHEDULE, 1_000)
    if not view.drafts:
        return None
    row = LogRow(
        id=log,
        kind=Kind.CONVERSATION.value,
        owner=kernel.ticker.writer,
        epoch=1,
        seq=upto,
        digest=shared[-1].digest,
        root=log,
        forked_from=parent,
        upto=upto,
    )
    sealed = seal(view, Head(row=row, new=True), kernel.ticker.writer, times, SequentialSalts(), LONG)
    verdicts = kernel.store.append([sealed.unit])
    assert (verdicts if isinstance(verdicts, list) else await verdicts) == [Verdict.STORED]
    return log


async def test_a_fork_at_the_end_of_any_unit_is_decided_again_and_verified(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        asking = asyncio.ensure_future(clerk.ask("wait text=b\npeek text=c\nask_aide task='note text=d'\nfail text=e"))
        await desk.until_started(2)
        await clerk.send("note text=later")
        desk.gate.set()
        await asking
        ends = ends_of_units(await store.entries(clerk.id))
        forks = [fork_ for upto in ends if (fork_ := await fork(kernel, clerk.id, upto)) is not None]
        results = [await replay_log(store, fork_) for fork_ in forks]
        report = await verify_store(store)

    assert len(forks) > 8
    assert all(isinstance(result, Identical) and result.units == 1 for result in results), results
    assert report.ok, [str(difference) for difference in report.differences]


async def test_a_fork_shows_what_it_shares_as_its_own(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        asking = asyncio.ensure_future(clerk.ask("wait text=b"))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        row = await store.log(clerk.id)
        assert row is not None
        forked = await fork(kernel, clerk.id, row.seq)
        assert forked is not None
        tree, request = await lineage_of(store, forked), await request_of(store, forked)
        desk.gate.set()
        await asking

    assert [node.seq for node in tree.root.children] == [3, 13]
    assert all(node.id.startswith(f"turn_{forked.partition('_')[2]}_") for node in tree.root.children)
    assert request.matches
    assert request.conversation == forked
    assert "fork" in request.messages[-1]["text"]
