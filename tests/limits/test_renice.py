"""Weights: given while a kernel runs, stored in the log of the program, and in force again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.components import Share, Shares
from agentos.definitions import AgentSpec
from agentos.errors import InputRefused, UnknownAgent
from agentos.events.kinds import SharesChanged
from agentos.history import verify_store
from agentos.ids import Name
from agentos.kernel import Kernel
from agentos.kernel.shares import PROGRAM_LOG
from agentos.persistence.memory import MemoryStore
from tests.support import Mind, lab


async def test_weights_are_entries_of_the_programs_log_and_hold_after_it_opens_again() -> None:
    store = MemoryStore()
    async with lab(Mind(), store=store) as here:
        stored = [await here.kernel.renice("main", 2.5), await here.kernel.renice("acme", 4, tenant=True)]
        await here.kernel.renice("acme", 4, tenant=True)
        entries = await here.kernel.history(PROGRAM_LOG)
    async with Kernel(store) as again:
        shares = await again.shares()
        await again.renice("main", 1)
        after = await again.shares()

    acme = (Share(Name("acme"), 4.0),)
    assert stored == [True, True]
    assert [type(entry.data) for entry in entries] == [SharesChanged, SharesChanged]
    assert shares == Shares(agents=(Share(Name("main"), 2.5),), tenants=acme)
    assert after == Shares(tenants=acme)


async def test_a_store_with_weights_verifies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    async with Kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"))
        await kernel.renice("main", 3)
        await kernel.renice("main", 2)
        report = await verify_store(kernel.store)
        rows = (await kernel.query("select type, body from components where type = 'shares'")).rows

        assert report.ok, report.differences
        assert [(type_, "2.0" in body) for type_, body in rows] == [("shares", True)]


@pytest.mark.parametrize("weight", [0, -1, 0.0001, 1001, float("inf"), float("nan")])
async def test_a_weight_out_of_bounds_is_refused_with_both_bounds(weight: float) -> None:
    async with lab(Mind()) as here:
        with pytest.raises(InputRefused, match=r"between 0\.001 and 1000"):
            await here.kernel.renice("main", weight)

        assert await here.kernel.shares() == Shares()


async def test_an_agent_that_the_store_never_had_is_refused_and_a_tenant_needs_no_leave() -> None:
    async with lab(Mind()) as here:
        with pytest.raises(UnknownAgent):
            await here.kernel.renice("nobody", 2)

        assert await here.kernel.renice("nobody", 2, tenant=True)


async def test_a_second_kernel_takes_a_weight_for_itself_and_says_that_another_keeps_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    async with Kernel(url) as first, Kernel(url) as second:
        kept = await first.renice("acme", 2, tenant=True)
        taken = await second.renice("acme", 3, tenant=True)
        shares = (await first.shares(), await second.shares())

    assert (kept, taken) == (True, False)
    assert [one.tenants[0].weight for one in shares] == [2.0, 3.0]
