"""Inner calls end with the call that asked for them, however that ends, and none is left open."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from agentos.components import CallState
from agentos.errors import ToolError
from agentos.ports import CallContext
from agentos.toolboxes.base import Finish
from agentos.toolboxes.python import tool
from tests.support import Mind, call, calls, copy_of, entries_of, hang, kinds, lab, results, settled, until


async def add(a: int, b: int) -> int:
    return a + b


ENDS = ["returns", "raises", "is interrupted", "times out"]
INNER = [("hanging", "once", "unknown(interrupted)"), ("hanging", "pure", "cancelled(interrupted)")]
GUARDED = ("guarded", "once", "cancelled(not_started)")
"""A person is waited for, and the time of the call that asks stands still: it does not time out."""


@pytest.mark.parametrize(
    ("inner", "effect", "ends", "after"),
    [*((*inner, after) for inner in INNER for after in ENDS), *((*GUARDED, after) for after in ENDS[:-1])],
)
async def test_a_call_takes_its_inner_calls_along_when_it_ends(inner: str, effect: str, ends: str, after: str) -> None:
    door = asyncio.Event()

    async def work(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call(inner, {}))
        try:
            await door.wait()
        finally:
            asked.cancel()
        if after == "raises":
            raise ToolError("no more")
        return "gone without it"

    tools = [work, *(tool(name=name, effect=effect, timeout_s=100)(copy_of(hang)) for name in ("hanging", "guarded"))]
    spec: dict[str, Any] = {"approval": "park", "policy": [{"tool": "guarded", "verdict": "ask"}]}
    async with lab(Mind(calls(call("work")), "well"), tools, tool_s=5, **spec) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.nested"))
        await settled(here.kernel)
        if after == "is interrupted":
            await conversation.interrupt()
        elif after == "times out":
            await here.advance(5)
        else:
            door.set()
        outcome = await asked

        assert ends in [found for found, _ in await results(conversation)]
        assert len(await results(conversation)) == 2
        assert str(outcome) == ("cancelled(interrupt)" if after == "is interrupted" else "completed")
        assert here.kernel.slots.statistics() == []


async def test_the_turn_waits_for_an_inner_call_that_is_being_stopped() -> None:
    door = asyncio.Event()

    @tool
    async def stubborn() -> None:
        try:
            await hang()
        finally:
            await asyncio.shield(door.wait())

    async def work(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("stubborn", {}))
        await until(lambda: asked_started(context))
        asked.cancel()
        return "gone"

    async def asked_started(context: CallContext) -> bool:
        entries = await here.kernel.history(context.conversation)
        return sum(entry.data.kind == "call.started" for entry in entries) == 2

    mind = Mind(calls(call("work")), "well")
    async with lab(mind, [stubborn, work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.finished"))
        await settled(here.kernel)
        requests = len(mind.requests)
        door.set()
        await asked

        assert requests == 1
        assert mind.results == ["gone"]
        assert [found for found, _ in await results(conversation)] == ["done", "unknown(interrupted)"]


async def test_a_call_that_ends_the_turn_does_so_once_its_inner_calls_are_over() -> None:
    door = asyncio.Event()

    @tool(effect="pure")
    async def slow() -> None:
        try:
            await hang()
        finally:
            await door.wait()

    async def work(context: CallContext) -> Finish:
        asked = asyncio.ensure_future(context.call("slow", {}))
        await until(lambda: here.kernel.world.find(CallState, status="started", attempt=1)[1:])
        asked.cancel()
        return Finish("that was it")

    async with lab(Mind(calls(call("work"))), [slow, work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.finished"))
        door.set()
        outcome = await asked

        assert (outcome.completed, outcome.text) == (True, "that was it")


async def test_the_child_of_an_inner_delegation_ends_with_the_call_that_asked() -> None:
    async def consult(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("ask_aide", {"task": "help"}))
        await until(lambda: here.minds["aide"].requests)
        asked.cancel()
        return "I could not wait"

    aide, mind = Mind(hang), Mind(calls(call("consult")), "well")
    async with lab(mind, [consult], others={"aide": (aide, {"toolboxes": []})}, subagents=["aide"]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        await settled(here.kernel)
        (child,) = (await here.kernel.query("select state from conversations where depth = 1")).rows

        assert outcome.completed
        assert child == ("idle",)
        assert [found for found, _ in await results(conversation)] == ["done", "cancelled(child:parent)"]


async def test_a_child_that_does_not_end_in_time_is_waited_for_no_longer() -> None:
    async def consult(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("ask_aide", {"task": "help"}))
        await until(lambda: here.minds["aide"].requests)
        asked.cancel()
        return "I could not wait"

    async def deaf(_: object) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await hang()
        await released.wait()
        return "late"

    released = asyncio.Event()
    aide, mind = Mind(deaf), Mind(calls(call("consult")), "well")
    async with lab(mind, [consult], others={"aide": (aide, {"toolboxes": []})}, subagents=["aide"]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.finished"))
        await here.advance(5)
        outcome = await asked
        released.set()
        await settled(here.kernel)

        assert outcome.completed
        assert [found for found, _ in await results(conversation)] == ["done", "unknown(child_grace)"]
        assert [kind for kind in await kinds(conversation) if kind in ("wake.fired", "child.late")] == [
            "wake.fired",
            "child.late",
        ]


async def test_an_attempt_that_is_over_asks_for_nothing_more() -> None:
    kept: list[CallContext] = []

    async def work(context: CallContext) -> str:
        kept.append(context)
        return "worked"

    async with lab(Mind(calls(call("work")), "well"), [add, work]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        with pytest.raises(ToolError, match="add: the call that asks for it is over"):
            await kept[0].call("add", {"a": 1, "b": 1})

        assert "call.nested" not in await kinds(conversation)


async def test_a_thread_that_nobody_can_stop_is_let_go_when_its_call_ends() -> None:
    ended = threading.Event()
    caught: list[str] = []

    def work(context: CallContext) -> str:
        """Waits in a thread for what does not come."""
        try:
            context.call_from_thread("hanging", {})
        except ToolError as error:
            caught.append(str(error))
        ended.set()
        return "late"

    hanging = tool(effect="pure", name="hanging")(copy_of(hang))
    async with lab(Mind(calls(call("work")), "well"), [hanging, work], tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.nested"))
        await here.advance(5)
        await asked
        await until(ended.is_set)

        assert caught == ["hanging: the call that asks for it is over"]
        assert sorted(found for found, _ in await results(conversation)) == ["timed_out(timeout)", "unknown(timeout)"]


async def test_being_cancelled_only_stops_the_waiting() -> None:
    door = asyncio.Event()

    async def slow() -> str:
        await door.wait()
        return "slow"

    async def work(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("slow", {}))
        await until(lambda: here.kernel.world.find(CallState, status="started")[1:])
        asked.cancel()
        door.set()
        await until(lambda: here.kernel.world.find(CallState, status="done"))
        return "waited no more"

    async with lab(Mind(calls(call("work")), "well"), [slow, work]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "slow"), ("done", "waited no more")]
