"""What becomes of a model that fails, by the kind of its failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.errors import ModelError
from agentos.events.model import Finish, ModelReply, ToolCall, Usage
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, settled, units, until


def broken(kind: str = "network", retry_after_s: float | None = None, text: str = "") -> ModelError:
    return ModelError(kind, f"{kind} happened", retry_after_s=retry_after_s, text=text)


async def work() -> str:
    return "worked"


@pytest.mark.parametrize("kind", sorted(ModelError.RETRYABLE))
async def test_what_may_go_away_is_tried_again_after_a_wait(kind: str) -> None:
    mind = Mind(broken(kind), "there")
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        parked = conversation.state
        await here.advance(0.4)
        early = len(mind.requests)
        await here.advance(0.7)
        outcome = await asked

        assert (parked, early) == ("parked", 1)
        assert (str(outcome), outcome.text) == ("completed", "there")
        assert [request.attempt for request in mind.requests] == [1, 2]
        assert (await units(conversation))[2:] == [
            ["model.finished"],
            ["wake.fired", "model.requested"],
            ["model.finished", "turn.finished"],
        ]


@pytest.mark.parametrize("kind", ["auth", "invalid_request", "context", "unavailable"])
async def test_what_stays_wrong_fails_the_turn_at_once(kind: str) -> None:
    mind = Mind(broken(kind))
    async with lab(mind) as here:
        outcome = await here.ask()

    assert str(outcome) == f"failed(model:{kind})"
    assert outcome.error == f"{kind} happened"
    assert len(mind.requests) == 1


async def test_attempts_end_at_their_limit_with_growing_waits_between() -> None:
    mind = Mind(*[broken() for _ in range(9)])
    async with lab(mind, model_attempts=4, retry_base_s=10, retry_cap_s=30) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        waits = []
        while not asked.done():
            waits.append(here.clock.next_due_s or 0.0)
            await here.advance(waits[-1])

        outcome = await asked
        backoffs = [wait for wait in waits if wait > 1]
        assert str(outcome) == "failed(model:network)"
        assert len(mind.requests) == 4
        assert len(await entries_of(conversation, "wake.fired")) == 3
        assert sum(backoffs) <= 10 + 20 + 30


async def test_the_same_place_of_a_log_always_waits_equally_long() -> None:
    waits = []
    for _ in range(2):
        async with lab(Mind(broken(), "there")) as here:
            conversation = await here.start()
            asked = asyncio.create_task(conversation.ask("go"))
            await settled(here.kernel)
            (entry,) = await entries_of(conversation, "model.finished")
            waits.append([change.retry_at for _, change in entry.changes if hasattr(change, "retry_at")])
            await here.advance(2)
            await asked

    assert waits[0] == waits[1]


async def test_c43_retry_after_is_waited_for() -> None:
    mind = Mind(broken("rate_limit", 3.0), broken("rate_limit", 3.0), "there")
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        asked_at = []
        for _ in range(8):
            asked_at.append(len(mind.requests))
            await here.advance(1.0)
        outcome = await asked

    assert outcome.text == "there"
    assert asked_at[:7] == [0, 1, 1, 2, 2, 2, 3]


async def test_c43_retry_after_above_the_cap_fails_at_once() -> None:
    mind = Mind(ModelError("rate_limit", "come back in 864000 s", retry_after_s=864_000))
    async with lab(mind, retry_cap_s=60) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        (entry,) = await entries_of(conversation, "model.finished")

        assert str(outcome) == "failed(model:rate_limit)"
        assert "864000" in outcome.error
        assert getattr(entry.data, "retry_after_s") == 864_000  # noqa: B009 - the type of data is that of all kinds


async def test_c43_a_cancel_ends_the_wait_for_a_retry() -> None:
    mind = Mind(broken("rate_limit", 30.0), "never")
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        await conversation.interrupt()
        outcome = await asked
        await here.advance(60)

        assert str(outcome) == "cancelled(interrupt)"
        assert len(mind.requests) == 1
        assert "wake.fired" not in await kinds(conversation)


async def test_each_step_has_its_own_attempts() -> None:
    replies: list[Any] = []
    for _ in range(4):
        replies += [broken(), broken(), calls(call("work"))]
    async with lab(Mind(*replies), [work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        for _ in range(16):
            await here.advance(5)

        assert str(await asked) == "completed"


async def test_f50_empty_answers_are_not_retried_for_ever() -> None:
    mind = Mind("", ModelReply(finish=Finish.TOOL_USE), "", "never")
    async with lab(mind) as here:
        outcome = await here.ask()

    assert str(outcome) == "failed(model:empty)"
    assert len(mind.requests) == 3


async def test_an_empty_answer_leaves_nothing_in_the_history() -> None:
    mind = Mind("", "there")
    async with lab(mind) as here:
        outcome = await here.ask("hello")

    assert outcome.text == "there"
    assert [message.text for message in mind.shown[-1]] == ["hello"]


async def test_c39_a_refusal_ends_the_turn_with_its_text() -> None:
    mind = Mind(ModelReply("I will not do that.", finish=Finish.REFUSAL))
    async with lab(mind) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        again = await conversation.ask("and now?")

    assert (str(outcome), outcome.text) == ("refused", "I will not do that.")
    assert again.completed
    assert [message.text for message in mind.shown[-1]] == ["go", "I will not do that.", "and now?"]


async def test_a_refusal_runs_none_of_its_calls() -> None:
    mind = Mind(ModelReply("no", (ToolCall("work"),), Finish.REFUSAL), "next")
    async with lab(mind, [work]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        await conversation.ask("again")

        assert str(outcome) == "refused"
        assert "call.started" not in await kinds(conversation)


async def test_an_answer_that_is_cut_at_its_length_is_truncated_and_kept() -> None:
    async with lab(Mind(ModelReply("a long st", finish=Finish.LENGTH))) as here:
        outcome = await here.ask()

    assert (str(outcome), outcome.text) == ("truncated", "a long st")


@pytest.mark.parametrize("arguments", ['{"path": "a", "content": "abc', {"path": "a", "content": "whole"}])
async def test_c40_no_call_of_a_reply_cut_at_its_length_runs(arguments: Any) -> None:
    ran: list[str] = []

    async def write(path: str, content: str) -> str:
        ran.append(path)
        return "written"

    first, second = ToolCall("write", {"path": "b", "content": "x"}), ToolCall("write", arguments)
    mind = Mind(calls(first, second, finish=Finish.LENGTH), "I send it again, shorter")
    async with lab(mind, [write]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert ran == []
        assert [status for status, _ in await results(conversation)] == ["failed(cut)", "failed(cut)"]
        assert all("cut off" in text and "again" in text for text in mind.results)
        assert outcome.completed


async def test_c42_a_cut_stream_is_tried_again_and_its_text_is_not_doubled() -> None:
    mind = Mind(broken("cut", text="half a sen"), "half a sentence")
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(2)
        outcome = await asked
        cut = (await entries_of(conversation, "model.finished"))[0]

        assert outcome.text == "half a sentence"
        assert [message.text for message in mind.shown[-1]] == ["go"]
        assert getattr(cut.data, "finish") is Finish.ERROR  # noqa: B009
        assert ("text", "half a sen") in cut.private


async def test_c42_what_came_of_an_answer_that_never_ends_well_is_kept() -> None:
    mind = Mind(*[broken("cut", text="half a sen")] * 3)
    async with lab(mind) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(2)
        await here.advance(4)
        outcome = await asked

    assert (str(outcome), outcome.text, outcome.error) == ("failed(model:cut)", "half a sen", "cut happened")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), asyncio.CancelledError(), SystemExit(3)])
async def test_an_adapter_that_raises_anything_fails_its_turn_alone(error: BaseException) -> None:
    mind = Mind(error, "well again")
    async with lab(mind) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        again = await conversation.ask("go on")

    assert str(outcome) == "failed(model:adapter)"
    assert again.text == "well again"


async def test_a_model_that_hangs_is_cut_off_and_asked_again() -> None:
    async def hang(_: object) -> Any:
        await asyncio.get_running_loop().create_future()

    mind = Mind(hang, "there")
    async with lab(mind, model_s=20) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        await here.advance(20)
        first = (await entries_of(conversation, "model.finished"))[0]
        await here.advance(2)
        outcome = await asked

        assert getattr(first.data, "error") == "timeout"  # noqa: B009
        assert outcome.text == "there"


async def test_usage_of_failed_attempts_is_counted_too() -> None:
    mind = Mind(ModelReply(usage=Usage(7, 1)), ModelReply("there", usage=Usage(7, 3)))
    async with lab(mind) as here:
        outcome = await here.ask()

    assert (outcome.input_tokens, outcome.output_tokens) == (14, 4)
