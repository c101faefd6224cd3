"""Bounds of processes in turns: programs of tools, programs that stay, and Lua states count alike."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ConfigurationError, ProcessError
from agentos.events.model import ToolCall
from agentos.ports import CallContext
from agentos.resources.kinds.jsonrpc import JsonRpcLimits
from agentos.resources.kinds.process import KeptLimits
from agentos.resources.process.command import ProcessLimits
from agentos.settings import Settings
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from agentos.toolboxes.script import ScriptToolbox
from tests.support import Lab, Mind, call, calls, lab, results, until
from tests.toolboxes.test_jsonrpc_toolbox import SERVER
from tests.toolboxes.test_script_portal import ASK, TOOL

Write = Callable[..., Path]
QUICK = ProcessLimits(grace_s=0.2, drain_s=0.2, leftover_s=0.1)
ALONE = 'mkdir "$PWD/busy" || { echo "not alone"; exit 1; }; sleep 0.1; rmdir "$PWD/busy"; echo alone'
"""Says whether another one like it ran at the same time."""


def bounded(**bounds: Any) -> dict[str, Any]:
    return {"settings": Settings(**bounds)}


def scripts(folder: Path) -> ScriptToolbox:
    return ScriptToolbox("scripts", directories=[folder / "scripts"], cwd=folder, size=8)


def desk() -> JsonRpcToolbox:
    limits = JsonRpcLimits(process=KeptLimits(close_s=0.2, process=QUICK))
    return JsonRpcToolbox("desk", command=[sys.executable, str(SERVER)], cwd=SERVER.parent, limits=limits)


async def in_use(here: Lab, of: str = "processes") -> list[tuple[str, int]]:
    return [(one.scope, one.held) for one in (await here.kernel.top()).limits if one.of == of]


@pytest.mark.parametrize("setting", ["processes_max", "agent_processes_max", "toolbox_processes_max"])
async def test_scripts_run_one_after_the_other_where_one_may(script: Write, tmp_path: Path, setting: str) -> None:
    script("alone", ALONE)
    minds = [Mind(calls(call("alone"), call("alone"))) for _ in range(2)]
    async with lab(minds[0], toolboxes=[scripts(tmp_path)], options=bounded(**{setting: 1})) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [text.strip() for _, text in await results(conversation)] == ["alone", "alone"]
        assert await in_use(here) == []


async def test_a_script_that_waits_for_a_place_is_cancelled_with_its_turn(script: Write, tmp_path: Path) -> None:
    script("hang", 'touch "$PWD/begun"; sleep 60')
    script("quick", "echo quick")
    mind = Mind(calls(call("hang")), calls(call("quick")))
    async with lab(mind, toolboxes=[scripts(tmp_path)], options=bounded(processes_max=1)) as here:
        first, second = await here.start(), await here.start()
        hangs = asyncio.create_task(first.ask("go"))
        await until((tmp_path / "begun").exists)
        waits = asyncio.create_task(second.ask("go"))

        async def in_line() -> bool:
            return any(one.waiting for one in (await here.kernel.top()).limits)

        await until(in_line)
        await second.interrupt()
        await waits
        still = await in_use(here)
        await first.interrupt()
        await hangs

        assert still == [("program", 1)]
        assert await in_use(here) == []


async def test_a_script_that_asks_for_another_is_told_that_it_has_the_only_place(script: Write, tmp_path: Path) -> None:
    script("asking", ASK, TOOL, portal=True)
    script("quick", "echo quick", [{**TOOL[0], "name": "n"}])
    mind = Mind(calls(ToolCall("asking", {"tool": "quick"})))
    async with lab(mind, toolboxes=[scripts(tmp_path)], options=bounded(processes_max=1)) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = dict(await results(conversation))

        assert "processes_max allows 1 processes there: raise it" in told["failed(deadlock)"]
        assert "would never come free" in told["done"]
        assert await in_use(here) == []


async def test_a_process_that_stays_counts_for_its_toolbox_as_long_as_it_lives(script: Write, tmp_path: Path) -> None:
    script("quick", "echo quick")
    mind = Mind(calls(call("quick")))
    options = bounded(processes_max=1, toolbox_processes_max=5)
    async with lab(mind, toolboxes=[scripts(tmp_path), desk()], options=options) as here:
        kept = [(one.scope, one.name, one.held) for one in (await here.kernel.top()).limits if one.of == "processes"]
        conversation = await here.start()
        await conversation.ask("go")
        await here.kernel.remove("desk")
        after = await in_use(here)
        ((status, text),) = await results(conversation)

        assert kept == [("program", "", 1), ("toolbox", "desk", 1)]
        assert (status, "none of them comes back by itself" in text) == ("failed(resource)", True)
        assert after == []


async def test_a_toolbox_whose_process_finds_no_place_is_not_opened(script: Write, tmp_path: Path) -> None:
    async with lab(toolboxes=[desk()], options=bounded(processes_max=1)) as here:
        another = JsonRpcToolbox("another", command=[sys.executable, str(SERVER)], cwd=SERVER.parent)
        with pytest.raises((ConfigurationError, ProcessError), match="processes_max allows 1 processes in the program"):
            await here.kernel.add_toolbox(another)

        assert await in_use(here) == [("program", 1)]


async def test_lua_states_count_and_an_idle_one_makes_room(script: Write, tmp_path: Path) -> None:
    async def compute(context: CallContext) -> str:
        async with context.resource("lua") as worker:
            return f"process {worker.pid}"

    script("quick", "echo quick")
    mind = Mind(calls(call("compute")), "done", calls(call("quick")))
    async with lab(mind, [compute], toolboxes=[scripts(tmp_path)], options=bounded(processes_max=1)) as here:
        conversation = await here.start()
        await conversation.ask("go")
        kept = await in_use(here)
        await conversation.ask("again")
        (_, first), (_, second) = await results(conversation)

        assert first.startswith("process ")
        assert (kept, second.strip()) == ([("program", 1)], "quick")
        assert await in_use(here) == []


async def test_descriptions_of_scripts_are_asked_within_the_bound(script: Write, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        script(name, f"echo {name}")
    mind = Mind(calls(*(call(name) for name in ("one", "two", "three"))))
    async with lab(mind, toolboxes=[scripts(tmp_path)], options=bounded(processes_max=1)) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [text.strip() for _, text in await results(conversation)] == ["one", "two", "three"]
