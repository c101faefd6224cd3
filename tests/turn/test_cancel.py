"""An interrupt at any place of a turn: work is stopped, every call has its one result, the conversation goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import ToolboxSharing
from agentos.errors import UnknownConversation
from agentos.events.model import Role
from agentos.toolboxes.python import tool
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, settled, units, until


class Doors:
    """Tools that wait until their door is opened, and what became of those who went in."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}

    def tool(self, name: str, effect: str = "once") -> Any:
        self.doors[name] = asyncio.Event()

        async def enter() -> str:
            self.inside.append(name)
            await self.doors[name].wait()
            return f"{name} done"

        return tool(name=name, effect=effect)(enter)

    def open(self, name: str) -> None:
        self.doors[name].set()


async def test_cancel_with_two_of_three_calls_running() -> None:
    doors = Doors()
    tools = [doors.tool("c1"), doors.tool("c2", "once"), doors.tool("c3", "pure")]
    mind = Mind(calls(call("c1"), call("c2"), call("c3")))
    async with lab(mind, tools) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: len(doors.inside) == 3)
        doors.open("c1")
        await settled(here.kernel)
        await conversation.interrupt()
        outcome = await asked

        assert str(outcome) == "cancelled(interrupt)"
        assert await results(conversation) == [
            ("done", "c1 done"),
            ("unknown(interrupted)", "interrupted; whether it took effect is unknown"),
            ("cancelled(interrupted)", "interrupted"),
        ]
        told = await kinds(conversation)
        assert told[told.index("turn.cancelling") :] == [
            "turn.cancelling",
            "call.finished",
            "call.finished",
            "turn.finished",
        ]
        assert len(mind.requests) == 1


async def test_c01_both_calls_of_a_cancelled_turn_have_results_in_the_next_request() -> None:
    doors = Doors()
    mind = Mind(calls(call("slow"), call("slow")), "I go on")
    async with lab(mind, [doors.tool("slow")], sharing=ToolboxSharing.EXCLUSIVE) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: doors.inside)
        await conversation.interrupt()
        await asked
        outcome = await conversation.ask("go on")

        assert outcome.text == "I go on"
        assert doors.inside == ["slow"]
        told = [message.text for message in mind.shown[-1] if message.role is Role.TOOL]
        assert told == [
            "interrupted; whether it took effect is unknown",
            "not started: the turn was ended (interrupt)",
        ]


async def test_an_interrupt_while_the_model_answers_stops_the_request() -> None:
    stopped: list[bool] = []

    async def hang(_: object) -> Any:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append(True)

    mind = Mind(hang, "again")
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        await conversation.interrupt()
        outcome = await asked
        again = await conversation.ask("go on")

        assert str(outcome) == "cancelled(interrupt)"
        assert stopped == [True]
        assert again.text == "again"
        assert [message.text for message in mind.shown[-1]] == ["go", "go on"]
        assert (await units(conversation))[2:4] == [["turn.cancelling"], ["model.finished", "turn.finished"]]


async def test_calls_of_a_reply_that_comes_after_the_interrupt_do_not_run_and_have_results() -> None:
    door = asyncio.Event()
    ran: list[bool] = []

    async def work() -> None:
        ran.append(True)

    async def stubborn(_: object) -> Any:
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return calls(call("work"), call("work"), text="I would")

    mind = Mind(stubborn, "again")
    async with lab(mind, [work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        await conversation.interrupt()
        door.set()
        outcome = await asked
        await conversation.ask("go on")

        assert str(outcome) == "cancelled(interrupt)"
        assert ran == []
        assert [message.role for message in mind.shown[-1]] == [
            Role.USER,
            Role.ASSISTANT,
            Role.TOOL,
            Role.TOOL,
            Role.USER,
        ]


async def test_a_second_interrupt_changes_nothing() -> None:
    door = asyncio.Event()

    async def stubborn() -> str:
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return "done all the same"

    async with lab(Mind(calls(call("stubborn"))), [stubborn]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: here.kernel.runner.busy(conversation.id))  # type: ignore[arg-type]
        await settled(here.kernel)
        await conversation.interrupt(by="ann")
        await settled(here.kernel)
        await conversation.interrupt(by="bob")
        await settled(here.kernel)
        waiting = asked.done()
        door.set()
        outcome = await asked

        assert not waiting
        assert str(outcome) == "cancelled(interrupt)"
        assert [entry.by for entry in await entries_of(conversation, "turn.cancelling")] == ["ann"]
        assert await results(conversation) == [("done", "done all the same")]


async def test_an_interrupt_of_an_idle_conversation_stores_nothing() -> None:
    async with lab(Mind("hi", "again")) as here:
        conversation = await here.start()
        await conversation.interrupt()
        await conversation.ask("go")
        before = await kinds(conversation)
        await conversation.interrupt()
        await settled(here.kernel)

        assert await kinds(conversation) == before
        assert "turn.cancelling" not in before


async def test_an_interrupt_of_no_conversation_is_an_error() -> None:
    async with lab() as here:
        conversation = await here.start()

        with pytest.raises(UnknownConversation):
            await here.kernel.interrupt(conversation.id[:-1] + ("0" if conversation.id[-1] != "0" else "1"))


async def test_inputs_that_wait_are_taken_by_a_new_turn_after_the_interrupt() -> None:
    doors = Doors()
    mind = Mind(calls(call("slow")), "on it")
    async with lab(mind, [doors.tool("slow")]) as here:
        conversation = await here.start()
        first = asyncio.create_task(conversation.ask("one"))
        await until(lambda: doors.inside)
        second = asyncio.create_task(conversation.ask("two"))
        await settled(here.kernel)
        await conversation.interrupt()

        assert str(await first) == "cancelled(interrupt)"
        assert (await second).text == "on it"


async def test_a_tool_that_finishes_its_work_when_cancelled_is_done() -> None:
    started = asyncio.Event()

    async def careful() -> str:
        try:
            started.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "put everything back"
        return "never"

    async with lab(Mind(calls(call("careful"))), [careful]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await started.wait()
        await conversation.interrupt()
        outcome = await asked

        assert str(outcome) == "cancelled(interrupt)"
        assert await results(conversation) == [("done", "put everything back")]


@pytest.mark.parametrize(("effect", "status"), [("once", "unknown(interrupted)"), ("pure", "cancelled(interrupted)")])
async def test_a_tool_that_raises_something_else_when_cancelled_is_cancelled(effect: str, status: str) -> None:
    started = asyncio.Event()

    async def clumsy() -> None:
        try:
            started.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise OSError("the line is dead") from None

    async with lab(Mind(calls(call("clumsy"))), [tool(effect=effect)(clumsy)]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await started.wait()
        await conversation.interrupt()
        await asked

        assert [found for found, _ in await results(conversation)] == [status]


async def test_f52_an_interrupt_and_a_time_limit_together_end_the_turn_once() -> None:
    doors = Doors()
    async with lab(Mind(calls(call("slow"))), [doors.tool("slow", "pure")], tool_s=5, turn_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: doors.inside)
        here.clock.advance(5)
        await conversation.interrupt()
        outcome = await asked
        await here.advance(10)

        assert str(outcome) in ("limit(time)", "cancelled(interrupt)")
        assert len(await results(conversation)) == 1
        assert (await kinds(conversation)).count("turn.finished") == 1


async def test_an_interrupt_between_a_reply_and_its_calls_runs_none_of_them() -> None:
    """The reply and the interrupt arrive in one tick; whichever is taken first, nothing is left half done."""
    ran: list[bool] = []
    door = asyncio.Event()

    async def work() -> str:
        ran.append(True)
        await asyncio.get_running_loop().create_future()
        return "never"

    async def answer(_: object) -> Any:
        await door.wait()
        return calls(call("work"))

    mind = Mind(answer, "again")
    async with lab(mind, [work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        door.set()
        await asyncio.sleep(0)
        await conversation.interrupt()
        outcome = await asked
        await conversation.ask("go on")

        assert str(outcome) == "cancelled(interrupt)"
        assert (await kinds(conversation)).count("call.started") == len(ran)


@pytest.mark.parametrize("yields", range(12))
async def test_an_interrupt_after_any_number_of_rounds_ends_the_turn_in_order(yields: int) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "worked"

    async def answer(_: object) -> Any:
        await asyncio.sleep(0)
        return calls(call("work"), call("work"))

    mind = Mind(answer, answer, "answer")
    async with lab(mind, [work], sharing=ToolboxSharing.EXCLUSIVE) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        for _ in range(yields):
            await asyncio.sleep(0)
        await conversation.interrupt()
        outcome = await asked
        again = await conversation.ask("go on")

        assert str(outcome) in ("cancelled(interrupt)", "completed")
        assert again.completed
        assert here.kernel.slots.statistics() == []
