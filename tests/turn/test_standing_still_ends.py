"""How a time that stands still ends: by a doubt that is resolved, a cancel, and never by a clock that was set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentos.components import Resolution
from agentos.definitions import SessionPolicy, SubagentUse
from agentos.ports import CallContext
from agentos.toolboxes.python import tool
from tests.support import Life, Mind, call, calls, hang, lab, results, settled, until
from tests.turn.test_waiting_for_people import ASKING, TOOL_S, answer, asking, guarded, outer, requests, runs


async def test_who_waits_for_a_subagent_whose_call_a_crash_left_in_doubt_stands_still_until_it_is_resolved() -> None:
    ran: list[str] = []

    async def pay() -> str:
        ran.append("paid")
        return str(await hang())

    @tool(effect="pure")
    async def consult(context: CallContext) -> str:
        await until(lambda: "paid" in ran)
        return (await context.call("ask_aide", {"task": "and then"})).text

    life = Life()
    tools: list[Callable[..., Any]] = [pay, consult]
    aide = Mind(calls(call("pay")))
    spec: dict[str, Any] = {
        "subagents": [SubagentUse(slug="aide", session=SessionPolicy.REUSE)],
        "tool_s": TOOL_S,
    }
    mind = Mind(calls(call("ask_aide", task="first"), call("consult")))
    await life.until_killed(
        mind, tools, lambda here: bool(ran) and here.kernel.ticker.quiet, others=paying(aide), **spec
    )
    aide = Mind("the first is done", "the second is done")
    async with life.open(Mind("over"), tools, others=paying(aide), **spec) as here:
        await here.kernel.recover()
        await until(lambda: here.kernel.services.standstill._standing)
        await here.advance(100 * TOOL_S)
        (doubt,) = await here.kernel.doubts()
        await here.kernel.resolve(doubt.call, Resolution.DONE, result="receipt 4", by="ann")
        await here.kernel.outcome(life.id)
        ended = await results(await here.kernel.get(life.id))

        assert ended[-1] == ("done", "the second is done")
        assert ran == ["paid"]
        assert not here.kernel.services.standstill._standing


def paying(aide: Mind) -> dict[str, tuple[Mind, dict[str, Any]]]:
    return {"aide": (aide, {"doubt_s": 10_000})}


async def test_an_inner_call_that_a_crash_left_in_doubt_asks_nobody_and_holds_no_time() -> None:
    """The attempt that asked for it is gone, so nobody would read what a person says of it before its turn goes on."""
    ran: list[str] = []

    async def pay() -> str:
        ran.append("paid")
        return str(await hang()) if len(ran) == 1 else "paid again"

    @tool(effect="pure")
    async def buy(context: CallContext) -> str:
        return (await context.call("pay", {})).text

    life = Life()
    tools: list[Callable[..., Any]] = [pay, buy]
    spec: dict[str, Any] = {"doubt_s": 10_000, "tool_s": TOOL_S}
    await life.until_killed(Mind(calls(call("buy"))), tools, lambda here: bool(ran), **spec)
    async with life.open(Mind("over"), tools, **spec) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "completed"
        assert [status for status, _ in await results(conversation)] == ["lost", "unknown", "done", "done"]
        assert not here.kernel.services.standstill._standing


async def test_a_call_whose_time_stands_still_is_cancelled_with_its_own_turn_and_leaves_no_timer() -> None:
    aide = Mind(calls(call("guarded")))
    others = {"aide": (aide, {"approval": "park", "policy": ASKING["policy"]})}

    @tool(effect="pure")
    async def consult(context: CallContext) -> str:
        return (await context.call("ask_aide", {"task": "go"})).text

    async with lab(
        Mind(calls(call("consult"))), [guarded, consult], others=others, subagents=["aide"], **ASKING
    ) as here:
        conversation, asked = await asking(here)
        await conversation.interrupt()
        await settled(here.kernel)
        await here.advance(60)

        assert asked.done()
        assert str(asked.result()) == "cancelled(interrupt)"
        assert not requests(here)
        assert not here.kernel.services.standstill._standing
        assert not here.kernel.runner._deadlines._own


async def test_a_clock_that_is_set_neither_ends_nor_frees_a_call_whose_time_stands_still() -> None:
    """Limits go by the clock that nobody sets; what a person is given goes by the other, as it has to outlast the process."""
    async with lab(Mind(calls(call("outer"))), [guarded, outer], **ASKING) as here:
        conversation, asked = await asking(here)
        for set_to_s in (-86_400, 2 * 86_400):
            here.clock.set_back(-set_to_s)
            await settled(here.kernel)
        still = runs(here, conversation)
        await answer(here, conversation)
        await asked

        assert still
        assert (await results(conversation))[-1] == ("done", "allowed")
