"""Calls at once, and whose call comes in next where a toolbox, a pool or a bound is full."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentos.components import ToolboxSharing
from agentos.events.model import ModelRequest, Role
from agentos.ports import CallContext
from agentos.settings import Settings
from tests.resources.lending import notes_of
from tests.support import Lab, Mind, call, calls, lab, settled

Others = dict[str, tuple[Mind, Mapping[str, Any]]]


class Works:
    """A tool whose calls end when they are told to, oldest first."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.most = 0
        self._open: list[asyncio.Future[None]] = []

    async def work(self, who: str) -> str:
        self.began.append(who)
        door: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.append(door)
        self.most = max(self.most, len(self._open))
        try:
            await door
        finally:
            self._open.remove(door)
        return "worked"

    def end_one(self) -> bool:
        if not self._open:
            return False
        self._open[0].set_result(None)
        return True


def asks(request: ModelRequest) -> Any:
    """`a b`: a call of work for each word."""
    if request.messages[-1].role is Role.TOOL:
        return "done"
    return calls(*(call("work", who=who) for who in request.messages[-1].text.split()))


def mind() -> Mind:
    return Mind(*[asks] * 400)


async def going(here: Lab, *texts: str, agent: str = "main") -> list[asyncio.Task[Any]]:
    asked = []
    for text in texts:
        asked.append(asyncio.create_task((await here.kernel.start(agent)).ask(text)))
        await settled(here.kernel)
    return asked


async def end_all(here: Lab, works: Works) -> None:
    while works.end_one():
        await settled(here.kernel)


@pytest.mark.parametrize(
    ("bounds", "spec", "most"),
    [
        ({"calls_max": 3}, {}, 3),
        ({"agent_calls_max": 2}, {}, 2),
        ({"conversation_calls_max": 1}, {}, 2),
        ({}, {"calls_at_once": 2}, 2),
        ({"agent_calls_max": 1}, {"calls_at_once": 4}, 4),
        ({"calls_max": 2, "agent_calls_max": 3, "conversation_calls_max": 3}, {}, 2),
        ({"tenant_calls_max": 1}, {}, 8),
    ],
)
async def test_no_more_calls_run_than_a_bound_allows_and_all_of_them_run(
    bounds: dict[str, Any], spec: dict[str, Any], most: int
) -> None:
    works = Works()
    async with lab(mind(), [works.work], options={"settings": Settings(**bounds)}, **spec) as here:
        asked = await going(here, "a b c d", "e f g h")
        await end_all(here, works)
        await asyncio.gather(*asked)

        assert works.most == most
        assert sorted(works.began) == list("abcdefgh")
        assert here.kernel.slots.at_once is None or not here.kernel.slots.at_once.statistics()


async def test_a_call_that_waits_for_its_place_is_cancelled_with_its_turn_and_frees_it() -> None:
    works = Works()
    async with lab(mind(), [works.work], options={"settings": Settings(calls_max=1)}) as here:
        (one,) = await going(here, "a")
        waiting = await here.start()
        two = asyncio.create_task(waiting.ask("b"))
        await settled(here.kernel)
        (three,) = await going(here, "c")
        await waiting.interrupt()
        outcome = await two
        await end_all(here, works)
        await asyncio.gather(one, three)

        assert outcome.outcome.value == "cancelled"
        assert works.began == ["a", "c"]


async def test_inner_calls_go_by_the_place_of_the_call_that_asked() -> None:
    async def twice(ctx: CallContext) -> str:
        return "".join([(await ctx.call("inner", {})).text for _ in range(2)])

    async def inner() -> str:
        return "x"

    options = {"settings": Settings(calls_max=1)}
    async with lab(Mind(calls(call("twice")), "done"), [twice, inner], options=options) as here:
        outcome = await here.ask()

        assert (outcome.text, here.minds["main"].results) == ("done", ["xx"])


@pytest.mark.parametrize("sharing", [ToolboxSharing.EXCLUSIVE, ToolboxSharing.POOL, ToolboxSharing.READ_WRITE])
async def test_a_noisy_agent_delays_the_call_of_another_in_a_shared_toolbox_by_one(sharing: ToolboxSharing) -> None:
    works = Works()
    others: Others = {"quiet": (mind(), {})}
    async with lab(mind(), [works.work], sharing=sharing, size=1, others=others) as here:
        many = await going(here, " ".join(f"n{n}" for n in range(40)))
        (one,) = await going(here, "quiet", agent="quiet")
        await end_all(here, works)
        await asyncio.gather(*many, one)

        assert works.began.index("quiet") <= 2
        assert len(works.began) == 41


async def test_calls_in_a_shared_toolbox_share_by_weight() -> None:
    works = Works()
    others: Others = {"heavy": (mind(), {})}
    async with lab(mind(), [works.work], sharing=ToolboxSharing.EXCLUSIVE, others=others) as here:
        await here.kernel.renice("heavy", 3)
        light = await going(here, " ".join(f"light{n}" for n in range(30)))
        heavy = await going(here, " ".join(f"heavy{n}" for n in range(30)), agent="heavy")
        await end_all(here, works)
        await asyncio.gather(*light, *heavy)
        shared = [who.rstrip("0123456789") for who in works.began[1:33]]

        assert 23 <= shared.count("heavy") <= 25


@pytest.mark.parametrize(
    ("bounds", "bound"), [({"calls_max": 1}, "calls_max"), ({"agent_calls_max": 1}, "agent_calls_max:main")]
)
async def test_a_call_that_waits_long_at_a_bound_is_an_entry_once(bounds: dict[str, Any], bound: str) -> None:
    works = Works()
    options = {"settings": Settings(**bounds, wait_warn_s=10)}
    async with lab(mind(), [works.work], options=options) as here:
        first, second = await here.start(), await here.start()
        asked = [asyncio.create_task(first.ask("a"))]
        await settled(here.kernel)
        asked.append(asyncio.create_task(second.ask("b")))
        await here.advance(5)
        early = await notes_of(second)
        for _ in range(5):
            await here.advance(5)
        await end_all(here, works)
        await asyncio.gather(*asked)
        noted = [what for _, what in await notes_of(second)]

        assert (early, [(one.what.value, one.resource, one.of) for one in noted]) == ([], [("starved", bound, "bound")])
        assert [holder.agent for link in noted[0].cycle for holder in link.holders] == ["main"]
        assert await notes_of(first) == []
