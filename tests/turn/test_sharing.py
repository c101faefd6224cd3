"""Toolboxes that many conversations share: who may be inside at once, and in which order they come in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentos.components import ToolboxSharing
from agentos.events.model import ModelRequest, Role
from agentos.kernel import RunOutcome
from agentos.ports import CallContext
from agentos.toolboxes.python import tool
from tests.support import Lab, Mind, call, calls, entries_of, lab, results, settled, until


class Room:
    """A toolbox that knows who is inside, and lets nobody out until told."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.came: list[str] = []
        self.most = 0
        self._out: dict[str, asyncio.Event] = {}

    async def stay(self, name: str, who: str) -> str:
        self.inside.append(who)
        self.came.append(who)
        self.most = max(self.most, len(self.inside))
        try:
            await self._out.setdefault(who, asyncio.Event()).wait()
        finally:
            self.inside.remove(who)
        return f"{who} was in"

    def let_out(self, who: str) -> None:
        self._out.setdefault(who, asyncio.Event()).set()

    def tools(self) -> Sequence[Any]:
        @tool(access="read")
        async def read(who: str) -> str:
            return await self.stay("read", who)

        @tool(access="write")
        async def write(who: str) -> str:
            return await self.stay("write", who)

        return [read, write]


def obey(request: ModelRequest) -> Any:
    """`write ann read bob`: a call for each pair of words."""
    if request.messages[-1].role is Role.TOOL:
        return "done"
    words = request.messages[-1].text.split()
    return calls(*(call(name, who=who) for name, who in zip(words[::2], words[1::2], strict=True)))


def obedient() -> Mind:
    return Mind(*[obey] * 60)


async def going(here: Lab, *texts: str, agent: str = "main") -> list[asyncio.Task[RunOutcome]]:
    """One new conversation for each text, in this order."""
    asked = []
    for text in texts:
        conversation = await here.kernel.start(agent)
        asked.append(asyncio.create_task(conversation.ask(text)))
        await settled(here.kernel)
    return asked


async def test_an_exclusive_toolbox_lets_one_in_after_the_other_first_come_first_served() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.EXCLUSIVE) as here:
        asked = await going(here, *(f"write w{n}" for n in range(5)))
        first = list(room.inside)
        for n in range(5):
            room.let_out(f"w{n}")
            await settled(here.kernel)
        await asyncio.gather(*asked)

        assert first == ["w0"]
        assert (room.most, room.came) == (1, [f"w{n}" for n in range(5)])
        assert here.kernel.slots.statistics() == []


async def test_a_call_that_waits_for_its_slot_has_not_started() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.EXCLUSIVE) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("write a write b"))
        await until(lambda: room.inside)
        started = len(await entries_of(conversation, "call.started"))
        (statistics,) = here.kernel.slots.statistics()
        room.let_out("a")
        room.let_out("b")
        await asked

        assert started == 1
        assert (len(statistics.holders), len(statistics.waiters)) == (1, 1)
        assert len(await entries_of(conversation, "call.started")) == 2


async def test_a_pool_lets_in_as_many_as_it_has_room() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.POOL, size=3) as here:
        asked = await going(here, *(f"write w{n}" for n in range(7)))
        first = list(room.inside)
        room.let_out("w1")
        await settled(here.kernel)
        then = list(room.inside)
        for n in range(7):
            room.let_out(f"w{n}")
        await asyncio.gather(*asked)

        assert first == ["w0", "w1", "w2"]
        assert then == ["w0", "w2", "w3"]
        assert room.most == 3


async def test_readers_share_and_writers_are_alone() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.READ_WRITE) as here:
        asked = await going(here, "read r1", "read r2", "write w1", "read r3")
        first = list(room.inside)
        room.let_out("r1")
        await settled(here.kernel)
        second = list(room.inside)
        room.let_out("r2")
        await settled(here.kernel)
        third = list(room.inside)
        room.let_out("w1")
        await settled(here.kernel)
        fourth = list(room.inside)
        room.let_out("r3")
        await asyncio.gather(*asked)

        assert [first, second, third, fourth] == [["r1", "r2"], ["r2"], ["w1"], ["r3"]]


async def test_per_conversation_is_one_at_a_time_in_each() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.PER_CONVERSATION) as here:
        asked = await going(here, "write a1 write a2", "write b1 write b2")
        first = list(room.inside)
        for who in ("a1", "b1", "a2", "b2"):
            room.let_out(who)
        await asyncio.gather(*asked)

        assert first == ["a1", "b1"]
        assert room.most == 2


async def test_per_agent_is_one_at_a_time_for_all_conversations_of_an_agent() -> None:
    room = Room()
    others = {"other": (obedient(), {"toolboxes": ["box"]})}
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.PER_AGENT, others=others) as here:
        asked = await going(here, "write a", "write b") + await going(here, "write c", agent="other")
        first = list(room.inside)
        for who in "abc":
            room.let_out(who)
        await asyncio.gather(*asked)

        assert first == ["a", "c"]


async def test_stateless_has_no_bound() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.STATELESS) as here:
        asked = await going(here, *(f"write w{n}" for n in range(20)))
        inside = len(room.inside)
        for n in range(20):
            room.let_out(f"w{n}")
        await asyncio.gather(*asked)

        assert inside == 20


async def test_a_cancelled_waiter_leaves_the_line() -> None:
    room = Room()
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.EXCLUSIVE) as here:
        (first,) = await going(here, "write a")
        waiting = await here.start()
        second = asyncio.create_task(waiting.ask("write b"))
        await settled(here.kernel)
        (third,) = await going(here, "write c")
        await waiting.interrupt()
        cancelled = await second
        room.let_out("a")
        room.let_out("c")
        await asyncio.gather(first, third)

        assert str(cancelled) == "cancelled(interrupt)"
        assert [status for status, _ in await results(waiting)] == ["cancelled(not_started)"]
        assert room.came == ["a", "c"]


@pytest.mark.parametrize("ending", ["raises", "hangs"])
async def test_a_call_that_ends_badly_gives_its_slot_back(ending: str) -> None:
    came: list[int] = []

    async def use(n: int) -> str:
        came.append(n)
        if n == 0 and ending == "raises":
            raise RuntimeError("broken")
        if n == 0:
            await asyncio.get_running_loop().create_future()
        return "used"

    mind = Mind(calls(call("use", n=0), call("use", n=1)))
    async with lab(mind, [use], sharing=ToolboxSharing.EXCLUSIVE, tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(5)
        await asked

        assert came == [0, 1]
        assert here.kernel.slots.statistics() == []


async def test_what_a_call_borrowed_is_back_before_the_next_one_comes_in() -> None:
    order: list[str] = []

    async def use(n: int, context: CallContext) -> str:
        async def release() -> None:
            await asyncio.sleep(0)
            order.append(f"{n} out")

        order.append(f"{n} in")
        context.defer(release)
        return "used"

    mind = Mind(calls(call("use", n=1), call("use", n=2), call("use", n=3)))
    async with lab(mind, [use], sharing=ToolboxSharing.EXCLUSIVE) as here:
        await here.ask()

    assert order == ["1 in", "1 out", "2 in", "2 out", "3 in", "3 out"]


async def test_a_hundred_conversations_share_one_exclusive_toolbox_and_none_is_forgotten() -> None:
    inside: list[int] = []
    most: list[int] = []

    async def use() -> str:
        inside.append(1)
        most.append(len(inside))
        await asyncio.sleep(0)
        inside.pop()
        return "used"

    mind = Mind(*[lambda request: "done" if request.messages[-1].role is Role.TOOL else calls(call("use"))] * 200)
    async with lab(mind, [use], sharing=ToolboxSharing.EXCLUSIVE) as here:
        here.kernel.ticker.after_tick = None  # checking a hundred conversations after each tick takes long
        outcomes = await asyncio.gather(*(here.ask() for _ in range(100)))

        assert all(outcome.completed for outcome in outcomes)
        assert max(most) == 1
        assert len(most) == 100
