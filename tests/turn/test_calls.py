"""What may happen to a call that runs: values, failures, time limits, things it borrowed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentos.components import EffectClass
from agentos.errors import CodecError, ToolError
from agentos.kernel import Conversation
from agentos.lineage import FrameType
from agentos.ports import CallContext
from agentos.resources import Scope
from agentos.toolboxes.python import tool
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, settled, until


def hanging(effect: str, timeout_s: float | None = None) -> Any:
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    return tool(effect=effect, timeout_s=timeout_s)(hang)


@pytest.mark.parametrize(
    ("effect", "status"),
    [("once", "unknown(timeout)"), ("pure", "timed_out(timeout)"), ("idempotent", "timed_out(timeout)")],
)
async def test_a_call_over_its_time_limit_is_unknown_when_it_may_have_done_harm(effect: str, status: str) -> None:
    mind = Mind(calls(call("hang")), "I see")
    async with lab(mind, [hanging(effect)], tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(4.9)
        before = await results(conversation)
        await here.advance(0.1)
        outcome = await asked

        assert before == []
        assert [found for found, _ in await results(conversation)] == [status]
        assert "5 s" in mind.results[0]
        assert outcome.text == "I see"


async def test_a_tools_own_time_limit_goes_before_the_agents() -> None:
    mind = Mind(calls(call("hang")))
    async with lab(mind, [hanging("pure", timeout_s=2)], tool_s=300) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(2)

        assert (await asked).completed
        assert "2 s" in mind.results[0]


async def test_a_quick_call_is_not_touched_by_the_time_limit_of_a_slow_one() -> None:
    door = asyncio.Event()

    @tool(effect="pure")
    async def slow() -> str:
        await door.wait()
        return "slow"

    async def quick() -> str:
        return "quick"

    mind = Mind(calls(call("hang"), call("quick"), call("slow")))
    async with lab(mind, [hanging("pure", timeout_s=1), quick, slow]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(1)
        door.set()
        await asked

        assert sorted(status for status, _ in await results(conversation)) == ["done", "done", "timed_out(timeout)"]


async def test_what_a_tool_raises_is_the_failure_of_its_call_alone() -> None:
    async def choosy() -> None:
        raise ToolError("say it in other words")

    async def buggy() -> None:
        raise KeyError("nothing here")

    mind = Mind(calls(call("choosy"), call("buggy")), "never mind")
    async with lab(mind, [choosy, buggy]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert await results(conversation) == [
            ("failed(tool)", "say it in other words"),
            ("failed(raised)", "KeyError: 'nothing here'"),
        ]
        assert outcome.text == "never mind"


async def test_a_call_sees_who_it_is_and_the_whole_chain_above_it() -> None:
    seen: list[CallContext] = []
    frames: list[FrameType] = []

    async def look(context: CallContext) -> str:
        seen.append(context)
        frames.extend(frame.type for frame in context.lineage.frames)
        return "seen"

    async with lab(Mind(calls(call("look"))), [look], tool_s=7) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        (context,) = seen
        assert (context.conversation, context.turn, context.agent) == (conversation.id, outcome.turn, "main")
        assert (context.attempt, context.timeout_s, context.key) == (1, 7, context.call_id)
        assert frames == [FrameType.CONVERSATION, FrameType.TURN, FrameType.CALL]


async def test_progress_is_stored_while_the_call_runs() -> None:
    door = asyncio.Event()

    async def work(context: CallContext) -> str:
        context.progress({"half": True, "text": "a\0b"})
        await door.wait()
        return "whole"

    async with lab(Mind(calls(call("work"))), [work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        progress = await entries_of(conversation, "call.progress")
        door.set()
        await asked

        assert [entry.private for entry in progress] == [(("data", {"half": True, "text": "a\0b"}),)]


async def test_what_a_call_borrowed_is_given_back_newest_first_before_its_result_is_stored() -> None:
    given_back: list[str] = []
    stored: list[bool] = []

    async def borrow(context: CallContext) -> str:
        async def late() -> None:
            await asyncio.sleep(0)
            stored.append(bool(await entries_of(conversation, "call.finished")))
            given_back.append("late")

        context.defer(lambda: given_back.append("first"))
        context.defer(late)
        return "worked"

    async with lab(Mind(calls(call("borrow"))), [borrow]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert given_back == ["late", "first"]
        assert stored == [False]
        assert _open_paths(here.kernel.scope) == ["program", "program/box"]


async def test_a_conversation_that_lent_something_once_keeps_no_scope() -> None:
    async def borrow(context: CallContext) -> str:
        context.defer(lambda: None)
        return "worked"

    replies: list[Any] = [calls(call("borrow")), "done"]
    async with lab(Mind(*replies * 20), [borrow]) as here:
        for _ in range(20):
            await here.ask()
        await settled(here.kernel)

        assert [scope.children for scope in here.kernel.scope.children] == [(), ()]


async def test_a_sync_tool_may_use_its_context_from_its_thread() -> None:
    door, given_back = threading.Event(), list[str]()

    def work(context: CallContext) -> str:
        """Works off the loop."""
        context.defer(lambda: given_back.append(threading.current_thread().name))
        context.progress({"half": True})
        door.wait(60)
        with pytest.raises(CodecError):
            context.progress(object())
        return f"worked for {context.agent}, {context.lineage.depth} levels down"

    async with lab(Mind(calls(call("work"))), [work]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: _has(conversation, "call.progress"))
        before = list(given_back)
        door.set()
        await asked

        assert await results(conversation) == [("done", "worked for main, 0 levels down")]
        assert (before, given_back) == ([], [threading.current_thread().name])


def _open_paths(scope: Scope) -> list[str]:
    """Of the scope and of all below that have something to give back."""
    below = [path for child in scope.children for path in _open_paths(child)]
    return ["/".join(scope.path), *below] if scope.open else below


async def _has(conversation: Conversation, kind: str) -> bool:
    return bool(await entries_of(conversation, kind))


@pytest.mark.parametrize("ending", ["raises", "times out", "is interrupted"])
async def test_what_a_call_borrowed_comes_back_however_the_call_ends(ending: str) -> None:
    given_back: list[bool] = []

    async def borrow(context: CallContext) -> None:
        context.defer(lambda: given_back.append(True))
        if ending == "raises":
            raise RuntimeError("broken")
        await asyncio.get_running_loop().create_future()

    async with lab(Mind(calls(call("borrow"))), [borrow], tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        if ending == "times out":
            await here.advance(5)
        elif ending == "is interrupted":
            await conversation.interrupt()
        await asked

        assert given_back == [True]


async def test_a_release_that_fails_is_told_with_the_result() -> None:
    async def borrow(context: CallContext) -> str:
        def release() -> None:
            raise OSError("it is stuck")

        context.defer(release)
        return "worked"

    mind = Mind(calls(call("borrow")))
    async with lab(mind, [borrow]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        ((status, text),) = await results(conversation)
        assert status == "done(release)"
        assert text.startswith("worked\n(clean-up failed: ")
        assert "it is stuck" in text


async def test_c24_a_huge_result_is_cut_for_the_model_and_kept_whole_in_the_store() -> None:
    huge = "head " + "x" * 5_000_000 + " tail"

    async def dump() -> str:
        return huge

    mind = Mind(calls(call("dump")), "read it")
    async with lab(mind, [dump], result_chars=2_000) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        (entry,) = await entries_of(conversation, "call.finished")

        (shown,) = mind.results
        assert outcome.completed
        assert len(shown) <= 2_000
        assert shown.startswith("head ")
        assert shown.endswith(" tail")
        assert "5,000,010" in shown
        assert dict(entry.private)["whole"] == huge


async def test_c24_what_is_kept_of_a_result_beyond_every_bound_says_its_true_size() -> None:
    async def dump() -> str:
        return "head " + "x" * 20_000_000 + " tail"

    async with lab(Mind(calls(call("dump"))), [dump], result_chars=2_000) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (entry,) = await entries_of(conversation, "call.finished")

        whole = dict(entry.private)["whole"]
        assert len(whole) <= 16 * 1024 * 1024
        assert whole.startswith("head ")
        assert whole.endswith(" tail")
        assert "20,000,010" in whole


async def test_a_call_may_report_progress_so_often_and_no_more() -> None:
    async def chatty(context: CallContext) -> str:
        for n in range(1_001):
            context.progress(n)
        return "never"

    mind = Mind(calls(call("chatty")))
    async with lab(mind, [chatty]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        progress = await entries_of(conversation, "call.progress")

        assert len(progress) == 1_000
        assert "progress_max" in mind.results[0]


async def test_c24_the_words_of_a_failure_are_cut_like_those_of_a_result() -> None:
    async def loud() -> None:
        raise ValueError("head " + "x" * 100_000 + " tail")

    async def polite() -> None:
        raise ToolError("head " + "x" * 100_000 + " tail")

    mind = Mind(calls(call("loud"), call("polite")))
    async with lab(mind, [loud, polite], result_chars=1_000) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["failed(raised)", "failed(tool)"]
        assert all(len(text) <= 1_000 and text.endswith(" tail") for text in mind.results)


async def test_the_effect_class_that_an_agent_names_goes_before_the_tools() -> None:
    mind = Mind(calls(call("hang")))
    async with lab(mind, [hanging("once")], tool_s=5, effects={"hang": EffectClass.PURE}) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(5)
        await asked

        assert [status for status, _ in await results(conversation)] == ["timed_out(timeout)"]


async def test_a_toolbox_that_was_removed_fails_its_calls_and_nothing_else() -> None:
    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        return "worked"

    async def remove(_: object) -> Any:
        await here.kernel.remove("box")
        return calls(call("work"))

    mind = Mind(remove, "without it then")
    async with lab(mind, [work]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert ran == []
        assert [status for status, _ in await results(conversation)] == ["failed(unavailable)"]
        assert outcome.text == "without it then"


async def test_a_call_started_is_stored_before_its_tool_runs() -> None:
    seen: list[list[str]] = []

    async def look() -> str:
        seen.append(await kinds(conversation))
        return "seen"

    async with lab(Mind(calls(call("look"))), [look]) as here:
        conversation = await here.start()
        await conversation.ask("go")

    assert seen[0][-1] == "call.started"


async def test_two_conversations_run_their_calls_at_the_same_time() -> None:
    inside: list[str] = []
    door = asyncio.Event()

    async def meet(context: CallContext) -> str:
        inside.append(context.conversation)
        await door.wait()
        return "met"

    mind = Mind(calls(call("meet")), calls(call("meet")))
    async with lab(mind, [meet]) as here:
        asked = [asyncio.create_task(here.ask()) for _ in range(2)]
        await until(lambda: len(inside) == 2)
        door.set()

        assert all(outcome.completed for outcome in await asyncio.gather(*asked))
        assert len(set(inside)) == 2
