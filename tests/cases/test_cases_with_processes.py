"""Bug reports that need real processes and real files: huge output, locked files, grandchildren, a process that stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.clock import SystemClock
from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.python import PythonToolbox
from agentos.toolboxes.script import ScriptToolbox
from tests.processes import new_processes, own_children
from tests.support import Mind, call, calls, entries_of, results

QUICK = ProcessLimits(drain_s=0.2, grace_s=0.2, leftover_s=0.1, memory_bytes=2 * 1024 * 1024)
HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = own_children()
    yield
    assert new_processes(before) == []


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program in a process of its own; whatever it does, it is gone after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", source, *arguments]
        folder = Path(__file__).parents[2]
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], None]:
    """Writes a script without arguments that runs a body."""

    def write(name: str, body: str) -> None:
        path = tmp_path / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        described = json.dumps({"slug": name, "description": f"Runs {name}.", "args": []})
        path.write_text(f"#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{described}'; exit 0; fi\n{body}\n")
        path.chmod(0o755)

    return write


async def with_scripts(kernel: Kernel, folder: Path, mind: Mind, **spec: Any) -> None:
    box = ScriptToolbox("box", directories=[folder / "scripts"], cwd=folder, limits=QUICK)
    await kernel.add_toolbox(box)
    await kernel.install(AgentSpec(slug="main", toolboxes=["box"], **spec), model=mind)


async def test_c24_five_megabytes_of_a_script_and_of_a_function_are_cut_alike(
    tmp_path: Path, script: Callable[[str, str], None]
) -> None:
    script("dump", "printf 'head '; head -c 5000000 /dev/zero | tr '\\0' x; printf ' tail'")

    async def give() -> str:
        return "head " + "x" * 5_000_000 + " tail"

    mind = Mind(calls(call("dump"), call("give")), "read", "and read again")
    async with open_kernel(f"sqlite:///{tmp_path / 'a.db'}") as kernel:
        await kernel.add_toolbox(PythonToolbox("more", [give]))
        box = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path)
        await kernel.add_toolbox(box)
        await kernel.install(AgentSpec(slug="main", toolboxes=["box", "more"], result_chars=4_000), model=mind)
        conversation = await kernel.start("main")
        outcome = await conversation.ask("go")
        shown = mind.results
        again = await conversation.ask("go on")
        whole = [len(dict(entry.private)["whole"]) for entry in await entries_of(conversation, "call.finished")]

    assert (outcome.text, again.text) == ("read", "and read again")
    assert len(shown) == 2
    assert all(len(text) <= 4_000 and text.startswith("head ") and text.endswith(" tail") for text in shown)
    assert all("5,000,010" in text for text in shown)
    assert whole == [5_000_010, 5_000_010]


MANY = """
import asyncio, sys
from agentos.definitions import AgentSpec
from agentos.kernel import open as open_kernel
from agentos.models.scripted import ScriptedModel

async def main(url, shared, name, count):
    async with open_kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=ScriptedModel([{"text": "ok", "when": {"step": 0}}]))
        own = [await kernel.start("main") for _ in range(8)]
        print("ready", flush=True)
        sys.stdin.readline()

        async def append(n):
            for k in range(count):
                await kernel.send(shared, f"{name} {n} {k}", key=f"{name}-{n}-{k}")
                await own[n].send(f"own {k}")

        await asyncio.gather(*(append(n) for n in range(8)))
        print("done", flush=True)
        sys.stdin.readline()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


async def test_c26_two_processes_write_to_one_conversation_and_to_eight_of_their_own(
    tmp_path: Path, python: Callable[..., subprocess.Popen[str]]
) -> None:
    """Every message is there once, and no log has a gap; nobody is told that the file is locked."""
    url, count = f"sqlite:///{tmp_path / 'a.db'}", 6
    async with open_kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=Mind(*["ok"] * 1_000))
        shared = await kernel.start("main")
        others = [python(MANY, url, shared.id, f"p{n}", str(count)) for n in range(2)]
        for other in others:
            await _line(other, "ready")
        for other in others:
            _tell(other)
        for other in others:
            await _line(other, "done")
        for other in others:
            _tell(other)
            assert await asyncio.to_thread(other.wait, HANG_S) == 0
        logs = (await kernel.query("select id, seq from logs where kind = 'conversation'")).rows
        gaps = await kernel.query(
            "select logs.id from logs join entries on entries.n = logs.n where logs.kind = 'conversation' "
            "group by logs.id having count(*) <> max(entries.seq) or max(entries.seq) <> max(logs.seq)"
        )
        texts = [str(entry.private[0][1]) for entry in await entries_of(shared, "input.received")]

    assert sorted(texts) == sorted(f"p{n} {task} {k}" for n in range(2) for task in range(8) for k in range(count))
    assert len(logs) == 17
    assert gaps.rows == []


async def _line(process: subprocess.Popen[str], expected: str) -> None:
    assert process.stdout is not None
    line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), HANG_S)
    if line.strip() != expected:
        process.kill()
        raise AssertionError(f"{line!r}: {process.communicate()[1][-2_000:]}")


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("sleep 60 & echo hi", "done", "hi"),
        ("setsid sleep 60 & echo hi", "done", "hi"),
        ("trap '' TERM; echo begun; sleep 60 & sleep 60; sleep 60", "unknown(timeout)", "begun"),
        ("yes", "unknown(timeout)", "y\ny\n"),
    ],
    ids=["background", "setsid", "deaf", "endless"],
)
async def test_c46_a_grandchild_that_holds_the_pipe_holds_up_nothing(
    tmp_path: Path, script: Callable[[str, str], None], body: str, status: str, told: str
) -> None:
    script("bad", body)
    for tool_s in (1.0, 20.0) if status != "done" else (HANG_S,):  # a slow machine may not have begun after the first
        mind = Mind(calls(call("bad")), "I see")
        async with open_kernel(clock=SystemClock()) as kernel:
            await with_scripts(kernel, tmp_path, mind, tool_s=tool_s)
            conversation = await kernel.start("main")
            outcome = await asyncio.wait_for(conversation.ask("go"), HANG_S)
            ((found, text),) = await results(conversation)
        if told in text:
            break

    assert outcome.text == "I see"
    assert found == status
    assert told in text
    assert len(text) < 40_000


ENDS = """
import asyncio, os, signal, sys
from agentos.definitions import AgentSpec
from agentos.kernel import open as open_kernel
from agentos.models.scripted import ScriptedModel

async def main(url, how):
    async with open_kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=ScriptedModel([{"text": "hello"}]))
        print((await (await kernel.start("main")).ask("hi")).text, flush=True)
        await kernel.query("select count(*) from logs")
        if how == "raise":
            raise RuntimeError("before close")
        if how == "exit":
            sys.exit(3)
        await asyncio.sleep(60)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.parametrize(("how", "code"), [("raise", 1), ("exit", 3), ("interrupt", None)])
async def test_c47_the_process_ends_however_the_kernel_is_left(
    tmp_path: Path, python: Callable[..., subprocess.Popen[str]], how: str, code: int | None
) -> None:
    """A thread of the database driver that nobody ends would keep the process for ever."""
    process = python(ENDS, f"sqlite:///{tmp_path / 'a.db'}", how)
    await _line(process, "hello")
    if how == "interrupt":
        os.kill(process.pid, signal.SIGINT)
    ended = await asyncio.to_thread(process.wait, HANG_S)
    _, errors = process.communicate()

    assert ended == (code if code is not None else -signal.SIGINT)
    assert ("before close" in errors) == (how == "raise")
