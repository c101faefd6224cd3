"""How deep and how wide agents may delegate, and what a crash in the middle of it leaves (C52)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import ConversationConfig, ConversationState
from agentos.definitions import SessionPolicy, SubagentUse
from agentos.errors import KernelClosed
from agentos.events.model import ModelRequest, Role
from agentos.kernel import Conversation
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from tests.support import Lab, Mind, call, calls, crash, entries_of, kinds, lab, results, settled, units


class Endless(Mind):
    """Delegates to the first agents that it is shown, width times, as long as it is shown any; then answers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    async def complete(self, request: ModelRequest, on_delta: Any) -> Any:
        self._replies = [self._answer]
        return await super().complete(request, on_delta)

    def _answer(self, request: ModelRequest) -> Any:
        tools = [tool.name for tool in request.context.tools]
        if not tools or request.messages[-1].role is Role.TOOL:
            return "leaf" if not tools else "done"
        return calls(*(call(tools[0], task="deeper") for _ in range(self._width)))


async def rows(here: Lab, sql: str) -> list[tuple[Any, ...]]:
    return (await here.kernel.query(sql)).rows


async def test_c52_an_agent_that_asks_itself_for_ever_ends_at_the_depth_limit() -> None:
    mind = Endless(1)
    async with lab(mind, subagents=["main"], options={"settings": Settings(depth_max=3)}) as here:
        outcome = await here.ask()

        assert outcome.completed
        assert await rows(here, "select depth from conversations order by depth") == [(0,), (1,), (2,), (3,)]


async def test_c52_a_cycle_of_agents_ends_at_the_depth_limit() -> None:
    others = {"b": (Endless(1), {"subagents": ["main"]})}
    async with lab(Endless(1), subagents=["b"], others=others, options={"settings": Settings(depth_max=4)}) as here:
        outcome = await here.ask()

        assert outcome.completed
        assert [agent for (agent,) in await rows(here, "select agent from conversations order by depth")] == [
            "main",
            "b",
            "main",
            "b",
            "main",
        ]


async def test_c52_at_the_depth_limit_the_tool_is_hidden_and_a_call_of_it_is_an_error() -> None:
    stubborn = Mind(calls(call("ask_child", task="x")), "never mind")
    others = {"child": (stubborn, {"subagents": ["child"]})}
    async with lab(
        Mind(calls(call("ask_child", task="x"))),
        subagents=["child"],
        others=others,
        options={"settings": Settings(depth_max=1)},
    ) as here:
        parent = await here.start()
        outcome = await parent.ask("go")

        assert outcome.completed
        assert stubborn.requests[0].context.tools == ()
        assert "no tool 'ask_child'" in stubborn.results[0]
        assert await rows(here, "select count(*) from conversations") == [(2,)]


async def test_c52_four_children_at_every_level_stay_within_the_budget_of_the_root() -> None:
    mind = Endless(4)
    async with lab(mind, subagents=["main"], options={"settings": Settings(depth_max=5, children_max=30)}) as here:
        parent = await here.start()
        outcome = await parent.ask("go")
        ((made,),) = await rows(here, "select count(*) from conversations where parent is not null")
        refused = await rows(here, "select count(*) from calls where kind = 'children'")
        config = here.kernel.world.get(parent.id, ConversationConfig)
        state = here.kernel.world.get(parent.id, ConversationState)

        assert outcome.completed
        assert 4 < made <= 30
        assert refused[0][0] > 0
        assert config is not None
        assert state is not None
        assert (config.children_budget, state.children_used) == (30, made)


async def test_the_budget_is_over_all_turns_of_a_root() -> None:
    asking = calls(call("ask_child", task="x"))
    mind = Mind(asking, "one", asking, "two", asking, "three")
    options = {"settings": Settings(children_max=2)}
    async with lab(mind, subagents=["child"], others={"child": (Mind(), {})}, options=options) as here:
        parent = await here.start()
        for text in ("a", "b", "c"):
            await parent.ask(text)

        assert [status for status, _ in await results(parent)] == ["done", "done", "failed(children)"]
        assert "do the task yourself" in mind.results[0]


async def test_what_a_child_does_not_use_comes_back() -> None:
    """Of a budget of 20 each child is granted several at a time, uses one, and all 20 can be used."""
    asking = calls(call("ask_child", task="x"))
    mind = Mind(*[asking] * 25)
    options = {"settings": Settings(children_max=20)}
    async with lab(mind, subagents=["child"], others={"child": (Mind(), {})}, options=options) as here:
        parent = await here.start()
        await parent.ask("go")

        statuses = [status for status, _ in await results(parent)]
        assert statuses == ["done"] * 20 + ["failed(children)"] * 5


async def test_a_reused_child_counts_once() -> None:
    asking = calls(call("ask_child", task="x"))
    mind = Mind(*[asking] * 6)
    options = {"settings": Settings(children_max=3)}
    uses = [SubagentUse(slug="child", session=SessionPolicy.REUSE)]
    async with lab(mind, subagents=uses, others={"child": (Mind(), {})}, options=options) as here:
        parent = await here.start()
        await parent.ask("go")
        state = here.kernel.world.get(parent.id, ConversationState)

        assert [status for status, _ in await results(parent)] == ["done"] * 6
        assert state is not None
        assert state.children_used == 1


async def test_the_budget_of_a_child_that_never_ended_is_not_given_out_again() -> None:
    """The child of a cancelled turn is unknown; nobody knows any more what it was granted when its end comes late."""
    started, door = asyncio.Event(), asyncio.Event()

    async def stubborn(_: object) -> str:
        started.set()
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    options = {"settings": Settings(children_max=9)}
    others: dict[str, Any] = {"child": (Mind(stubborn), {})}
    async with lab(
        Mind(calls(call("ask_child", task="x"))), subagents=["child"], others=others, options=options
    ) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await started.wait()
        await parent.interrupt()
        await here.advance(5)
        await asked
        held = here.kernel.world.get(parent.id, ConversationState)
        door.set()
        await settled(here.kernel)
        after = here.kernel.world.get(parent.id, ConversationState)

        assert held is not None
        assert after is not None
        assert held.children_used > 1
        assert after.children_used == held.children_used


async def parent_and_child(here: Lab) -> tuple[Conversation, Conversation]:
    (parent,), (child,) = await rows(here, "select id from conversations order by depth")
    return await here.kernel.get(parent), await here.kernel.get(child)


async def test_a_crash_in_the_child_resumes_the_child_and_the_parent_stays_parked() -> None:
    store = MemoryStore()
    inside = asyncio.Event()

    async def work() -> str:
        inside.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    others: dict[str, Any] = {"child": (Mind(calls(call("work"))), {"toolboxes": ["box"]})}
    asking = Mind(calls(call("ask_child", task="x")))
    async with lab(asking, [work], subagents=["child"], others=others, store=store) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await inside.wait()
        crash(here)
    with pytest.raises(KernelClosed):
        await asked

    child_mind = Mind("I do not know whether it worked")
    others = {"child": (child_mind, {"toolboxes": ["box"]})}
    async with lab(Mind("so be it"), [work], subagents=["child"], others=others, store=store, first_id=50) as here:
        resumed = await here.kernel.recover()
        outcome = await here.kernel.outcome(parent.id)
        parent, child = await parent_and_child(here)

        assert len(resumed) == 2
        assert outcome is not None
        assert outcome.text == "so be it"
        assert (await units(child))[2:] == [
            ["turn.resumed", "call.doubted"],
            ["call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]
        assert [status for status, _ in await results(child)] == ["unknown"]
        assert "unknown" in child_mind.results[0]
        assert (await kinds(parent)).count("call.started") == 1
        assert await results(parent) == [("done", "I do not know whether it worked")]


async def test_a_crash_right_after_the_delegation_was_stored_loses_no_task() -> None:
    """The post lies in the child's inbox, and the child begins at recovery."""
    store = MemoryStore()
    asking = Mind(calls(call("ask_child", task="x")))
    async with lab(asking, subagents=["child"], others={"child": (Mind(), {})}, store=store) as here:
        parent = await here.start()
        here.kernel.logs.route = lambda log, item, key: None  # type: ignore[method-assign]
        await parent.send("go")
        await settled(here.kernel)
        crash(here)

    others: dict[str, Any] = {"child": (Mind("did it"), {})}
    async with lab(Mind("thanks"), subagents=["child"], others=others, store=store, first_id=50) as here:
        await here.kernel.recover()
        outcome = await here.kernel.outcome(parent.id)
        parent, child = await parent_and_child(here)

        assert outcome is not None
        assert outcome.text == "thanks"
        assert await results(parent) == [("done", "did it")]
        assert len(await entries_of(child, "input.received")) == 1
