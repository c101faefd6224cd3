"""A process that dies in the middle of a turn: what the next one finds, does again, doubts, and leaves alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import CallStatus, EffectClass, ToolboxSharing, Verdict
from agentos.ids import CallId, Name
from agentos.ports import CallContext, HookVerdict
from agentos.toolboxes.base import Doubt
from agentos.toolboxes.python import PythonToolbox, tool
from tests.support import (
    Life,
    Mind,
    call,
    calls,
    crash,
    entries_of,
    hang,
    kinds,
    results,
    settled,
    units,
    until,
)


async def test_three_calls_and_a_kill_while_the_last_one_runs() -> None:
    life, inside = Life(), asyncio.Event()
    ran: list[str] = []

    async def good() -> str:
        ran.append("good")
        return "1"

    async def bad() -> None:
        ran.append("bad")
        raise RuntimeError("no")

    async def slow() -> None:
        ran.append("slow")
        inside.set()
        await hang()

    tools = [good, bad, slow]
    first = Mind(calls(call("good"), call("bad"), call("slow")))
    await life.until_killed(first, tools, lambda here: inside.is_set() and here.kernel.ticker.quiet)
    second = Mind("I see")
    async with life.open(second, tools) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "completed"
        assert ran == ["good", "bad", "slow"]
        assert (await units(conversation))[2:] == [
            ["model.finished", *["call.proposed"] * 3, *["call.started"] * 3],
            ["call.finished", "call.finished"],
            ["turn.resumed", "call.doubted"],
            ["call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]
        assert [status for status, _ in await results(conversation)] == ["done", "failed(raised)", "unknown"]
        assert second.results[:2] == ["1", "RuntimeError: no"]
        assert "was not run again" in second.results[2]


async def test_a_call_that_waited_for_its_slot_simply_runs() -> None:
    life, inside = Life(), asyncio.Event()
    ran: list[int] = []

    async def use(n: int) -> str:
        ran.append(n)
        if not inside.is_set():
            inside.set()
            await hang()
        return f"used {n}"

    mind = Mind(calls(call("use", n=1), call("use", n=2)))
    await life.until_killed(mind, [use], lambda _: inside.is_set(), sharing=ToolboxSharing.EXCLUSIVE)
    async with life.open(Mind(), [use], sharing=ToolboxSharing.EXCLUSIVE) as here:
        conversation, _ = await life.recovered(here)

        assert ran == [1, 2]
        assert min(await results(conversation)) == ("done", "used 2")
        assert here.kernel.slots.statistics() == []


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_run_again_does_so_as_its_second_attempt(effect: str) -> None:
    life, inside = Life(), asyncio.Event()
    attempts: list[tuple[int, str]] = []

    async def work(context: CallContext) -> str:
        attempts.append((context.attempt, context.key))
        if not inside.is_set():
            inside.set()
            await hang()
        return "worked"

    tools = [tool(effect=effect)(work)]
    await life.until_killed(Mind(calls(call("work"))), tools, lambda _: inside.is_set())
    async with life.open(Mind(), tools) as here:
        conversation, _ = await life.recovered(here)

        assert [attempt for attempt, _ in attempts] == [1, 2]
        assert attempts[0][1] == attempts[1][1]
        assert [status for status, _ in await results(conversation)] == ["lost", "done"]
        assert ["turn.resumed", "call.finished", "call.started"] in await units(conversation)


async def test_a_lost_request_is_made_again() -> None:
    life = Life()
    await life.until_killed(Mind(hang), [], lambda here: here.minds["main"].requests)
    second = Mind("there")
    async with life.open(second) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "completed"
        assert [request.attempt for request in second.requests] == [2]
        assert ["turn.resumed", "model.finished", "model.requested"] in await units(conversation)


async def _plain() -> str:
    return "worked"


_plain.__name__ = "work"


@pytest.mark.parametrize(
    ("effect", "ends"), [("once", ["unknown"]), ("pure", ["lost", "cancelled(not_started)"])], ids=["once", "pure"]
)
async def test_a_turn_that_was_being_cancelled_ends_as_cancelled(effect: str, ends: list[str]) -> None:
    life, inside, door = Life(), asyncio.Event(), asyncio.Event()

    @tool(effect=effect)
    async def stubborn() -> str:
        inside.set()
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    async with life.open(Mind(calls(call("stubborn"))), [stubborn]) as here:
        conversation = await here.start()
        life.id = conversation.id
        await conversation.send("go")
        await inside.wait()
        await conversation.interrupt()
        await settled(here.kernel)
        crash(here)
        door.set()
    async with life.open(Mind("again"), [stubborn]) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "cancelled(interrupt)"
        assert [status for status, _ in await results(conversation)] == ends
        assert (await conversation.ask("go on")).text == "again"


class Remembering(PythonToolbox):
    """A toolbox that knows afterwards what it did."""

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        if arguments["what"] == "raise":
            raise OSError("no line to the archive")
        return Doubt(CallStatus(arguments["what"]), f"{arguments['what']}, says the archive")


@pytest.mark.parametrize(
    ("what", "status", "text"),
    [
        ("done", "done", "done, says the archive"),
        ("failed", "failed", "failed, says the archive"),
        ("raise", "unknown", "no line to the archive"),
    ],
)
async def test_a_doubted_call_is_what_its_tool_says_it_is(what: str, status: str, text: str) -> None:
    life, inside = Life(), asyncio.Event()

    async def work(what: str) -> None:
        inside.set()
        await hang()

    boxes = [Remembering("archive", [work]) for _ in range(2)]
    mind = Mind(calls(call("work", what=what)))
    await life.until_killed(mind, [], lambda _: inside.is_set(), toolboxes=boxes[:1])
    second = Mind()
    async with life.open(second, toolboxes=boxes[1:]) as here:
        conversation, _ = await life.recovered(here)

        ((found, said),) = await results(conversation)
        assert found == status
        assert text in said


async def test_hooks_are_asked_again_about_a_call_that_nobody_decided_on() -> None:
    life = Life()
    asked: list[str] = []

    class Hook:
        name = Name("guard")

        async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
            asked.append(call)
            if len(asked) == 1:
                await hang()
            return HookVerdict(verdict=Verdict.ALLOW)

    options = {"hooks": [Hook()]}
    await life.until_killed(Mind(calls(call("work"))), [_plain], lambda _: asked, options=options)
    async with life.open(Mind(), [_plain], options=options) as here:
        conversation, _ = await life.recovered(here)

        assert len(asked) == 2
        assert await results(conversation) == [("done", "worked")]


async def test_an_input_that_was_stored_but_not_taken_is_answered() -> None:
    life = Life()
    async with life.open(Mind()) as here:
        conversation = await here.start()
        life.id = conversation.id
        await conversation.pause()
        await settled(here.kernel)
        await conversation.send("remember me")
        crash(here)
    second = Mind("I do")
    async with life.open(second) as here:
        await here.kernel.recover()
        conversation = await here.kernel.get(life.id)
        await conversation.unpause()
        await until(lambda: second.requests)
        await until(lambda: conversation.state == "idle")

        assert [message.text for message in second.shown[0]] == ["remember me"]
        assert (await kinds(conversation)).count("input.received") == 1


async def test_a_recovered_turn_keeps_the_effect_class_that_it_pinned() -> None:
    """The agent says `pure` now; the call was started as `once`, and is not run again."""
    life, inside = Life(), asyncio.Event()
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)
        inside.set()
        await hang()

    await life.until_killed(Mind(calls(call("work"))), [work], lambda _: inside.is_set())
    async with life.open(Mind(), [work], effects={"work": EffectClass.PURE}) as here:
        conversation, _ = await life.recovered(here)

        assert ran == [1]
        assert [status for status, _ in await results(conversation)] == ["unknown"]
        assert len(await entries_of(conversation, "call.doubted")) == 1
