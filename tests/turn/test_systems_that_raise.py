"""Whichever system raises, and whenever: the turn ends, or who waits for it is told. Nobody is left waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agentos.components import Verdict
from agentos.definitions import PolicyRule
from agentos.errors import SystemRaised
from agentos.ids import Name, log_and_seq
from agentos.kernel.rest import open_requests
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule, System
from agentos.toolboxes.python import tool
from agentos.world import Decision, View
from tests.resources.lending import replays
from tests.support import Lab, Mind, call, calls, hang, kinds, lab, results, settled

NAMES = [known.name for known in SCHEDULE.systems]
ASKING: dict[str, Any] = {"approval": "park", "policy": [PolicyRule(tool="guarded", verdict="ask")]}
ROUNDS = 8
GRACE_S = 60.0


async def guarded() -> str:
    """What a person has to allow."""
    return "allowed"


@tool(effect="pure")
async def outer(context: CallContext) -> str:
    return (await context.call("guarded", {})).text


def raising(schedule: Schedule, name: Name, when: Callable[[int], bool], asked: Counter[Name]) -> Schedule:
    """The same systems, one of which raises when it is asked for the n-th time, as when says."""

    def made(known: System) -> System:
        def decide(view: View, entity: int) -> Decision:
            asked[known.name] += 1
            if known.name == name and when(asked[name]):
                raise ValueError("a bug in a system")
            return known.decide(view, entity)

        return msgspec.structs.replace(known, decide=decide)

    return Schedule([made(known) for known in schedule.systems])


def break_(here: Lab, name: Name, when: Callable[[int], bool], asked: Counter[Name]) -> None:
    passing = here.kernel.ticker._passing
    passing._schedule = raising(here.kernel.schedule, name, when, asked)


async def answered(here: Lab) -> None:
    for request in open_requests(here.kernel):
        conversation = await here.kernel.get(log_and_seq(request)[0])
        await conversation.answer(request, Verdict.ALLOW, by="ann")
    await settled(here.kernel)


async def ends(name: Name, nth: int) -> tuple[str, int]:
    """How a turn that delegates, and whose calls ask for others, ends for who asked for it; and how often the system was
    asked."""
    asked: Counter[Name] = Counter()
    minds = Mind(calls(call("ask_aide", task="go"), call("outer"))), Mind(calls(call("outer")))
    others = {"aide": (minds[1], ASKING)}
    async with lab(minds[0], [guarded, outer], others=others, subagents=["aide"], **ASKING) as here:
        break_(here, name, lambda n: n == nth, asked)
        task = asyncio.ensure_future(here.ask())
        for _ in range(ROUNDS):
            await settled(here.kernel)
            if task.done():
                break
            await answered(here)
        else:
            await here.advance(GRACE_S)
        assert task.done(), f"who asked waits for ever when {name} raises at its asking {nth}"
        error = task.exception()
        assert error is None or isinstance(error, SystemRaised)
        return (str(task.result()) if error is None else "told"), asked[name]


@pytest.mark.parametrize("name", NAMES)
async def test_whenever_a_system_raises_once_who_asked_is_not_left_waiting(name: Name) -> None:
    nth, found = 0, set[str]()
    while True:
        nth += 1
        end, asked = await ends(name, nth)
        if asked < nth:
            break
        found.add(end)

    assert nth > 1, "it was never asked"
    assert found <= {"completed", "told", f"failed(system:{name})"}
    assert name == "settle" or f"failed(system:{name})" in found


async def test_a_system_without_which_no_turn_ends_and_that_always_raises_is_told_to_who_asked() -> None:
    async with lab(Mind("hello")) as here:
        break_(here, Name("settle"), lambda n: True, Counter())
        conversation = await here.start()

        with pytest.raises(SystemRaised, match="system settle raised ValueError"):
            await conversation.ask("go")


@pytest.mark.parametrize("turns_max", [None, 1])
async def test_a_conversation_that_could_not_begin_is_told_and_begins_the_next_time(turns_max: int | None) -> None:
    async with lab(Mind("hello"), options={"settings": Settings(turns_max=turns_max)}) as here:
        break_(here, Name("admit"), lambda n: n == 1, Counter())

        with pytest.raises(SystemRaised, match="system admit raised ValueError"):
            await here.kernel.start("main", key="mine")
        assert not here.kernel.ticker.loaded
        assert (await (await here.kernel.start("main", key="mine")).ask("go")).text == "hello"


async def test_a_subagent_that_cannot_begin_fails_the_call_that_delegated_to_it() -> None:
    others = {"broken": (Mind(), {"toolboxes": ["nothing"]})}
    mind = Mind(calls(call("ask_broken", task="go")), "well")
    async with lab(mind, others=others, subagents=["broken"]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.text == "well"
        assert await results(conversation) == [("failed(child:system:admit)", "its turn could not begin: system:admit")]
        child = next(log for log in here.kernel.ticker.loaded if str(log) != conversation.id)
        assert await kinds(await here.kernel.get(child)) == [
            "conversation.started",
            "input.received",
            "turn.cancelling",
        ]
        assert [await replays(here.kernel, log) for log in (conversation.id, child)] == [True, True]


async def test_a_system_that_raises_has_the_work_that_was_delegated_ended_too() -> None:
    async def quick() -> str:
        return "quick"

    others: dict[str, Any] = {"aide": (Mind(hang), {})}
    mind = Mind(calls(call("ask_aide", task="go"), call("quick")))
    async with lab(mind, [quick], others=others, subagents=["aide"]) as here:
        conversation = await here.start()
        task = asyncio.ensure_future(conversation.ask("go"))
        await settled(here.kernel)
        break_(here, Name("call"), lambda n: n == 1, Counter())
        await conversation.send("and then")
        await settled(here.kernel)

        assert task.done()
        assert str(task.result()) == "failed(system:call)"
        assert "cancelled(child:parent)" in [status for status, _ in await results(conversation)]


async def test_a_unit_that_memory_cannot_take_over_costs_its_own_conversation_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is stored all the same: the conversation is read from its log again, and goes on."""
    unlucky: list[str] = []

    def waits(view: View, _call: int) -> None:
        if view.log in unlucky:
            raise ValueError("a bug of the kernel")

    async with lab(Mind(*[calls(call("guarded"))] * 2), [guarded], **ASKING) as here:
        monkeypatch.setattr(here.kernel.services.standstill, "waits", waits)
        conversations = [await here.start() for _ in range(2)]
        unlucky.append(conversations[0].id)
        asked = [asyncio.ensure_future(one.ask("go")) for one in conversations]
        await settled(here.kernel)
        failed, waiting = asked[0].done(), open_requests(here.kernel)
        unlucky.clear()
        again = asyncio.ensure_future(here.kernel.outcome(conversations[0].id))
        await settled(here.kernel)
        await answered(here)

        assert failed
        assert isinstance(asked[0].exception(), SystemRaised)
        assert {str(log_and_seq(request)[0]) for request in waiting} == {str(one.id) for one in conversations}
        assert (await asked[1]).text == "done"
        assert again.done()
        assert str(again.result()) == "completed"
