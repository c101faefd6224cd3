"""A process with tools under a kernel: what a turn sees of its calls, its end, and its files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agentos.components import CallStatus, EffectClass, ToolboxState, ToolboxStatus
from agentos.definitions import AgentSpec, load_agent
from agentos.errors import ConfigurationError, KernelClosed, ProcessGaveUp
from agentos.ids import Kind, hashed_id
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel
from agentos.resources.kinds.jsonrpc import JsonRpcLimits
from agentos.resources.kinds.process import KeptLimits
from agentos.resources.process.command import ProcessLimits
from agentos.settings import Settings
from agentos.testing.leaks import leak_meter
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from tests.support import Mind, call, calls
from tests.toolboxes.test_jsonrpc_toolbox import SERVER, limits, seen

HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
QUICK = ProcessLimits(grace_s=0.2, drain_s=0.2, leftover_s=0.1)

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")


def box(*words: str, restarts_max: int = 3, close_s: float = 2.0, **options: Any) -> JsonRpcToolbox:
    limits = JsonRpcLimits(process=KeptLimits(restarts_max=restarts_max, close_s=close_s, process=QUICK))
    command = [sys.executable, str(SERVER), *words]
    return JsonRpcToolbox("desk", command=command, cwd=SERVER.parent, limits=limits, **options)


async def started(kernel: Kernel, mind: Mind, toolbox: JsonRpcToolbox, **spec: Any) -> Any:
    await kernel.add_toolbox(toolbox)
    await kernel.install(AgentSpec(slug="main", toolboxes=["desk"], **spec), model=mind)
    return await kernel.start("main")


async def statuses(kernel: Kernel, conversation: Any) -> list[str]:
    sql = "select status from calls join logs using (n) where logs.id = ? order by calls.seq"
    return [row[0] for row in (await kernel.query(sql, (conversation.id,))).rows]


async def test_a_once_call_that_its_process_did_not_survive_is_unknown_and_a_pure_one_has_failed() -> None:
    mind = Mind(calls(call("exit")), calls(call("vanish")), calls(call("add", a=1, b=2)), "so be it")
    async with open_kernel("memory:") as kernel:
        conversation = await started(kernel, mind, box())
        outcome = await conversation.ask("go")
        shown = [message.text for message in mind.shown[-1] if message.role.value == "tool"]
        found = await statuses(kernel, conversation)

    assert outcome.text == "so be it"
    assert found == ["unknown", "failed", "done"]
    assert shown[0] == (
        "toolbox desk: ended with exit code 3; it said: out of paper; whether it took effect is unknown"
    )
    assert shown[1:] == ["toolbox desk: ended with exit code 4", "3"]


async def test_a_process_that_gave_up_is_a_toolbox_in_state_error_for_all_to_see() -> None:
    mind = Mind(calls(call("vanish")), calls(call("add", a=1, b=2)), "I see", "no tools")
    async with open_kernel("memory:") as kernel:
        conversation = await started(kernel, mind, box(restarts_max=0))
        await conversation.ask("go")
        shown = mind.results
        await conversation.ask("again")
        state = kernel.world.get(hashed_id(Kind.TOOLBOX, "desk"), ToolboxState)

    assert shown[0].startswith("not run: toolbox desk: ended again after 0 restarts within 60 s")
    assert state is not None
    assert (state.status, state.problem.startswith("the process ended again")) == (ToolboxStatus.ERROR, True)


async def test_the_release_of_its_toolbox_begins_a_process_that_gave_up_anew() -> None:
    mind = Mind(calls(call("vanish")), "oh", "no tools", calls(call("add", a=1, b=2)), "three")
    async with open_kernel("memory:", settings=Settings(follow_files=False)) as kernel:
        toolbox = box(restarts_max=0)
        conversation = await started(kernel, mind, toolbox)
        await conversation.ask("go")
        assert toolbox.process is not None
        with pytest.raises(ProcessGaveUp):
            await toolbox.process.ask("call", {})
        await kernel.refresh()
        await conversation.ask("again")
        offered = [len(request.context.tools) for request in mind.requests]
        broken = kernel.world.get(hashed_id(Kind.TOOLBOX, "desk"), ToolboxState)
        released = await kernel.release("desk")
        sound = kernel.world.get(hashed_id(Kind.TOOLBOX, "desk"), ToolboxState)
        await conversation.ask("now")
        found = await statuses(kernel, conversation)

    assert broken is not None
    assert sound is not None
    assert (broken.status, sound.status, sound.problem) == (ToolboxStatus.ERROR, ToolboxStatus.READY, "")
    assert "'agentos release desk' has it started again" in broken.problem
    assert (released, offered[-1], found[-1], mind.results) == (1, 0, "done", ["3"])


async def test_other_tools_that_a_process_offers_after_a_restart_are_those_of_the_next_turn(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER.read_text())
    command = [sys.executable, str(program)]
    toolbox = JsonRpcToolbox("desk", command=command, cwd=tmp_path, limits=JsonRpcLimits())
    mind = Mind(calls(call("vanish")), calls(call("add", a=1, b=2)), "one", "two", "three")
    async with open_kernel("memory:") as kernel:
        conversation = await started(kernel, mind, toolbox)
        program.write_text(SERVER.read_text().replace('"name": "add", "description"', '"name": "plus", "description"'))
        await conversation.ask("go")
        shown = mind.results
        await conversation.ask("again")
        offered = {tool.name for tool in mind.requests[-1].context.tools}

    assert shown == ["3"]
    assert "plus" in offered
    assert "add" not in offered


@pytest.mark.parametrize("words", [[], ["stubborn"]])
async def test_a_kernel_that_closes_ends_the_process_and_the_call_in_it(words: list[str], tmp_path: Path) -> None:
    async with leak_meter():
        async with open_kernel("memory:") as kernel:
            mind = Mind(calls(call("wait", touch=str(tmp_path / "there"))), "never said")
            conversation = await started(kernel, mind, box(*words, close_s=0.1))
            asked = asyncio.create_task(conversation.ask("go"))
            await seen(tmp_path / "there")
            await kernel.close(0.0)
        await asyncio.wait([asked], timeout=HANG_S)

    assert isinstance(asked.exception(), KernelClosed)


async def test_an_interrupted_turn_leaves_the_process_to_the_others(tmp_path: Path) -> None:
    async with open_kernel("memory:") as kernel:
        mind = Mind(calls(call("wait", touch=str(tmp_path / "there"))), calls(call("show")), "done")
        toolbox = box()
        conversation = await started(kernel, mind, toolbox)
        assert toolbox.process is not None
        before = toolbox.process.pid
        asked = asyncio.create_task(conversation.ask("go"))
        await seen(tmp_path / "there")
        await conversation.interrupt()
        outcome = await asked
        await conversation.ask("and now")
        after, found = toolbox.process.pid, await statuses(kernel, conversation)

    assert str(outcome) == "cancelled(interrupt)"
    assert found == [CallStatus.UNKNOWN.value, CallStatus.DONE.value]
    assert before == after


async def test_an_agent_file_may_hold_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text(
        f"""
slug: main
toolboxes:
  - kind: jsonrpc
    name: desk
    command: [{sys.executable}, {SERVER}]
    effects: {{exit: idempotent}}
    call_s: 9
    close_s: 2
    expose: [add, exit]
"""
    )
    spec = load_agent(tmp_path / "main.yaml")
    mind = Mind(calls(call("add", a=20, b=3)), "done")
    async with open_kernel("memory:") as kernel:
        await kernel.install(spec, model=mind)
        conversation = await kernel.start("main")
        await conversation.ask("go")
        offered = {tool.name: (tool.effect, tool.timeout_s) for tool in mind.requests[0].context.tools}

    assert mind.results == ["23"]
    assert offered == {"add": (EffectClass.PURE, 9.0), "exit": (EffectClass.IDEMPOTENT, 9.0)}


async def test_c30_processes_that_never_answer_are_told_one_by_one_and_a_turn_beside_them_goes_on(
    tmp_path: Path,
) -> None:
    """Ten toolboxes that cannot be opened, while a call of another one is under way."""
    async with open_kernel("memory:") as kernel:
        mind = Mind(calls(call("gather", size=2)), calls(call("gather", size=2)), "first", "second")
        conversation = await started(kernel, mind, box())
        other = await kernel.start("main")
        asked = asyncio.create_task(conversation.ask("go"))
        refused = []
        for number in range(10):
            command = [sys.executable, str(SERVER), "silent"]
            silent = JsonRpcToolbox(f"silent-{number}", command=command, cwd=tmp_path, describe_s=0.05, limits=limits())
            with pytest.raises(ConfigurationError, match=r"describe was not answered within 0\.05 s") as told:
                await kernel.add_toolbox(silent)
            refused.append(str(told.value))
        waits = not asked.done()
        outcomes = [await other.ask("go too"), await asked]

    assert len(set(refused)) == 10
    assert waits
    assert [str(outcome) for outcome in outcomes] == ["completed", "completed"]


async def test_one_process_is_one_resource_with_its_number_and_those_who_use_it(tmp_path: Path) -> None:
    async with open_kernel("memory:") as kernel:
        mind = Mind(calls(call("wait", touch=str(tmp_path / "there"))), "never said")
        toolbox = box()
        conversation = await started(kernel, mind, toolbox)
        asked = asyncio.create_task(conversation.ask("go"))
        await seen(tmp_path / "there")
        (row,) = await kernel.lsof("desk")
        await conversation.interrupt()
        await asked
        (after,) = await kernel.lsof("desk")
        assert toolbox.process is not None
        pid = toolbox.process.pid

    assert (row.kind, row.name, row.scope[-1], row.pattern.value) == ("jsonrpc", "desk", "desk", "stateless")
    assert [takes.pid for takes in row.takes] == [pid]
    assert [user.frames[0] for user in row.holders] == [conversation.id]
    assert after.holders == ()
