"""A process that dies while inner calls are open: what is done stays, what ran is doubted or let go, nothing runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from agentos.kernel import Conversation
from agentos.ports import CallContext
from agentos.toolboxes.python import tool
from tests.support import Lab, Life, Mind, call, calls, entries_of, hang, kinds, results, settled, until

ASKING: dict[str, Any] = {"approval": "park", "policy": [{"tool": "guarded", "verdict": "ask"}]}


class Tools:
    """An outer tool that makes an inner call of each kind at once; what ran outside is counted over all lives."""

    def __init__(self, effect: str) -> None:
        self.ran: Counter[str] = Counter()
        self.hangs = True

        @tool
        async def quick() -> str:
            self.ran["quick"] += 1
            return "quick"

        @tool
        async def slow() -> str:
            return await self._slowly("slow")

        @tool(effect="pure")
        async def again() -> str:
            return await self._slowly("again")

        @tool
        async def guarded() -> str:
            self.ran["guarded"] += 1
            return "guarded"

        @tool(effect=effect)
        async def outer(context: CallContext) -> str:
            self.ran["outer"] += 1
            names = ("quick", "slow", "again", "guarded") if self.hangs else ("quick",)
            ended = await asyncio.gather(*(context.call(name, {}) for name in names))
            return ", ".join(f"{inner.text}" for inner in ended)

        self.tools: list[Callable[..., Any]] = [quick, slow, again, guarded, outer]

    async def _slowly(self, name: str) -> str:
        self.ran[name] += 1
        if self.hangs:
            await hang()
        return name

    def all_under_way(self, here: Lab) -> bool:
        return {"quick", "slow", "again"} <= self.ran.keys() and here.kernel.ticker.quiet


async def by_call(conversation: Conversation) -> dict[str, list[str]]:
    """The ends of all calls by the names of their tools, in the order of the log."""
    found: dict[str, list[str]] = {}
    names: dict[int, str] = {}
    for entry in await conversation.history():
        data: Any = entry.data
        for entity, component in entry.changes:
            names[entity] = str(getattr(component, "tool", names.get(entity)))
        if data.kind == "call.finished":
            status = f"{data.status.value}({data.call_kind})" if data.call_kind else data.status.value
            found.setdefault(names[entry.call], []).append(status)
    return found


async def test_a_crash_leaves_the_outer_call_in_doubt_and_its_inner_calls_to_themselves() -> None:
    life, work = Life(), Tools("once")
    await life.until_killed(Mind(calls(call("outer"))), work.tools, work.all_under_way, **ASKING)
    work.hangs = False
    second = Mind("I see")
    async with life.open(second, work.tools, **ASKING) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "completed"
        assert await by_call(conversation) == {
            "quick": ["done"],
            "slow": ["unknown"],
            "again": ["cancelled(interrupted)"],
            "guarded": ["cancelled(not_started)"],
            "outer": ["unknown"],
        }
        assert work.ran == {"outer": 1, "quick": 1, "slow": 1, "again": 1}
        assert len(second.results) == 1
        assert (await kinds(conversation)).count("call.doubted") == 2


async def test_a_second_attempt_makes_inner_calls_of_its_own() -> None:
    life, work = Life(), Tools("pure")
    await life.until_killed(Mind(calls(call("outer"))), work.tools, work.all_under_way, **ASKING)
    work.hangs = False
    second = Mind("I see")
    async with life.open(second, work.tools, **ASKING) as here:
        conversation, outcome = await life.recovered(here)
        nested = [entry.data for entry in await entries_of(conversation, "call.nested")]

        assert outcome == "completed"
        assert await by_call(conversation) == {
            "quick": ["done", "done"],
            "slow": ["unknown"],
            "again": ["cancelled(interrupted)"],
            "guarded": ["cancelled(not_started)"],
            "outer": ["lost", "done"],
        }
        assert [data.attempt for data in nested] == [1, 1, 1, 1, 2]  # type: ignore[attr-defined]
        assert second.results == ["quick"]
        assert work.ran == {"outer": 2, "quick": 2, "slow": 1, "again": 1}


async def test_the_child_of_an_inner_delegation_is_told_to_end_after_a_crash() -> None:
    async def consult(context: CallContext) -> str:
        return (await context.call("ask_aide", {"task": "help"})).text

    def others(aide: Mind) -> dict[str, Any]:
        return {"others": {"aide": (aide, {"toolboxes": []})}, "subagents": ["aide"]}

    life, first = Life(), Mind(hang)
    await life.until_killed(Mind(calls(call("consult"))), [consult], lambda _: first.requests, **others(first))
    second = Mind("I see")
    async with life.open(second, [consult], **others(Mind(hang))) as here:
        conversation, outcome = await life.recovered(here)
        await settled(here.kernel)
        children = (await here.kernel.query("select state from conversations where depth = 1")).rows

        assert outcome == "completed"
        assert await results(conversation) == [
            ("unknown", (await results(conversation))[0][1]),
            ("cancelled(child:parent)", "agent aide ended without an answer: cancelled(parent)"),
        ]
        assert children == [("idle",)]


async def test_a_turn_that_is_being_ended_when_the_process_dies_ends_its_inner_calls_too() -> None:
    life, work = Life(), Tools("pure")
    door = asyncio.Event()

    @tool(effect="pure")
    async def stubborn(context: CallContext) -> str:
        asked = asyncio.ensure_future(context.call("again", {}))
        try:
            await asked
        finally:
            await asyncio.shield(door.wait())
        return "never"

    tools = [*work.tools, stubborn]
    async with life.open(Mind(calls(call("stubborn"))), tools, **ASKING) as here:
        conversation = await here.start()
        life.id = conversation.id
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: work.ran["again"])
        await conversation.interrupt()
        await until(lambda: entries_of(conversation, "turn.cancelling"))
        here.kernel.ticker.after_tick = None
        here.kernel.ticker.start_no_more()
        here.kernel.store.abandon()  # type: ignore[attr-defined]
        door.set()
    await asyncio.wait([asked])
    assert asked.exception() is not None
    async with life.open(Mind("never"), tools, **ASKING) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "cancelled(interrupt)"
        ends = await by_call(conversation)
        assert ends["again"] == ["cancelled(interrupted)"]
        assert ends["stubborn"][-1] == "cancelled(not_started)"
