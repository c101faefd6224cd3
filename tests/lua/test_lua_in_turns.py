"""The Lua toolbox at work in turns of a kernel: what the model reads, what the log says, and what is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from agentos.components import Outcome, ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.errors import KernelClosed
from agentos.kernel import RunOutcome
from agentos.testing.clock import START, ManualClock
from agentos.testing.leaks import LeakMeter
from agentos.toolboxes.lua import LuaToolbox
from tests.lua.support import SOON_S, limits, lives
from tests.support import Mind, call, calls, lab, results, until


def script(text: str, **more: Any) -> Any:
    return calls(call("lua_run", script=text, **more))


def box(*tools: str, **more: Any) -> LuaToolbox:
    more.setdefault("limits", limits())
    return LuaToolbox("lua", tools=tools, **more)


def workers(toolbox: LuaToolbox) -> list[int]:
    """The processes that run scripts of a toolbox."""
    assert toolbox._workers is not None
    return [worker.pid for worker in toolbox._workers.taken]


def double(number: int) -> dict[str, int]:
    """Doubles a number."""
    return {"doubled": 2 * number}


def secret() -> str:
    """Tells a secret."""
    return "xyzzy"


async def test_a_model_runs_scripts_and_reads_values_prints_and_failures() -> None:
    mind = Mind(
        script("print('hello') x = 20 return x, {a = 1}"),
        script("x = x + 1 return x"),
        script("return x", fresh=True),
        script("print('before')\nerror('boom')"),
        script("x ="),
    )
    async with lab(mind, toolboxes=[box()]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert [(status, json.loads(text)) for status, text in told[:3]] == [
        ("done", {"values": [20, {"a": 1}], "printed": "hello\n", "state": "new"}),
        ("done", {"values": [21], "state": "kept"}),
        ("done", {"values": [None], "state": "new"}),
    ]
    assert told[3:] == [
        ("failed(raised)", "script:2: boom\nPrinted so far:\nbefore\n"),
        ("failed(syntax)", "script:1: unexpected symbol near <eof>"),
    ]


async def test_a_script_that_hangs_is_told_and_the_next_begins_anew() -> None:
    mind = Mind(script("x = 1 print('on') while true do end"), script("return x"))
    async with lab(mind, toolboxes=[box(limits=limits(time_s=SOON_S))]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        told = await results(conversation)

    lost = f"the script did not end within {SOON_S:g} s (time_s); its state is lost, the next one begins anew"
    assert outcome.outcome is Outcome.COMPLETED
    assert told[0] == ("failed(timeout)", f"{lost}\nPrinted so far:\non\n")
    assert json.loads(told[1][1]) == {"values": [None], "state": "new"}


async def test_a_script_is_told_the_time_of_the_kernel_and_sees_it_go_on_with_that_alone() -> None:
    clock = ManualClock()

    async def sleep() -> str:
        """Lets an hour go by."""
        clock.advance(3600)
        return "slept"

    text = "local t = time.now() for _ = 1, 1e6 do end local s = time.now() tools.sleep{} return t, s, time.now()"
    mind = Mind(script(text), script("return time.now(), tools.call('sleep')"))
    patient: dict[str, Any] = {"tool_s": 80_000, "turn_s": 80_000}
    async with lab(mind, tools=[sleep], toolboxes=[box("sleep")], clock=clock, **patient) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = [json.loads(text)["values"] for _, text in await results(conversation) if text != "slept"]

    assert told[0] == [START / 1e6, START / 1e6, START / 1e6 + 3600]
    assert told[1][0] == START / 1e6 + 3600
    assert told[1][1].keys() == {"status", "result_txt", "duration", "trace_id", "outcome"}
    assert told[1][1]["duration"] == 3600


async def test_conversations_have_states_of_their_own() -> None:
    count = script("n = (n or 0) + 1 return n")
    mind = Mind(*[reply for _ in range(4) for reply in (count, "said")])
    toolbox = box()
    async with lab(mind, toolboxes=[toolbox]) as here:
        first, second = await here.start(), await here.start()
        for conversation in (first, second, first, second):
            await conversation.ask("go")
        pids = workers(toolbox)
        told = [[json.loads(text)["values"] for _, text in await results(one)] for one in (first, second)]

    assert told == [[[1], [2]], [[1], [2]]]
    assert len(set(pids)) == 2


async def test_inner_calls_stand_in_the_log_below_the_script_and_pass_the_gate() -> None:
    text = "local d = tools.double{number = 4} return d.doubled, tools.call('secret'), tools.call('nothing')"
    mind = Mind(script(text))
    async with lab(mind, tools=[double, secret], toolboxes=[box("double", "nothing")]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await results(conversation)
        rows = await here.kernel.query("select tool, parent_call is not null, status from tool_calls")

    values = json.loads(told[-1][1])["values"]
    assert values[0] == 8
    assert (values[1]["status"], values[1]["result_txt"]) == (
        "not-allowed",
        "scripts here may call these tools: double, nothing",
    )
    assert values[2]["status"] == "not-found"
    assert {tuple(row) for row in rows.rows} == {
        ("lua_run", 0, "done"),
        ("double", 1, "done"),
        ("nothing", 1, "failed"),
    }
    assert values[2]["trace_id"].startswith("call_")


async def test_a_tool_that_the_policy_denies_is_not_allowed_to_a_script_either() -> None:
    mind = Mind(script("return tools.call('double', {number = 1}).status"))
    policy = [{"tool": "double", "verdict": "deny"}]
    async with lab(mind, tools=[double], toolboxes=[box("*")], policy=policy) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await results(conversation)

    assert json.loads(told[-1][1])["values"] == ["not-allowed"]


async def test_waiting_for_a_tool_does_not_count_as_time_of_the_script() -> None:
    async def slow() -> str:
        """Takes longer than a script may."""
        await asyncio.sleep(1.2 * SOON_S)
        return "late"

    mind = Mind(script("return tools.slow{}"))
    async with lab(mind, tools=[slow], toolboxes=[box("slow", limits=limits(time_s=SOON_S))]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await results(conversation)

    assert json.loads(told[-1][1])["values"] == ["late"]


@pytest.mark.parametrize("sharing", [ToolboxSharing.PER_CONVERSATION, ToolboxSharing.STATELESS])
async def test_a_script_that_calls_its_own_toolbox_is_refused_and_hangs_nobody(sharing: ToolboxSharing) -> None:
    mind = Mind(script("local r = tools.call('lua_run', {script = 'return 1'}) return r.status"))
    async with lab(mind, toolboxes=[box("lua_run", sharing=sharing)]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert json.loads(told[-1][1])["values"] == ["error"]


async def test_a_cancelled_turn_ends_the_process_and_keeps_what_was_printed() -> None:
    mind = Mind(script("print('so far') while true do end"), script("return 1"))
    toolbox = box()
    async with lab(mind, toolboxes=[toolbox]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: bool(workers(toolbox)))
        [pid] = workers(toolbox)
        await asyncio.sleep(0.05)
        await conversation.interrupt()
        first: RunOutcome = await asked
        gone = not lives(pid)
        second = await conversation.ask("again")
        told = await results(conversation)

    assert (first.outcome, second.outcome) == (Outcome.CANCELLED, Outcome.COMPLETED)
    assert gone
    assert told[0][0] == "cancelled(interrupted)"
    assert told[0][1].startswith("interrupted")
    assert json.loads(told[1][1])["state"] == "new"


async def test_the_process_belongs_to_its_conversation_and_ends_with_it() -> None:
    toolbox = box()
    async with lab(Mind(script("return 1")), toolboxes=[toolbox]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        [row] = [row for row in here.kernel.resources.rows() if row.kind == "lua"]
        [pid] = workers(toolbox)
        await conversation.close()
        await until(lambda: not here.kernel.resources.rows())

    assert (row.name, row.scope[-1], [takes.pid for takes in row.takes]) == ("lua", conversation.id, [pid])
    assert not lives(pid)


async def test_a_toolbox_that_is_opened_anew_begins_with_new_states() -> None:
    mind = Mind(script("x = 1 return x"), "said", script("return x"))
    async with lab(mind, toolboxes=[box()]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        await here.kernel.remove("lua")
        await here.kernel.add_toolbox(box())
        await conversation.ask("go")
        told = await results(conversation)

    assert json.loads(told[1][1]) == {"values": [None], "state": "new"}


async def test_a_kernel_that_closes_while_a_script_runs_leaves_nothing() -> None:
    meter, toolbox = LeakMeter(), box()
    async with lab(Mind(script("while true do end")), toolboxes=[toolbox]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: bool(workers(toolbox)))
        [pid] = workers(toolbox)
    await asyncio.wait([asked])

    assert isinstance(asked.exception(), KernelClosed)
    assert not lives(pid)
    await meter.check()


async def test_a_process_that_is_killed_ends_its_script_alone() -> None:
    mind, toolbox = Mind(script("while true do end"), script("return 1")), box()
    async with lab(mind, toolboxes=[toolbox]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: any(worker.running for worker in toolbox._workers.taken) if toolbox._workers else False)
        os.kill(workers(toolbox)[0], signal.SIGKILL)
        outcome: RunOutcome = await asked
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert told[0][0] == "failed(died)"
    assert told[0][1].startswith("its process ended with signal SIGKILL; its state is lost")
    assert json.loads(told[1][1]) == {"values": [1], "state": "new"}


async def test_a_tool_that_a_lost_script_called_is_not_waited_for() -> None:
    entered, ended = asyncio.Event(), asyncio.Event()

    async def ask_a_person() -> str:
        """Asks a person, who is away."""
        entered.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            ended.set()

    toolbox = box("ask_a_person")
    async with lab(Mind(script("return tools.ask_a_person{}")), tools=[ask_a_person], toolboxes=[toolbox]) as here:
        conversation = await here.start()
        asking = asyncio.ensure_future(conversation.ask("go"))
        await entered.wait()
        os.kill(workers(toolbox)[0], signal.SIGKILL)
        outcome = await asking
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert ended.is_set()
    assert [status for status, _ in told] == ["failed(died)", "unknown(interrupted)"]


async def test_more_conversations_at_once_than_processes_wait_for_each_other() -> None:
    toolbox = box(limits=limits(workers_max=3))
    number = 12
    mind = Mind(*[script("n = (n or 0) + 1 return n")] * number)
    async with lab(mind, toolboxes=[toolbox]) as here:
        conversations = [await here.start() for _ in range(number)]
        await asyncio.gather(*(conversation.ask("go") for conversation in conversations))
        told = [await results(conversation) for conversation in conversations]
        alive = len(workers(toolbox))

    assert [json.loads(text)["values"] for ((_, text),) in told] == [[1]] * number
    assert alive == 3


async def test_a_process_that_runs_nothing_is_ended_after_the_time_that_the_toolbox_says() -> None:
    toolbox = box(limits=limits(idle_s=5), prepared=0)
    async with lab(Mind(script("x = 1"), "said", script("return x")), toolboxes=[toolbox]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        [pid] = workers(toolbox)
        here.clock.advance(6)
        await until(lambda: not lives(pid))
        await conversation.ask("go on")
        told = await results(conversation)

    assert json.loads(told[-1][1]) == {"values": [None], "state": "new"}


async def test_closing_the_kernel_leaves_no_process() -> None:
    toolbox = box()
    async with lab(Mind(script("return 1")), toolboxes=[toolbox]) as here:
        await here.ask()
        assert toolbox._workers is not None
        [pid] = workers(toolbox)
        every = [pid, *(worker.pid for worker in toolbox._workers._ready)]
        assert all(lives(one) for one in every)

    assert not any(lives(one) for one in every)


async def test_state_by_call_forgets_everything_and_says_nothing_of_it() -> None:
    mind = Mind(script("x = 1 return x"), script("return x"))
    async with lab(mind, toolboxes=[box(state="call")]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await results(conversation)

    assert [json.loads(text) for _, text in told] == [{"values": [1]}, {"values": [None]}]


@pytest.mark.parametrize("sharing", [ToolboxSharing.STATELESS, ToolboxSharing.EXCLUSIVE])
async def test_two_scripts_of_one_conversation_wait_for_each_other_however_it_is_shared(
    sharing: ToolboxSharing,
) -> None:
    count = call("lua_run", script="n = (n or 0) + 1 return n")
    async with lab(Mind(calls(count, count, count)), toolboxes=[box(sharing=sharing)]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await results(conversation)

    assert sorted(json.loads(text)["values"][0] for _, text in told) == [1, 2, 3]


async def test_an_agent_file_may_hold_the_toolbox() -> None:
    async with lab(Mind()) as here:
        own: Any = {"kind": "lua", "name": "calc", "time_s": 5, "memory_mb": 16, "tools": ["read_*"]}
        mind = Mind(calls(call("calc_run", script="return 6 * 7")))
        await here.kernel.install(AgentSpec(slug="counter", toolboxes=[own]), model=mind)
        conversation = await here.kernel.start("counter")
        await conversation.ask("go")
        told = await results(conversation)
        shown = mind.requests[0].context.tools[0]

    assert json.loads(told[0][1])["values"] == [42]
    assert shown.name == "calc_run"
    assert "Tools that may be called: read_*." in shown.description
    assert "at most 5;" in shown.schema["properties"]["timeout"]["description"]
