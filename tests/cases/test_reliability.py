"""Faults of the matrix, through a whole kernel: blocked loops, hostile functions, endless models, cancels everywhere."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import CallState, CallStatus, ToolboxSharing
from agentos.errors import KernelClosed
from agentos.persistence.memory import MemoryStore
from agentos.ports import CallContext
from tests.support import Lab, Mind, call, calls, entries_of, kinds, lab, results, settled, until


async def test_f13_a_blocked_tool_blocks_nobody_else_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A sync tool that ignores its cancel: another turn runs, the interrupt works, a warning tells who blocks."""
    door, inside = threading.Event(), threading.Event()

    def blocks() -> str:
        inside.set()
        door.wait(60)
        return "at last"

    others: dict[str, Any] = {"other": (Mind("not disturbed"), {})}
    async with lab(Mind(calls(call("blocks")), "again"), [blocks], others=others) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(inside.is_set)
        other = await here.ask(agent="other")
        with caplog.at_level(logging.WARNING, "agentos"):
            await conversation.interrupt()
            outcome = await asked
        again = await conversation.ask("go on")
        door.set()

        assert other.text == "not disturbed"
        assert str(outcome) == "cancelled(interrupt)"
        assert [status for status, _ in await results(conversation)] == ["unknown(interrupted)"]
        assert again.text == "again"
        assert "tool blocks goes on in its thread" in caplog.text


def raising(error: BaseException) -> Callable[[], Any]:
    async def bad() -> None:
        raise error

    return bad


def raising_in_a_thread(error: BaseException) -> Callable[[], Any]:
    def bad() -> None:
        raise error

    return bad


RAISED = [
    SystemExit(1),
    KeyboardInterrupt(),
    StopIteration(1),
    asyncio.CancelledError(),
    GeneratorExit(),
    MemoryError(),
]


@pytest.mark.parametrize("make", [raising, raising_in_a_thread])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_f32_a_function_may_raise_anything(make: Callable[..., Any], error: BaseException) -> None:
    async def good() -> str:
        return "good"

    mind = Mind(calls(call("bad"), call("good")), "one of two")
    async with lab(mind, [make(error), good]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        statuses = {entry.call: str(entry.data.status.value) for entry in await finished(conversation)}

        assert outcome.text == "one of two"
        assert [statuses[n] for n in sorted(statuses)] == ["failed", "done"]
        assert mind.results[1] == "good"


async def finished(conversation: Any) -> list[Any]:
    return await entries_of(conversation, "call.finished")


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


async def coroutine() -> None:
    """Never awaited."""


RETURNED: list[tuple[Callable[[], Any], str]] = [
    (lambda: math.nan, "done"),
    (lambda: b"\0" * 100, "done"),
    (lambda: {1, "a", None}, "done"),
    (lambda: 10**40_000, "failed"),
    (cyclic, "failed"),
    (lambda: (n for n in range(3)), "failed"),
    (coroutine, "failed"),
    (object, "failed"),
    (lambda: type, "failed"),
]


@pytest.mark.parametrize(("make", "status"), RETURNED, ids=range(len(RETURNED)))
async def test_f32_a_function_may_return_anything(make: Callable[[], Any], status: str) -> None:
    async def bad() -> Any:
        return make()

    async def good() -> str:
        return "good"

    mind = Mind(calls(call("bad"), call("good")), "understood")
    async with lab(mind, [bad, good]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        statuses = [str(entry.data.status.value) for entry in await finished(conversation)]
        gc.collect()

        assert outcome.text == "understood"
        assert sorted(statuses) == sorted([status, "done"])
        assert mind.results[1] == "good"


async def test_f47_a_call_while_no_tools_are_offered_is_answered() -> None:
    mind = Mind(calls(call("work")), "I see, none")
    async with lab(mind) as here:
        outcome = await here.ask()

    assert outcome.text == "I see, none"
    assert mind.results == ["there is no tool 'work'. The tools are: none"]


@pytest.mark.parametrize("name", ["Work", "work ", "other_work", "box/work"])
async def test_f47_names_that_are_nearly_right_run_nothing(name: str) -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("work")

    async def other_work() -> None:
        ran.append("other_work")

    others = {"other": (Mind(), {"toolboxes": ["box"]})}
    mind = Mind(*[calls(call(name))] * 9)
    async with lab(mind, [work, other_work], others=others) as here:
        here.kernel.bind("main", "box", expose=["work"])
        outcome = await here.ask()

    assert str(outcome) == "limit(unknown_tool)"
    assert ran == []


async def test_f51_an_answer_of_five_megabytes_is_kept_whole_and_ends_the_next_turn_before_its_request() -> None:
    mind = Mind("x" * 5_000_000, "never")
    async with lab(mind) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        again = await conversation.ask("go on")

        assert (outcome.completed, len(outcome.text)) == (True, 5_000_000)
        assert str(again) == "limit(context)"
        assert len(mind.requests) == 1


async def test_f51_an_endless_loop_of_calls_and_sixty_at_once_end_at_named_limits() -> None:
    async def work(n: int = 0) -> str:
        return str(n)

    many = calls(*(call("work", n=n) for n in range(60)))
    mind = Mind(*[many] * 10)
    async with lab(mind, [work]) as here:
        outcome = await here.ask()

    assert str(outcome) == "limit(calls)"
    assert outcome.steps == 4


class Work:
    """A tool with an await in each of its parts: before, in the middle, in its clean-up, and in what it deferred."""

    def __init__(self) -> None:
        self.open = self.lent = 0

    async def work(self, context: CallContext) -> str:
        self.open += 1
        self.lent += 1
        context.defer(self._give_back)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return "worked"
        finally:
            self.open -= 1
            await asyncio.sleep(0)

    async def _give_back(self) -> None:
        await asyncio.sleep(0)
        self.lent -= 1


async def _cancel_the_asker(here: Lab, conversation: Any, asked: asyncio.Task[Any]) -> None:
    asked.cancel()


async def _interrupt(here: Lab, conversation: Any, asked: asyncio.Task[Any]) -> None:
    await conversation.interrupt()


async def _interrupt_twice(here: Lab, conversation: Any, asked: asyncio.Task[Any]) -> None:
    await conversation.interrupt()
    await asyncio.sleep(0)
    await conversation.interrupt()


async def _interrupt_at_the_deadline(here: Lab, conversation: Any, asked: asyncio.Task[Any]) -> None:
    here.clock.advance(100)
    await conversation.interrupt()


async def _close(here: Lab, conversation: Any, asked: asyncio.Task[Any]) -> None:
    await here.kernel.close(0)


DISTURBANCES = [_cancel_the_asker, _interrupt, _interrupt_twice, _interrupt_at_the_deadline, _close]


@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda disturb: disturb.__name__.strip("_"))
async def test_f52_a_turn_may_be_disturbed_at_every_one_of_its_awaits(disturb: Callable[..., Any]) -> None:
    """After each: nothing is left running, held or lent, every call has one result, and the conversation goes on."""
    known = asyncio.all_tasks()
    at, undisturbed = 0, False
    while not undisturbed:
        undisturbed = await _disturbed(disturb, at)
        assert asyncio.all_tasks() <= known, at
        at += 1

    assert at > 12


async def _disturbed(disturb: Callable[..., Any], at: int) -> bool:
    """Whether the turn had ended before anybody disturbed it."""
    store, tool = MemoryStore(), Work()

    async def answer(_: object) -> Any:
        await asyncio.sleep(0)
        return calls(call("work"), call("work"))

    mind = Mind(answer, "all done", "and again", "and again")
    async with lab(mind, [tool.work], sharing=ToolboxSharing.EXCLUSIVE, store=store, turn_s=100) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        for _ in range(at):
            await asyncio.sleep(0)
        undisturbed = asked.done()
        if disturb is _close:
            here.kernel.ticker.after_tick = None
        await disturb(here, conversation, asked)
        await asyncio.wait([asked])
        if disturb is not _close:
            await _ended(here, conversation)
            assert here.kernel.slots.statistics() == []
            assert (await conversation.ask("go on")).completed
    assert (tool.open, tool.lent) == (0, 0)
    if disturb is _close:
        _told(asked)
        await _goes_on(store, tool, conversation.id)
    return undisturbed


def _told(asked: asyncio.Task[Any]) -> None:
    """The asker of a closed kernel has its outcome, or hears that it will have none."""
    error = asked.exception()
    assert error is None or isinstance(error, KernelClosed)


async def _ended(here: Lab, conversation: Any) -> None:
    await until(lambda: conversation.state == "idle")
    await settled(here.kernel)
    told = await kinds(conversation)
    assert told.count("turn.started") == told.count("turn.finished")
    assert here.kernel.world.find(CallState, status=CallStatus.STARTED) == []


async def _goes_on(store: MemoryStore, tool: Work, id_: str) -> None:
    async with lab(Mind(), [tool.work], sharing=ToolboxSharing.EXCLUSIVE, store=store, first_id=50) as here:
        await here.kernel.recover()
        conversation = await here.kernel.get(id_)
        outcome = await conversation.ask("go on")

        assert outcome.completed
        await _ended(here, conversation)
