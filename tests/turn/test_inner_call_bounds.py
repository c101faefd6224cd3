"""Inner calls have bounds, and one that would wait for ever for room in a toolbox is told so at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import ToolboxSharing
from agentos.errors import CodecError, ToolError
from agentos.ports import CallContext
from agentos.toolboxes.python import PythonToolbox, tool
from tests.support import Lab, Mind, call, calls, kinds, lab, results, settled


async def add(a: int, b: int) -> int:
    return a + b


async def rows(here: Lab, columns: str) -> list[tuple[Any, ...]]:
    return (await here.kernel.query(f"select {columns} from tool_calls order by id")).rows


async def test_calls_are_nested_only_so_deep() -> None:
    async def deeper(context: CallContext, n: int) -> str:
        inner = await context.call("deeper", {"n": n + 1})
        return inner.text if inner.done else f"{n}: {inner.text}"

    mind = Mind(calls(call("deeper", n=0)))
    async with lab(mind, [deeper]) as here:
        await here.ask()

        assert mind.results == ["4: not run: calls may be nested 4 deep (inner_depth_max)"]


async def test_a_call_has_only_so_many_inner_calls_under_way() -> None:
    door = asyncio.Event()

    async def wait() -> str:
        await door.wait()
        return "waited"

    async def many(context: CallContext) -> str:
        asked = [asyncio.ensure_future(context.call("wait", {})) for _ in range(33)]
        over = await asked[-1]
        door.set()
        ended = [inner.text for inner in await asyncio.gather(*asked[:-1])]
        again = await context.call("wait", {})
        return f"{over.text} {ended.count('waited')} {again.text}"

    mind = Mind(calls(call("many")))
    async with lab(mind, [wait, many]) as here:
        await here.ask()

        assert "32 inner calls under way at once (inner_calls_max)" in mind.results[0]
        assert mind.results[0].endswith(" 32 waited")


async def test_inner_calls_count_in_the_limit_of_the_turn() -> None:
    async def greedy(context: CallContext) -> str:
        return ", ".join([(await context.call("add", {"a": n, "b": 0})).status.value for n in range(4)])

    mind = Mind(calls(call("greedy")))
    async with lab(mind, [add, greedy], call_limit=3) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert str(outcome) == "limit(calls)"
        assert [found for found, _ in await results(conversation)] == [
            "done",
            "done",
            "denied(call_limit)",
            "failed(tool)",
        ]
        assert "call_limit" in (await results(conversation))[-1][1]


async def test_arguments_that_cannot_be_stored_are_refused_to_the_tool() -> None:
    caught: list[Exception] = []

    async def odd(context: CallContext) -> str:
        for arguments in ({"a": object()}, {"a": "x" * 20_000_000}):
            try:
                await context.call("add", arguments)
            except (CodecError, ToolError) as error:
                caught.append(error)
        return "tried"

    async with lab(Mind(calls(call("odd"))), [add, odd]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [type(error) for error in caught] == [CodecError, ToolError]
        assert "payload_bytes_max" in str(caught[1])
        assert "call.nested" not in await kinds(conversation)


@pytest.mark.parametrize(
    ("sharing", "size"),
    [(ToolboxSharing.EXCLUSIVE, 0), (ToolboxSharing.POOL, 1), (ToolboxSharing.PER_CONVERSATION, 0)],
)
async def test_a_call_that_needs_the_room_of_its_own_caller_fails_at_once(sharing: ToolboxSharing, size: int) -> None:
    async def work(context: CallContext) -> str:
        inner = await context.call("add", {"a": 1, "b": 1})
        return f"{inner.status.value}({inner.kind}): {inner.text}"

    mind = Mind(calls(call("work"), call("add", a=1, b=2)), "well")
    async with lab(mind, [add, work], sharing=sharing, size=size) as here:
        outcome = await here.ask()

        assert outcome.completed
        assert mind.results[0].startswith("failed(deadlock): not run: toolbox box has no room for add")
        assert mind.results[1] == "3"


async def test_a_reader_may_call_a_reader_and_no_writer() -> None:
    @tool(access="read")
    async def look() -> str:
        return "seen"

    async def change() -> str:
        return "changed"

    @tool(access="read")
    async def work(context: CallContext) -> str:
        return f"{(await context.call('look', {})).text}, {(await context.call('change', {})).kind}"

    mind = Mind(calls(call("work")), "well")
    async with lab(mind, [look, change, work], sharing=ToolboxSharing.READ_WRITE) as here:
        await here.ask()

        assert mind.results == ["seen, deadlock"]


async def test_a_pool_is_stuck_only_when_all_that_hold_it_wait_for_it() -> None:
    both = asyncio.Event()
    inside = 0

    async def work(context: CallContext) -> str:
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        inner = await context.call("add", {"a": 1, "b": 1})
        return str(inner.kind or inner.text)

    mind = Mind(calls(call("work"), call("work")), calls(call("work")), "well")
    async with lab(mind, [add, work], sharing=ToolboxSharing.POOL, size=2) as here:
        outcome = await here.ask()
        stuck = sorted(message.text for message in mind.shown[1] if message.call_id)

        assert outcome.completed
        assert stuck == ["2", "deadlock"]
        assert mind.results == ["2"]


async def test_a_deadlock_over_a_delegation_is_seen() -> None:
    async def consult(context: CallContext) -> str:
        return (await context.call("ask_aide", {"task": "help"})).text

    aide = Mind(calls(call("add", a=1, b=1)), lambda request: f"I got: {request.messages[-1].text}")
    mind = Mind(calls(call("consult")), "well")
    box = ToolboxSharing.EXCLUSIVE
    async with lab(mind, [add, consult], sharing=box, others={"aide": (aide, {})}, subagents=["aide"]) as here:
        outcome = await here.ask()

        assert outcome.completed
        assert mind.results[0].startswith("I got: not run: toolbox box has no room for add")


async def test_two_conversations_that_wait_for_each_others_rooms_are_told() -> None:
    doors = {"left": asyncio.Event(), "right": asyncio.Event()}

    def boxed(name: str, other: str) -> PythonToolbox:
        @tool(name=name)
        async def take(context: CallContext) -> str:
            doors[name].set()
            await doors[other].wait()
            inner = await context.call(f"{other}_plain", {})
            return str(inner.kind or inner.text)

        @tool(name=f"{name}_plain")
        async def plain() -> str:
            return name

        return PythonToolbox(name, [take, plain], ToolboxSharing.EXCLUSIVE)

    mind, other = Mind(calls(call("left")), "well"), Mind(calls(call("right")), "well")
    boxes = [boxed("left", "right"), boxed("right", "left")]
    async with lab(mind, toolboxes=boxes, others={"other": (other, {})}) as here:
        outcomes = await asyncio.gather(here.ask(), here.ask(agent="other"))

        assert all(outcome.completed for outcome in outcomes)
        assert sorted(mind.results + other.results) in (["deadlock", "left"], ["deadlock", "right"])


async def test_an_inner_call_waits_for_room_that_comes_free() -> None:
    door = asyncio.Event()

    async def hold() -> str:
        await door.wait()
        return "held"

    async def work(context: CallContext) -> str:
        return (await context.call("hold", {})).text

    mind = Mind(calls(call("hold"), call("work")), "well")
    boxes = [PythonToolbox("desk", [hold], ToolboxSharing.EXCLUSIVE), PythonToolbox("air", [work])]
    async with lab(mind, toolboxes=boxes) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        before = [row for row in await rows(here, "tool, status") if row[1] == "proposed"]
        door.set()
        await asked

        assert before == [("hold", "proposed")]
        assert mind.results == ["held", "held"]
