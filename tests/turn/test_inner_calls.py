"""Inner calls: what a running tool calls itself passes the same gate, ledger and lineage, and is not shown to the model."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentos.components import CallState, CallStatus, Verdict, Waiting
from agentos.history import lineage_of, render_tree
from agentos.lineage import FrameType
from agentos.ports import CallContext, HookVerdict, InnerResult
from agentos.toolboxes.base import Finish
from agentos.toolboxes.python import tool
from tests.support import Lab, Mind, call, calls, copy_of, kinds, lab, results, settled, units


async def add(a: int, b: int) -> int:
    return a + b


async def rows(here: Lab, columns: str) -> list[tuple[Any, ...]]:
    return (await here.kernel.query(f"select {columns} from tool_calls order by id")).rows


async def test_a_tool_calls_another_one_and_reads_its_result() -> None:
    async def sum_up(context: CallContext) -> str:
        """Adds by calling add."""
        inner = await context.call("add", {"a": 1, "b": 2})
        return f"{inner.status.value}: {inner.text}"

    mind = Mind(calls(call("sum_up")), "it is 3")
    async with lab(mind, [add, sum_up]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.text == "it is 3"
        assert outcome.calls == 2
        assert mind.results == ["done: 3"]
        assert await units(conversation) == [
            ["conversation.started"],
            ["input.received", "turn.started", "model.requested"],
            ["model.finished", "call.proposed", "call.started"],
            ["call.nested", "call.started"],
            ["call.finished"],
            ["call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]


async def test_only_the_outer_call_is_a_message() -> None:
    async def sum_up(context: CallContext) -> str:
        await asyncio.gather(*(context.call("add", {"a": n, "b": n}) for n in range(3)))
        return "summed up"

    mind = Mind(calls(call("sum_up"), call("sum_up")), "well")
    async with lab(mind, [add, sum_up]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        said = (await here.kernel.query("select role, text from messages order by seq")).rows
        assert [text for role, text in said if role == "tool"] == ["summed up", "summed up"]
        assert said == (await here.kernel.query("select role, text from history order by seq")).rows
        assert mind.results == ["summed up", "summed up"]


async def test_inner_calls_stand_below_their_call_in_sql_and_in_lineage() -> None:
    frames: list[str] = []

    async def leaf(context: CallContext) -> str:
        frames.extend(frame.entity_id for frame in context.lineage.frames)
        assert [frame.type for frame in context.lineage.frames].count(FrameType.CALL) == 3
        return "leaf"

    async def middle(context: CallContext) -> str:
        return (await context.call("leaf", {})).text

    async def top(context: CallContext) -> str:
        return (await context.call("middle", {})).text

    async with lab(Mind(calls(call("top"))), [leaf, middle, top]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (top_id, no_parent), (middle_id, middle_parent), (leaf_id, leaf_parent) = sorted(
            await rows(here, "id, parent_call"), key=lambda row: int(row[0].rpartition("_")[2])
        )
        tree = await lineage_of(here.kernel.store, conversation.id)
        below = await lineage_of(here.kernel.store, middle_id)

        assert (no_parent, middle_parent, leaf_parent) == (None, top_id, middle_id)
        assert frames[2:] == [top_id, middle_id, leaf_id]
        assert [frame.entity_id for frame in below.above] == [*frames[:2], top_id]
        assert [node.id for node in below.root.children] == [leaf_id]
        lines = render_tree(tree).splitlines()
        depths = {
            name: line.index("call") for line in lines for name in ("top", "middle", "leaf") if f" {name} " in line
        }
        assert depths["top"] < depths["middle"] < depths["leaf"]
        assert sum("call" in line for line in lines) == 3


async def test_a_sync_tool_makes_inner_calls_from_its_thread() -> None:
    threads: list[str] = []

    def work(context: CallContext) -> str:
        """Works off the loop."""
        threads.append(threading.current_thread().name)
        return context.call_from_thread("add", {"a": 20, "b": 22}).text

    async with lab(Mind(calls(call("work"))), [add, work]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "42"), ("done", "42")]
        assert threads != [threading.current_thread().name]


async def test_the_call_for_threads_refuses_to_stop_the_loop() -> None:
    async def confused(context: CallContext) -> str:
        return context.call_from_thread("add", {"a": 1, "b": 1}).text

    async with lab(Mind(calls(call("confused"))), [add, confused]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        ((status, text),) = await results(conversation)
        assert status == "failed(tool)"
        assert "await call(...)" in text


async def test_a_tool_gets_the_whole_result_where_a_model_would_get_a_part() -> None:
    huge = "head " + "x" * 50_000 + " tail"
    seen: list[str] = []

    async def dump() -> str:
        return huge

    async def count(context: CallContext) -> int:
        inner = await context.call("dump", {})
        seen.append(inner.text)
        return len(inner.text)

    async with lab(Mind(calls(call("count"))), [dump, count], result_chars=2_000) as here:
        await here.ask()

        assert seen == [huge]


@pytest.mark.parametrize(
    ("asked", "arguments", "status", "kind", "words"),
    [
        ("no_such_tool", {}, CallStatus.FAILED, "unknown_tool", "there is no tool 'no_such_tool'"),
        ("secret", {}, CallStatus.DENIED, "grant", "may not call secret"),
        ("add", {"a": "one"}, CallStatus.FAILED, "invalid", "arguments of add are wrong"),
        ("guarded", {}, CallStatus.DENIED, "policy", "a rule denies guarded"),
        ("asked", {}, CallStatus.DENIED, "approval", "nobody listens"),
    ],
)
async def test_an_inner_call_passes_the_same_gate(
    asked: str, arguments: dict[str, Any], status: CallStatus, kind: str, words: str
) -> None:
    got: list[InnerResult] = []

    async def never() -> str:
        raise AssertionError("it was to be refused")

    async def try_it(context: CallContext) -> str:
        got.append(await context.call(asked, arguments))
        return "tried"

    tools = [add, try_it, *(tool(name=name)(copy_of(never)) for name in ("secret", "guarded", "asked"))]
    spec: dict[str, Any] = {
        "toolboxes": [{"name": "box", "grant": ["add", "try_it", "guarded", "asked"]}],
        "policy": [{"tool": "guarded", "verdict": "deny"}, {"tool": "asked", "verdict": "ask"}],
    }
    async with lab(tools=tools, others={"asking": (Mind(calls(call("try_it"))), spec)}) as here:
        conversation = await here.start("asking")
        outcome = await conversation.ask("go")

        (inner,) = got
        assert (inner.status, inner.kind, inner.done) == (status, kind, False)
        assert words in inner.text
        assert [found for found, _ in await results(conversation)] == [f"{status.value}({kind})", "done"]
        assert outcome.completed


async def test_an_inner_call_may_wait_for_a_person() -> None:
    @tool
    async def guarded() -> str:
        """Needs a person."""
        return "opened"

    async def work(context: CallContext) -> str:
        return (await context.call("guarded", {})).text

    mind = Mind(calls(call("work"), call("add", a=1, b=1)), "well")
    spec: dict[str, Any] = {"approval": "park", "policy": [{"tool": "guarded", "verdict": "ask"}]}
    async with lab(mind, [guarded, work, add], **spec) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        ((waiting, _),) = here.kernel.world.find(CallState, waiting=Waiting.APPROVAL)
        shown = conversation.state
        await conversation.answer(waiting, Verdict.ALLOW)
        await asked

        assert shown == "running"
        assert mind.results == ["opened", "2"]
        assert (await kinds(conversation)).count("approval.decided") == 1


async def test_nobody_answers_an_inner_call_in_time() -> None:
    @tool
    async def guarded() -> str:
        """Needs a person."""
        return "opened"

    async def work(context: CallContext) -> str:
        return (await context.call("guarded", {})).text

    mind = Mind(calls(call("work")), "well")
    spec: dict[str, Any] = {"approval": "park", "approval_s": 5, "policy": [{"tool": "guarded", "verdict": "ask"}]}
    async with lab(mind, [guarded, work], **spec) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(5)
        await asked

        assert mind.results == ["not run: nobody answered in time"]
        assert [found for found, _ in await results(conversation)] == ["denied(approval)", "done"]


class Guard:
    """A hook that changes the arguments of add, and denies all else but the tool that asks."""

    name: Any = "guard"

    async def before_call(self, call: str, tool: str, arguments: dict[str, Any]) -> HookVerdict | None:
        if tool == "add":
            return HookVerdict(arguments={"a": 40, "b": 2})
        return None if tool == "work" else HookVerdict(verdict=Verdict.DENY, reason="not that one")


async def test_hooks_judge_and_change_inner_calls() -> None:
    async def other() -> str:
        return "never"

    async def work(context: CallContext) -> str:
        one, two = await asyncio.gather(context.call("add", {"a": 1, "b": 1}), context.call("other", {}))
        return f"{one.text}, {two.text}"

    mind = Mind(calls(call("work")))
    async with lab(mind, [add, other, work], options={"hooks": [Guard()]}) as here:
        await here.ask()

        assert mind.results == ["42, not run: not that one"]


async def test_a_delegation_may_be_an_inner_call() -> None:
    async def consult(context: CallContext) -> str:
        inner = await context.call("ask_aide", {"task": "what is it?"})
        return f"{inner.status.value}: {inner.text}"

    aide = Mind(calls(call("add", a=2, b=3)), "it is five")
    mind = Mind(calls(call("consult")), "well")
    async with lab(mind, [add, consult], others={"aide": (aide, {})}, subagents=["aide"]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        tree = await lineage_of(here.kernel.store, conversation.id)

        assert mind.results == ["done: it is five"]
        (consult_node,) = tree.root.children[0].children[0].children
        (delegation,) = consult_node.children
        assert (delegation.name, delegation.children[0].name) == ("ask_aide", "aide")
        assert tree.root.total.input == sum(10 for _ in (*mind.requests, *aide.requests))


async def test_finish_of_an_inner_call_does_not_end_the_turn() -> None:
    async def last_word() -> Finish:
        return Finish("the end")

    async def work(context: CallContext) -> str:
        return f"it said {(await context.call('last_word', {})).text}"

    mind = Mind(calls(call("work")), "going on")
    async with lab(mind, [last_word, work]) as here:
        outcome = await here.ask()

        assert outcome.text == "going on"
        assert mind.results == ["it said the end"]


async def test_a_turn_without_inner_calls_stores_nothing_of_them() -> None:
    async with lab(Mind(calls(call("add", a=1, b=2))), [add]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        heads = (await here.kernel.query("select head from entries")).rows

        assert not any('"inner"' in head or '"parent"' in head for (head,) in heads)
