"""The time that a call may take stands still while it waits for a call of its own that waits for a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import Verdict
from agentos.definitions import PolicyRule, SessionPolicy, SubagentUse
from agentos.ids import CallId, LogId
from agentos.kernel import Conversation, RunOutcome
from agentos.kernel.rest import open_requests
from agentos.ports import CallContext
from agentos.toolboxes.lua import LuaToolbox
from agentos.toolboxes.python import tool
from tests.support import Lab, Life, Mind, call, calls, hang, lab, results, settled, until

TOOL_S = 5.0
ASKING: dict[str, Any] = {
    "approval": "park",
    "policy": [PolicyRule(tool="guarded", verdict="ask")],
    "tool_s": TOOL_S,
}


async def guarded() -> str:
    """What a person has to allow."""
    return "allowed"


@tool(effect="pure")
async def outer(context: CallContext) -> str:
    return (await context.call("guarded", {})).text


@tool(effect="pure")
async def outermost(context: CallContext) -> str:
    return (await context.call("outer", {})).text


async def asking(here: Lab, agent: str = "main") -> tuple[Conversation, asyncio.Task[RunOutcome]]:
    """A turn that has gone as far as a person."""
    conversation = await here.start(agent)
    asked = asyncio.ensure_future(conversation.ask("go"))
    await until(lambda: waiting(here))
    await settled(here.kernel)
    return conversation, asked


def waiting(here: Lab) -> bool:
    return bool(open_requests(here.kernel))


def runs(here: Lab, conversation: Conversation) -> bool:
    return here.kernel.runner.busy(LogId(conversation.id))


def requests(here: Lab) -> list[CallId]:
    return open_requests(here.kernel)


async def answer(here: Lab, conversation: Conversation) -> None:
    for request in requests(here):
        await conversation.answer(request, Verdict.ALLOW, by="ann")
    await settled(here.kernel)


@pytest.mark.parametrize("name", ["outer", "outermost"])
async def test_a_person_may_think_for_longer_than_the_calls_above_may_take(name: str) -> None:
    async with lab(Mind(calls(call(name))), [guarded, outer, outermost], **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert {status for status, _ in await results(conversation)} == {"done"}


async def test_what_was_used_before_the_question_is_used_after_it() -> None:
    @tool(effect="pure")
    async def slow_before_and_after(context: CallContext) -> str:
        await here.clock.sleep(TOOL_S - 2)
        await context.call("guarded", {})
        return str(await hang())

    async with lab(Mind(calls(call("slow_before_and_after"))), [guarded, slow_before_and_after], **ASKING) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: runs(here, conversation))
        await here.advance(TOOL_S - 2)
        await until(lambda: waiting(here))
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await here.advance(1.9)
        still_runs = runs(here, conversation)
        await here.advance(0.2)
        await asked

        assert still_runs
        assert (await results(conversation))[-1] == ("timed_out(timeout)", f"no result within {TOOL_S:g} s")


async def test_a_tool_that_does_not_wait_for_its_call_has_the_time_that_it_had() -> None:
    @tool(effect="pure")
    async def impatient(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("guarded", {}))
        await until(lambda: waiting(here))
        asked.cancel()
        return str(await hang())

    async with lab(Mind(calls(call("impatient"))), [guarded, impatient], **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(TOOL_S + 0.1)

        assert asked.done()
        assert [status for status, _ in await results(conversation)][-1] == "timed_out(timeout)"


async def test_the_end_of_another_call_lets_no_time_go_on() -> None:
    quick_ended = asyncio.Event()

    async def quick() -> str:
        quick_ended.set()
        return "quick"

    @tool(effect="pure")
    async def both(context: CallContext) -> str:
        ended = await asyncio.gather(context.call("guarded", {}), context.call("quick", {}))
        return ", ".join(inner.text for inner in ended)

    async with lab(Mind(calls(call("both"))), [guarded, quick, both], **ASKING) as here:
        conversation, asked = await asking(here)
        await quick_ended.wait()
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert (await results(conversation))[-1] == ("done", "allowed, quick")


async def test_two_questions_at_once_hold_it_until_both_are_answered() -> None:
    @tool(effect="pure")
    async def twice(context: CallContext) -> str:
        ended = await asyncio.gather(*(context.call("guarded", {}) for _ in range(2)))
        return ", ".join(inner.text for inner in ended)

    async with lab(Mind(calls(call("twice"))), [guarded, twice], **ASKING) as here:
        conversation, asked = await asking(here)
        await until(lambda: len(requests(here)) == 2)
        for _ in range(2):
            await here.advance(100 * TOOL_S)
            [request, *_] = requests(here)
            await conversation.answer(request, Verdict.ALLOW, by="ann")
        await asked

        assert (await results(conversation))[-1] == ("done", "allowed, allowed")


async def test_a_question_that_a_subagent_asks_holds_the_call_that_delegated() -> None:
    @tool(effect="pure")
    async def consult(context: CallContext) -> str:
        return (await context.call("ask_aide", {"task": "go"})).text

    aide = Mind(calls(call("guarded")), "the aide is done")
    others = {"aide": (aide, {"approval": "park", "policy": ASKING["policy"]})}
    mind = Mind(calls(call("consult")))
    async with lab(mind, [guarded, consult], others=others, subagents=["aide"], **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert (await results(conversation))[-1] == ("done", "the aide is done")


async def test_who_waits_for_a_subagent_that_waits_for_a_person_already_stands_still_too() -> None:
    @tool(effect="pure")
    async def consult_later(context: CallContext) -> str:
        await until(lambda: waiting(here))
        return (await context.call("ask_aide", {"task": "and then"})).text

    aide = Mind(calls(call("guarded")), "the first is done", "the second is done")
    others = {"aide": (aide, {"approval": "park", "policy": ASKING["policy"]})}
    reused = [SubagentUse(slug="aide", session=SessionPolicy.REUSE)]
    mind = Mind(calls(call("ask_aide", task="first"), call("consult_later")))
    async with lab(mind, [guarded, consult_later], others=others, subagents=reused, **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert {end for end, _ in await results(conversation)} == {"done"}
        assert (await results(conversation))[-1][1] == "the second is done"
        assert not here.kernel.services.standstill._standing


async def test_a_sync_tool_in_its_thread_waits_for_a_person_too() -> None:
    @tool(effect="pure")
    def threaded(context: CallContext) -> str:
        return context.call_from_thread("guarded", {}).text

    async with lab(Mind(calls(call("threaded"))), [guarded, threaded], **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert (await results(conversation))[-1] == ("done", "allowed")


async def test_a_refused_question_lets_the_time_go_on() -> None:
    @tool(effect="pure")
    async def stubborn(context: CallContext) -> str:
        await context.call("guarded", {})
        return str(await hang())

    async with lab(Mind(calls(call("stubborn"))), [guarded, stubborn], **ASKING) as here:
        conversation, asked = await asking(here)
        await conversation.answer(requests(here)[0], Verdict.DENY, by="ann")
        await here.advance(TOOL_S + 0.1)
        await asked

        assert [status for status, _ in await results(conversation)] == ["denied(approval)", "timed_out(timeout)"]
        assert not here.kernel.services.standstill._standing


async def test_a_question_that_nobody_answers_in_time_lets_the_time_go_on() -> None:
    async with lab(Mind(calls(call("outer"))), [guarded, outer], approval_s=30, **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(31)
        await asked

        assert [status for status, _ in await results(conversation)] == ["denied(approval)", "done"]


async def test_a_turn_that_is_cancelled_meanwhile_ends_at_once() -> None:
    async with lab(Mind(calls(call("outermost"))), [guarded, outer, outermost], **ASKING) as here:
        conversation, asked = await asking(here)
        await conversation.interrupt()
        await asked

        assert not here.kernel.services.standstill._standing
        assert not len(here.kernel.runner)


async def test_a_call_that_runs_again_after_a_restart_waits_for_a_person_again() -> None:
    life = Life()
    tools: list[Callable[..., Any]] = [guarded, outer]
    await life.until_killed(Mind(calls(call("outer"))), tools, waiting, **ASKING)
    async with life.open(Mind("over"), tools, **ASKING) as here:
        conversation = await here.kernel.get(life.id)
        await here.kernel.recover()
        await until(lambda: len(requests(here)) == 1 and runs(here, conversation))
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await here.kernel.outcome(life.id)

        assert (await results(conversation))[-1] == ("done", "allowed")


async def test_a_script_in_lua_waits_for_a_person_as_long_as_that_takes() -> None:
    lua = LuaToolbox("lua", tools=["guarded"])
    mind = Mind(calls(call("lua_run", script="return tools.guarded{}")))
    async with lab(mind, [guarded], toolboxes=[lua], **ASKING) as here:
        conversation, asked = await asking(here)
        await here.advance(100 * TOOL_S)
        await answer(here, conversation)
        await asked

        assert json.loads((await results(conversation))[-1][1])["values"] == ["allowed"]
