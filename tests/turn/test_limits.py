"""Every bound of a turn is a named outcome, and a bound that is not set does not bind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import Outcome, Phase
from agentos.events.model import ModelReply
from agentos.ids import LogId
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, until


async def work(n: int = 0) -> str:
    """Does a bit of work."""
    return f"did {n}"


def always(_: object) -> ModelReply:
    return calls(call("work"))


async def test_step_limit_ends_the_turn_after_that_many_steps() -> None:
    mind = Mind(*[always] * 9)
    async with lab(mind, [work], step_limit=3) as here:
        outcome = await here.ask()

    assert str(outcome) == "limit(steps)"
    assert (outcome.steps, outcome.calls, len(mind.requests)) == (3, 3, 3)


async def test_a_reply_without_calls_in_the_last_step_is_an_answer() -> None:
    async with lab(Mind(always, "just in time"), [work], step_limit=2) as here:
        outcome = await here.ask()

    assert (str(outcome), outcome.text) == ("completed", "just in time")


async def test_call_limit_runs_no_more_calls_than_that() -> None:
    mind = Mind(calls(*(call("work", n=n) for n in range(3))), "never")
    async with lab(mind, [work], call_limit=2) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert str(outcome) == "limit(calls)"
        assert sorted(await results(conversation)) == [
            ("denied(call_limit)", "not run: the turn's limit of 2 calls is reached"),
            ("done", "did 0"),
            ("done", "did 1"),
        ]
        assert len(mind.requests) == 1


async def test_a_turn_may_use_all_its_calls_and_answer() -> None:
    mind = Mind(calls(call("work", n=1), call("work", n=2)), "enough")
    async with lab(mind, [work], call_limit=2) as here:
        outcome = await here.ask()

    assert str(outcome) == "completed"


async def test_f51_sixty_calls_in_one_answer_are_held_to_the_limit() -> None:
    mind = Mind(calls(*(call("work", n=n) for n in range(60))))
    async with lab(mind, [work], call_limit=20) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        statuses = [status for status, _ in await results(conversation)]

        assert str(outcome) == "limit(calls)"
        assert statuses.count("done") == 20
        assert statuses.count("denied(call_limit)") == 40


async def test_limits_of_zero_are_no_limits() -> None:
    mind = Mind(*[always] * 230)
    async with lab(mind, [work], step_limit=0, call_limit=0) as here:
        outcome = await here.ask()

    assert str(outcome) == "completed"
    assert outcome.calls == 230


async def test_f51_an_endless_loop_of_calls_ends_at_the_default_step_limit() -> None:
    async with lab(Mind(*[always] * 300), [work]) as here:
        outcome = await here.ask()

    assert (str(outcome), outcome.steps) == ("limit(steps)", 50)


async def test_the_time_limit_stops_a_running_call() -> None:
    cancelled: list[bool] = []

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async with lab(Mind(calls(call("hang"))), [hang], turn_s=30) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: len(here.kernel.runner) == 1 and conversation.state == "running")
        await here.advance(29)
        before = asked.done()
        await here.advance(1)
        outcome = await asked

        assert not before
        assert str(outcome) == "limit(time)"
        assert cancelled == [True]
        assert [status for status, _ in await results(conversation)] == ["unknown(interrupted)"]
        assert (await kinds(conversation))[-3:] == ["wake.fired", "call.finished", "turn.finished"]


async def test_the_time_limit_stops_a_running_request() -> None:
    async def hang(_: object) -> Any:
        await asyncio.get_running_loop().create_future()

    async with lab(Mind(hang), turn_s=30) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: here.minds["main"].requests)
        await here.advance(30)

        assert str(await asked) == "limit(time)"
        assert (await kinds(conversation))[-3:] == ["wake.fired", "model.finished", "turn.finished"]


async def test_the_time_limit_of_a_turn_that_has_ended_does_nothing_to_the_next() -> None:
    async with lab(Mind("quick", always, "second"), [work], turn_s=30) as here:
        conversation = await here.start()
        await conversation.ask("one")
        await here.advance(29)
        second = await conversation.ask("two")
        await here.advance(29)

        assert str(second) == "completed"
        assert "wake.fired" not in await kinds(conversation)


async def test_a_history_longer_than_the_window_ends_before_the_request() -> None:
    mind = Mind("never")
    async with lab(mind, context_tokens=50) as here:
        conversation = await here.start()
        outcome = await conversation.ask("x" * 1_000)

        assert str(outcome) == "limit(context)"
        assert mind.requests == []
        assert await kinds(conversation) == ["conversation.started", "input.received", "turn.started", "turn.finished"]


async def test_a_turn_that_ends_at_once_is_the_last_turn_in_the_world() -> None:
    async with lab(Mind("fine"), context_tokens=50) as here:
        conversation = await here.start()
        first = await conversation.ask("go")
        outcome = await conversation.ask("x" * 1_000)

        assert here.kernel.world.components(first.turn) == {}
        assert set(here.kernel.world.components(outcome.turn)) == {"turn_config", "turn_state"}
        assert here.kernel.world.in_phase(Phase.SETTLED) == [LogId(conversation.id)]


async def test_a_result_that_fills_the_window_ends_the_turn_before_the_next_request() -> None:
    async def much() -> str:
        return "word " * 400

    mind = Mind(calls(call("much")), "never")
    async with lab(mind, [much], context_tokens=300) as here:
        outcome = await here.ask()

    assert (str(outcome), len(mind.requests)) == ("limit(context)", 1)


async def test_c44_unknown_tools_end_the_turn_after_the_limit_in_a_row() -> None:
    mind = Mind(*[calls(call("wrok"))] * 9)
    async with lab(mind, [work], unknown_tool_limit=5) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert str(outcome) == "limit(unknown_tool)"
        assert outcome.outcome is Outcome.LIMIT
        assert len(mind.requests) == 5
        assert {status for status, _ in await results(conversation)} == {"failed(unknown_tool)"}


async def test_a_known_tool_begins_the_count_of_unknown_ones_anew() -> None:
    wrong, right = calls(call("wrok")), calls(call("work"))
    async with lab(Mind(wrong, wrong, right, wrong, wrong, "done"), [work], unknown_tool_limit=3) as here:
        outcome = await here.ask()

    assert str(outcome) == "completed"


@pytest.mark.parametrize("key", ["step_limit", "call_limit"])
async def test_the_turn_pins_the_limits_that_it_began_with(key: str) -> None:
    spec: dict[str, Any] = {key: 7}
    async with lab(Mind("one"), [work], **spec) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (started,) = await entries_of(conversation, "turn.started")
        pinned = {type(change).__name__: change for _, change in started.changes}

        assert getattr(pinned["TurnConfig"], key) == 7
