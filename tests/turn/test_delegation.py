"""An agent that asks another: the child's turn is in a log of its own, and only task and result cross over."""

from __future__ import annotations

import asyncio
from typing import Any

from agentos.components import ToolboxSharing
from agentos.definitions import SessionPolicy, SubagentUse
from agentos.events.model import ModelRequest, Role
from agentos.ids import call_id
from agentos.kernel import Conversation
from agentos.lineage import FrameType
from agentos.ports import CallContext
from tests.support import Lab, Mind, call, calls, entries_of, kinds, lab, results, settled, units, until

REUSE = [SubagentUse(slug="child", session=SessionPolicy.REUSE)]


def asking(*tasks: str) -> Any:
    return calls(*(call("ask_child", task=task) for task in tasks))


async def children(here: Lab, parent: Conversation) -> list[Conversation]:
    sql = "select id from conversations where parent = ? order by started_at, id"
    return [await here.kernel.get(row[0]) for row in (await here.kernel.query(sql, (parent.id,))).rows]


def echo(request: ModelRequest) -> str:
    task = next(message.text for message in reversed(request.messages) if message.role is Role.USER)
    return f"did {task}"


async def test_a_delegation_is_told_by_two_logs() -> None:
    mind, child_mind = Mind(asking("count")), Mind("42")
    async with lab(mind, subagents=["child"], others={"child": (child_mind, {})}) as here:
        parent = await here.start()
        await parent.ask("how many?")
        (child,) = await children(here, parent)

        assert (await units(parent))[2:] == [
            ["model.finished", "call.proposed", "call.started"],
            ["call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]
        assert await units(child) == [
            ["conversation.started", "input.received", "turn.started", "model.requested"],
            ["model.finished", "turn.finished"],
        ]
        assert [message.text for message in child_mind.shown[0]] == ["count"]
        assert mind.results == ["42"]


async def test_the_end_of_a_delegation_names_the_childs_digest() -> None:
    async with lab(Mind(asking("count")), subagents=["child"], others={"child": (Mind("42"), {})}) as here:
        parent = await here.start()
        await parent.ask("go")
        (child,) = await children(here, parent)
        (finished,) = await entries_of(parent, "call.finished")
        row = await here.kernel.store.log(child.id)

        assert row is not None
        assert getattr(finished.data, "child_head") == row.digest.hex()  # noqa: B009
        assert row.parent_call == call_id(parent.id, finished.call)
        assert row.root == parent.id


async def test_a_parent_that_waits_for_a_child_is_parked() -> None:
    door = asyncio.Event()

    async def slow(_: object) -> str:
        await door.wait()
        return "done"

    async with lab(Mind(asking("x")), subagents=["child"], others={"child": (Mind(slow), {})}) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await settled(here.kernel)
        (child,) = await children(here, parent)
        states = (parent.state, child.state)
        door.set()
        await asked

        assert states == ("parked", "running")


async def test_parallel_delegations_are_conversations_of_their_own() -> None:
    mind = Mind(asking("a", "b", "c"))
    async with lab(mind, subagents=["child"], others={"child": (Mind(echo, echo, echo), {})}) as here:
        parent = await here.start()
        await parent.ask("go")

        assert len(await children(here, parent)) == 3
        assert mind.results == ["did a", "did b", "did c"]


async def test_with_reuse_calls_go_to_one_conversation_one_after_the_other() -> None:
    mind, child_mind = Mind(asking("a", "b"), asking("c")), Mind(echo, echo, echo)
    async with lab(mind, subagents=REUSE, others={"child": (child_mind, {})}) as here:
        parent = await here.start()
        await parent.ask("go")
        (child,) = await children(here, parent)

        assert [text for _, text in await results(parent)] == ["did a", "did b", "did c"]
        assert len(await entries_of(child, "turn.finished")) == 3
        texts = [message.text for message in child_mind.shown[-1]]
        assert texts == ["a", "did a", "b", "did b", "c"]


async def test_with_reuse_a_cancelled_call_does_not_take_the_other_along() -> None:
    """Both tasks wait for one child; its first turn is interrupted, and the second still runs."""
    started = asyncio.Event()

    async def hang(_: object) -> str:
        started.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    mind = Mind(asking("a", "b"))
    async with lab(mind, subagents=REUSE, others={"child": (Mind(hang, echo), {})}) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await started.wait()
        (child,) = await children(here, parent)
        await child.interrupt()
        await asked

        assert [status for status, _ in await results(parent)] == ["cancelled(child:interrupt)", "done"]
        assert mind.results[1] == "did b"


async def test_reuse_is_per_parent_conversation() -> None:
    async with lab(Mind(asking("a"), "x", asking("b"), "y"), subagents=REUSE, others={"child": (Mind(), {})}) as here:
        first, second = await here.start(), await here.start()
        await first.ask("go")
        await second.ask("go")

        assert (await children(here, first))[0].id != (await children(here, second))[0].id


async def test_an_agent_may_ask_itself() -> None:
    def minded(request: ModelRequest) -> Any:
        return calls(call("ask_main", task="smaller")) if request.messages[-1].text == "big" else echo(request)

    mind = Mind(minded, minded, minded)
    async with lab(mind, subagents=["main"]) as here:
        parent = await here.start()
        outcome = await parent.ask("big")
        (child,) = await children(here, parent)

        assert outcome.text == "did big"
        assert await results(parent) == [("done", "did smaller")]
        assert (await here.kernel.query("select agent, depth from conversations order by depth")).rows == [
            ("main", 0),
            ("main", 1),
        ]
        assert child.id != parent.id


async def test_a_delegation_holds_no_slot_of_a_toolbox_that_the_child_needs() -> None:
    async def work() -> str:
        return "worked"

    mind = Mind(calls(call("work"), call("ask_child", task="x")))
    others = {"child": (Mind(calls(call("work"))), {"toolboxes": ["box"]})}
    async with lab(
        mind, [work], sharing=ToolboxSharing.EXCLUSIVE, toolboxes=(), subagents=["child"], others=others
    ) as here:
        outcome = await here.ask()

    assert outcome.completed
    assert mind.results == ["worked", "done"]


async def test_a_child_that_fails_fails_its_call_alone() -> None:
    mind = Mind(asking("a"), "never mind")
    async with lab(mind, subagents=["child"], others={"child": (Mind(RuntimeError("no")), {})}) as here:
        parent = await here.start()
        outcome = await parent.ask("go")

        ((status, text),) = await results(parent)
        assert status == "failed(child:model:adapter)"
        assert text == "agent child ended without an answer: failed(model:adapter)"
        assert outcome.text == "never mind"


async def test_a_child_at_its_limit_tells_which() -> None:
    async def work() -> str:
        return "worked"

    others = {"child": (Mind(*[calls(call("work"))] * 5), {"toolboxes": ["box"], "step_limit": 2})}
    mind = Mind(asking("a"))
    async with lab(mind, [work], subagents=["child"], others=others) as here:
        parent = await here.start()
        await parent.ask("go")

        assert [status for status, _ in await results(parent)] == ["failed(child:steps)"]
        assert mind.results == ["agent child ended without an answer: limit(steps)"]


async def test_a_closed_child_is_not_asked_again() -> None:
    mind = Mind(asking("a"), "one", asking("b"), "two")
    async with lab(mind, subagents=REUSE, others={"child": (Mind(echo), {})}) as here:
        parent = await here.start()
        await parent.ask("go")
        (child,) = await children(here, parent)
        await child.close()
        await parent.ask("go on")

        assert [status for status, _ in await results(parent)] == ["done", "failed(child:closed)"]


async def test_an_interrupt_reaches_the_children_and_what_they_run() -> None:
    stopped: list[str] = []
    started = asyncio.Event()

    async def work(context: CallContext) -> None:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append(context.agent)

    others = {
        "child": (Mind(calls(call("ask_grandchild", task="y"))), {"subagents": ["grandchild"], "toolboxes": []}),
        "grandchild": (Mind(calls(call("work"))), {"toolboxes": ["box"]}),
    }
    async with lab(Mind(asking("x")), [work], subagents=["child"], others=others) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await started.wait()
        await parent.interrupt()
        outcome = await asked
        (child,) = await children(here, parent)

        assert str(outcome) == "cancelled(interrupt)"
        assert stopped == ["grandchild"]
        assert await results(parent) == [
            ("cancelled(child:parent)", "agent child ended without an answer: cancelled(parent)")
        ]
        assert (await kinds(child))[-1] == "turn.finished"


async def test_a_task_that_waits_in_a_reused_child_is_taken_back_by_an_interrupt() -> None:
    started = asyncio.Event()

    async def hang(_: object) -> Any:
        started.set()
        await asyncio.get_running_loop().create_future()

    async with lab(Mind(asking("a", "b")), subagents=REUSE, others={"child": (Mind(hang), {})}) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await started.wait()
        await settled(here.kernel)
        await parent.interrupt()
        await asked
        (child,) = await children(here, parent)

        assert [status for status, _ in await results(parent)] == ["cancelled(child:parent)"] * 2
        assert len(await entries_of(child, "turn.started")) == 1
        assert child.state == "idle"


async def test_a_child_that_does_not_end_in_time_is_unknown_and_its_end_comes_late() -> None:
    door = asyncio.Event()
    started = asyncio.Event()

    async def stubborn(_: object) -> str:
        started.set()
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return "there after all"

    async with lab(
        Mind(asking("x")), subagents=["child"], others={"child": (Mind(stubborn), {})}, cancel_grace_s=5
    ) as here:
        parent = await here.start()
        asked = asyncio.create_task(parent.ask("go"))
        await started.wait()
        await parent.interrupt()
        await here.advance(4)
        early = asked.done()
        await here.advance(1)
        outcome = await asked
        door.set()
        await until(lambda: len(here.kernel.runner) == 0)
        await settled(here.kernel)
        (late,) = await entries_of(parent, "child.late")

        assert not early
        assert str(outcome) == "cancelled(interrupt)"
        assert [status for status, _ in await results(parent)] == ["unknown(child_grace)"]
        assert getattr(late.data, "outcome").value == "cancelled"  # noqa: B009


async def test_the_lineage_of_a_tool_goes_through_all_agents_above_it() -> None:
    seen: list[list[tuple[FrameType, str]]] = []
    depth: list[int] = []

    async def look(context: CallContext) -> str:
        seen.append([(frame.type, frame.entity_id) for frame in context.lineage.frames])
        depth.append(context.lineage.depth)
        return "seen"

    others = {"child": (Mind(calls(call("look"))), {"toolboxes": ["box"]})}
    async with lab(Mind(asking("x")), [look], subagents=["child"], others=others) as here:
        parent = await here.start()
        outcome = await parent.ask("go")
        (child,) = await children(here, parent)
        (started,) = await entries_of(parent, "call.started")

        (frames,) = seen
        assert depth == [1]
        assert [kind.value for kind, _ in frames] == ["conversation", "turn", "call"] * 2
        assert [id_ for _, id_ in frames[:4]] == [
            parent.id,
            outcome.turn,
            call_id(parent.id, started.call),
            child.id,
        ]
