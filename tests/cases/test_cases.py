"""Public bug reports, retold for this kernel, each with the right value."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from agentos.components import AgentContext, CallStatus, ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.errors import InputRefused
from agentos.events.entry import Draft
from agentos.events.kinds import CallFinished
from agentos.events.model import Role, ToolCall
from agentos.journal import Head, seal_drafts
from agentos.kernel import open as open_kernel
from agentos.models.scripted import ScriptedModel
from agentos.persistence.memory import MemoryStore
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialSalts
from agentos.toolboxes.python import PythonToolbox, tool
from tests.support import Mind, call, calls, crash, entries_of, kinds, lab, results, settled, until


async def test_c01_a_conversation_goes_on_after_a_cancel_in_a_tool() -> None:
    """Two calls of one exclusive tool; the first runs when the turn is cancelled. Both need a result for ever after."""
    ran: list[int] = []

    async def slow(n: int) -> None:
        ran.append(n)
        await asyncio.get_running_loop().create_future()

    mind = Mind(calls(call("slow", n=1), call("slow", n=2)), "on we go", "and on")
    async with lab(mind, [slow], sharing=ToolboxSharing.EXCLUSIVE) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("begin"))
        await until(lambda: ran)
        await conversation.interrupt()
        await asked
        first, second = await conversation.ask("go on"), await conversation.ask("go on")

        assert [first.text, second.text] == ["on we go", "and on"]
        assert ran == [1]
        told = [message.text for message in mind.shown[-1] if message.role is Role.TOOL]
        assert told == [
            "interrupted; whether it took effect is unknown",
            "not started: the turn was ended (interrupt)",
        ]


async def test_c02_a_result_whose_call_is_gone_is_left_out_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A log that another program wrote ends in a result that nothing asked for."""
    store = MemoryStore()
    async with lab(Mind("hello"), store=store) as here:
        conversation = await here.start()
        await conversation.ask("hi")
    writer = await store.open("another program")
    row = await store.claim(conversation.id)
    assert row is not None
    orphan = Draft(data=CallFinished(status=CallStatus.DONE), call=2, private=(("result", "nobody asked"),))
    store.append([seal_drafts([orphan], Head(row=row), row.seq + 1, 1, writer, SequentialSalts())])

    mind = Mind("still here")
    async with lab(mind, store=store, first_id=50) as here:
        conversation = await here.kernel.get(conversation.id)
        with caplog.at_level(logging.WARNING, "agentos"):
            outcome = await conversation.ask("and now?")
        kept = await entries_of(conversation, "call.finished")

        assert outcome.text == "still here"
        assert [message.text for message in mind.shown[0]] == ["hi", "hello", "and now?"]
        assert kept[0].private == (("result", "nobody asked"),)
        assert f"the result at seq {row.seq + 1} is left out" in caplog.text


async def test_c04_one_call_that_fails_leaves_the_results_of_its_siblings() -> None:
    async def ok() -> str:
        return "1"

    async def boom() -> None:
        raise RuntimeError("boom")

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    mind = Mind(calls(call("ok"), call("boom"), call("cancels_itself")), "two failed")
    async with lab(mind, [ok, boom, cancels_itself]) as here:
        outcome = await here.ask()

    assert outcome.text == "two failed"
    assert mind.results == ["1", "RuntimeError: boom", "the tool cancelled itself"]


async def test_c05_nothing_of_a_turn_goes_on_after_its_end() -> None:
    """One call fails at once; its slow sibling is stopped with the turn, and never writes its line."""
    known = asyncio.all_tasks()
    written: list[str] = []

    async def fails() -> None:
        raise RuntimeError("no")

    async def writes_late() -> None:
        await here.clock.sleep(1.0)
        written.append("late")

    async with lab(Mind(calls(call("fails"), call("writes_late"))), [fails, writes_late], turn_s=0.5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(0.5)
        outcome = await asked
        running = len(here.kernel.runner)
        await here.advance(5)

        assert str(outcome) == "limit(time)"
        assert running == 0
        assert written == []
    assert asyncio.all_tasks() <= known


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_c08_what_was_done_before_a_crash_is_not_done_again(effect: str) -> None:
    """Three calls, one after the other; the process dies inside the last one."""
    store, effects = MemoryStore(), list[tuple[str, str]]()
    dead = asyncio.Event()

    async def mail(context: CallContext) -> str:
        effects.append(("mail", context.key))
        return "mailed"

    async def db(context: CallContext) -> str:
        effects.append(("db", context.key))
        return "written"

    @tool(effect=effect)
    async def notify(context: CallContext) -> str:
        effects.append(("notify", context.key))
        if not dead.is_set():
            dead.set()
            await asyncio.get_running_loop().create_future()
        return "notified"

    mind = Mind(calls(call("mail"), call("db"), call("notify")))
    tools = [mail, db, notify]
    async with lab(mind, tools, sharing=ToolboxSharing.EXCLUSIVE, store=store) as here:
        conversation = await here.start()
        await conversation.send("go")
        await dead.wait()
        crash(here)

    again = Mind("so it is")
    async with lab(again, tools, sharing=ToolboxSharing.EXCLUSIVE, store=store, first_id=50) as here:
        await here.kernel.recover()
        await here.kernel.outcome(conversation.id)

        assert [name for name, _ in effects[:3]] == ["mail", "db", "notify"]
        if effect == "once":
            assert len(effects) == 3
            assert again.results[:2] == ["mailed", "written"]
            assert "unknown" in again.results[2]
        else:
            assert effects[3:] == [effects[2]]
            assert again.results == ["mailed", "written", "notified"]


async def test_c12_empty_arguments_are_no_arguments() -> None:
    async def free() -> str:
        return "free"

    async def needy(what: str) -> str:
        return what

    empty: list[Any] = ["", "  ", None, {}]
    mind = Mind(calls(*(ToolCall(name, value) for name in ("free", "needy") for value in empty)))
    async with lab(mind, [free, needy]) as here:
        outcome = await here.ask()

    assert outcome.completed
    assert mind.results[:4] == ["free"] * 4
    assert all('"what" is a required property' in text for text in mind.results[4:])


@dataclass
class Point:
    x: int
    y: int


VALUES: list[tuple[Any, str]] = [
    (None, "(no result)"),
    ({}, "{}"),
    ({3, 1, 2}, "[1, 2, 3]"),
    (datetime(2026, 11, 30, 9, 0, tzinfo=UTC), "2026-11-30T09:00:00+00:00"),
    (datetime(2026, 11, 30, 9, 0, tzinfo=timezone(timedelta(hours=2))), "2026-11-30T09:00:00+02:00"),
    (Decimal("1.10"), "1.10"),
    (b"\x00\xff", "(2 bytes, base64) AP8="),
    (float("nan"), "NaN"),
    (Point(1, 2), '{"x": 1, "y": 2}'),
    (10**30, "1" + "0" * 30),
    (("a", 1), '["a", 1]'),
    (True, "true"),
]


async def test_c23_results_of_any_type_have_a_text_and_their_effect_is_not_repeated() -> None:
    ran: list[int] = []

    async def give(n: int) -> Any:
        ran.append(n)
        return VALUES[n][0] if n < len(VALUES) else object()

    mind = Mind(calls(*(call("give", n=n) for n in range(len(VALUES) + 1))))
    async with lab(mind, [give]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        statuses = [status for status, _ in await results(conversation)]

        assert outcome.completed
        assert mind.results[:-1] == [text for _, text in VALUES]
        assert "a value of type object" in mind.results[-1]
        assert statuses == ["done"] * len(VALUES) + ["failed(tool)"]
        assert ran == list(range(len(VALUES) + 1))


def greet() -> tuple[AgentSpec, ScriptedModel]:
    return AgentSpec(slug="main"), ScriptedModel([{"text": "hello"}])


async def greeted(spec: AgentSpec, model: ScriptedModel) -> str:
    async with open_kernel() as kernel:
        await kernel.install(spec, model=model)
        return (await (await kernel.start("main")).ask("hi")).text


def test_c25_kernels_run_in_one_loop_after_another_and_in_threads_with_the_same_specs() -> None:
    spec, model = greet()
    found = [asyncio.run(greeted(spec, model)) for _ in range(2)]
    thread = threading.Thread(target=lambda: found.append(asyncio.run(greeted(spec, model))))
    thread.start()
    thread.join()

    assert found == ["hello"] * 3


async def test_c25_a_kernel_may_be_opened_inside_a_running_loop_and_inside_a_tool() -> None:
    spec, model = greet()

    async def nested() -> str:
        return await greeted(spec, model)

    mind = Mind(calls(call("nested")))
    async with lab(mind, [nested]) as here:
        await here.ask()

    assert mind.results == ["hello"]


def test_c25_a_toolbox_whose_functions_use_threads_serves_one_kernel_after_another() -> None:
    box = PythonToolbox("box", [_in_a_thread])

    async def once() -> str:
        async with open_kernel() as kernel:
            await kernel.add_toolbox(box)
            model = ScriptedModel([{"calls": [{"tool": "_in_a_thread"}]}, {"text": "{results}"}])
            await kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=model)
            return (await (await kernel.start("main")).ask("hi")).text

    assert [asyncio.run(once()) for _ in range(2)] == ["from a thread"] * 2


def _in_a_thread() -> str:
    return "from a thread"


async def test_c27_a_clock_that_stands_still_or_goes_back_changes_no_order() -> None:
    clock = ManualClock()

    async def back() -> str:
        clock.set_back(0.040)
        return "back"

    mind = Mind(*["again"] * 11, calls(call("back")), "in order")
    async with lab(mind, [back], clock=clock) as here:
        conversation = await here.start()
        for n in range(11):
            await conversation.send(f"message {n}")
            await settled(here.kernel)
        outcome = await conversation.ask("the clock goes back")
        entries = await conversation.history()
        last = await here.kernel.query("select text from messages where role = 'user' order by seq desc limit 10")

        assert outcome.text == "in order"
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
        assert last.rows == [("the clock goes back",), *((f"message {n}",) for n in range(10, 1, -1))]


async def test_c36_blank_input_is_refused_and_an_empty_result_goes_on() -> None:
    async def nothing() -> str:
        return ""

    mind = Mind(calls(call("nothing")), "nothing it is")
    async with lab(mind, [nothing]) as here:
        conversation = await here.start()
        for blank in ("", "   ", "\u200b"):
            with pytest.raises(InputRefused):
                await conversation.ask(blank)
        stored = await kinds(conversation)
        outcome = await conversation.ask("try")

        assert stored == ["conversation.started"]
        assert outcome.text == "nothing it is"


async def test_c44_a_made_up_tool_is_answered_with_the_real_ones_until_the_limit() -> None:
    async def get_date() -> str:
        return "today"

    mind = Mind(*[calls(call("get_dat"))] * 9)
    async with lab(mind, [get_date]) as here:
        outcome = await here.ask()

    assert str(outcome) == "limit(unknown_tool)"
    assert len(mind.requests) == 5
    assert mind.results == ["there is no tool 'get_dat'. Did you mean get_date? The tools are: get_date"]


async def test_c52_agents_that_ask_each_other_for_ever_end_at_depth_and_budget() -> None:
    """a asks b twice, b asks a twice, at every level; the tool is hidden at the last one."""

    def ask_on(request: Any) -> Any:
        context: AgentContext = request.context
        if request.messages[-1].role is Role.TOOL or not context.tools:
            return "enough"
        return calls(*[call(context.tools[0].name, task="more")] * 2)

    endless = [ask_on] * 500
    settings = Settings(depth_max=4, children_max=20)
    others = {"b": (Mind(*endless), {"subagents": ["main"]})}
    async with lab(Mind(*endless), subagents=["b"], others=others, options={"settings": settings}) as here:
        outcome = await here.ask()
        rows = (await here.kernel.query("select depth, agent from conversations order by depth")).rows

        assert outcome.completed
        assert max(depth for depth, _ in rows) == 4
        assert len(rows) <= 21
        assert {agent for depth, agent in rows if depth % 2} == {"b"}
