"""A fork at the end of any unit is decided again and verified; what it shares stays its parent's."""

from __future__ import annotations

import asyncio

from agentos.history import Identical, lineage_of, replay_log, request_of, verify_store
from agentos.persistence.base import Store
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, office


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
        forked = (await kernel.fork(clerk.id, row.seq)).id
        await kernel.outcome(forked)
        tree, request = await lineage_of(store, forked), await request_of(store, forked)
        desk.gate.set()
        await asking

    assert [node.seq for node in tree.root.children] == [3, 13]
    assert all(node.id.startswith(f"turn_{forked.partition('_')[2]}_") for node in tree.root.children)
    assert request.matches
    assert request.conversation == forked
    assert "fork" in request.messages[-1]["text"]
