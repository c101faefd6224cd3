"""Systems of users: where they stand in the schedule, and that one which raises fails its own turn and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import ConversationState, Phase, TurnState
from agentos.errors import ConfigurationError, SystemRaised
from agentos.events.entry import Draft
from agentos.events.kinds import ModelRequested
from agentos.ids import Digest, Name
from agentos.settings import Settings
from agentos.systems import SCHEDULE, System
from agentos.systems.schedule import system
from agentos.world import Decision, View
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, settled, until

Trigger = Callable[[View], bool]


def raising(when: Trigger, phase: Phase | None, after: str) -> System:
    """Raises in one phase (None: over the conversation) as often as it is to."""

    def broken(view: View, entity: int) -> Decision:
        if when(view):
            raise ValueError("a bug in a rule")
        return Decision.none()

    if phase is None:
        return system(over=ConversationState, after=after)(broken)
    return system(over=TurnState, phase=phase, after=after)(broken)


def once() -> Trigger:
    """True the first time only; a pure system would not, but a bug is not pure."""
    left = [True]
    return lambda _: bool(left and left.pop())


async def work() -> str:
    return "worked"


def options(*systems: System) -> dict[str, Any]:
    return {"systems": systems}


@pytest.mark.parametrize("phase", [Phase.PROMPT, Phase.COMPLETE, Phase.GATE, Phase.CALL])
async def test_a_system_that_raises_fails_the_turn_with_its_name(phase: Phase) -> None:
    rule = raising(once(), phase, "admit")
    mind = Mind(calls(call("work")), "well", "well again")
    async with lab(mind, [work], options=options(rule)) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        again = await conversation.ask("go on")
        told = await kinds(conversation)

        assert str(outcome) == "failed(system:broken)"
        assert again.completed
        assert told.count("turn.finished") == 2
        assert "turn.cancelling" in told


async def test_what_was_fed_and_decided_before_it_raised_stays() -> None:
    rule = raising(once(), Phase.GATE, "admit")
    async with lab(Mind(calls(call("work"), text="let me see")), [work], options=options(rule)) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (reply,) = await entries_of(conversation, "model.finished")

        assert reply.private[0] == ("text", "let me see")
        assert (await kinds(conversation))[-3:] == ["model.finished", "turn.cancelling", "turn.finished"]


async def test_a_system_that_raises_stops_the_calls_that_run() -> None:
    door, inside = asyncio.Event(), asyncio.Event()
    stopped: list[bool] = []

    async def hang() -> None:
        inside.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append(True)

    async def quick() -> str:
        await door.wait()
        return "quick"

    rule = raising(lambda view: any(True for _ in view.intake), Phase.CALL, "admit")
    async with lab(Mind(calls(call("hang"), call("quick"))), [hang, quick], options=options(rule)) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await settled(here.kernel)
        door.set()
        outcome = await asked

        assert str(outcome) == "failed(system:broken)"
        assert stopped == [True]
        assert len(await results(conversation)) == 2


async def test_a_system_that_raises_while_a_turn_settles_does_not_hold_it_up() -> None:
    rule = raising(lambda _: True, Phase.SETTLING, "admit")
    async with lab(Mind("hello", "again"), options=options(rule)) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        again = await conversation.ask("go on")

        assert outcome.text == "hello"
        assert again.text == "again"


async def test_a_system_that_raises_with_no_turn_open_tells_who_waits_and_loses_no_input() -> None:
    first = once()

    def broken(view: View, _: int) -> Decision:
        if view.conversation is not None and view.conversation.waiting and not view.turn and first(view):
            raise ValueError("a bug in a rule")
        return Decision.none()

    mind = Mind("hello")
    async with lab(mind, options=options(system(over=ConversationState)(broken))) as here:
        conversation = await here.start()
        await conversation.pause()
        with pytest.raises(SystemRaised, match="system broken raised ValueError"):
            await conversation.ask("go")
        await conversation.unpause()
        await until(lambda: conversation.state == "idle" and mind.requests)

        assert [message.text for message in mind.shown[0]] == ["go"]


async def test_an_agent_that_cannot_be_resolved_is_an_error_of_its_own_sender() -> None:
    others = {"broken": (Mind(), {"toolboxes": ["nothing"]})}
    async with lab(Mind("hello"), others=others) as here:
        good, bad = await here.start(), await here.start("broken")
        outcomes = await asyncio.gather(good.ask("go"), bad.ask("go"), return_exceptions=True)

        assert getattr(outcomes[0], "text", None) == "hello"
        assert isinstance(outcomes[1], ConfigurationError)
        assert "nothing" in str(outcomes[1])


async def test_another_conversation_of_the_same_tick_is_not_disturbed() -> None:
    def unlucky(view: View) -> bool:
        return view.transcript.count > 0 and view.transcript.messages[-1].text == "unlucky"

    rule = raising(unlucky, Phase.PROMPT, "admit")
    async with lab(Mind(*["fine"] * 8), options=options(rule)) as here:
        conversations = [await here.start() for _ in range(5)]
        ticks = here.kernel.ticker.ticks
        texts = ["lucky", "unlucky", "lucky", "unlucky", "lucky"]
        outcomes = await asyncio.gather(
            *(conversation.ask(text) for conversation, text in zip(conversations, texts, strict=True))
        )

        assert [str(outcome) for outcome in outcomes] == [
            "completed",
            "failed(system:broken)",
            "completed",
            "failed(system:broken)",
            "completed",
        ]
        assert here.kernel.ticker.ticks - ticks < 10


async def test_a_pass_that_finds_no_end_is_stopped_at_its_limit() -> None:
    @system(over=TurnState, phase=Phase.COMPLETE)
    def chatty(view: View, turn: int) -> Decision:
        data = ModelRequested(request=Digest("0" * 64), messages=0)
        return Decision((Draft(data=data, turn=turn),))

    bounded = {"systems": [chatty], "settings": Settings(pass_decisions_max=50)}
    async with lab(Mind("hello"), options=bounded) as here:
        here.kernel.ticker.after_tick = None  # it requests twice, which the invariants forbid
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert str(outcome) == "failed(system:pass)"


async def test_a_system_stands_right_after_the_one_it_names() -> None:
    seen: list[str] = []

    @system(over=TurnState, phase=Phase.PROMPT, after="prompt")
    def behind(view: View, turn: int) -> Decision:
        seen.append("behind")
        return Decision.none()

    async with lab(Mind("hello"), options=options(behind)) as here:
        await here.ask()
        names = [known.name for known in here.kernel.schedule.systems]

    assert names[names.index(Name("prompt")) + 1] == "behind"


@pytest.mark.parametrize("names", [("admit", None), ("fine", "nowhere")])
def test_a_system_that_has_no_place_is_refused(names: tuple[str, str | None]) -> None:
    name, after = names

    def decide(view: View, turn: int) -> Decision:
        return Decision.none()

    decide.__name__ = name

    with pytest.raises(ValueError, match="in the schedule"):
        SCHEDULE.with_systems([system(over=TurnState, phase=Phase.PROMPT, after=after)(decide)])
