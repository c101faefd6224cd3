"""The leak meter: it names what is left behind, and says nothing of what was there before or has gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentos.components import ToolboxSharing
from agentos.resources import Factory, Level, Shared
from agentos.resources.process.threads import ToolThreads
from agentos.testing.leaks import Leak, Leaked, LeakMeter, leak_meter, meter, own_temporary_folder
from tests.support import Mind, call, calls, lab, until

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only /proc names descriptors and children")
LOOKS = 50
"""So many that a look which minds what goes away meanwhile finds it gone."""


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left here is left on purpose: nothing is gained by waiting for it."""
    monkeypatch.setattr(meter, "POLLS", 1)


async def test_nothing_is_said_of_what_was_there_before_or_is_gone_again() -> None:
    before = asyncio.create_task(asyncio.Event().wait())
    async with leak_meter() as here:
        task = asyncio.create_task(asyncio.sleep(0))
        assert [leak.kind for leak in here.left()] == ["task"]
        await task

    assert not before.done()
    before.cancel()


async def test_a_task_is_named_with_its_function_and_line() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    here = LeakMeter()
    task = asyncio.create_task(forgotten(), name="mine")
    await asyncio.sleep(0)

    with pytest.raises(Leaked, match=r"task: mine, .*forgotten, in .*forgotten \(test_leak_meter\.py:\d+\)"):
        await here.check()
    task.cancel()


@linux
def test_a_descriptor_is_named_with_its_target(tmp_path: Path) -> None:
    here = LeakMeter()
    file = (tmp_path / "left open").open("w")

    assert [(leak.kind, leak.what.partition(" -> ")[2]) for leak in here.left()] == [
        ("file", str(tmp_path / "left open"))
    ]
    file.close()
    assert here.left() == []


@linux
def test_another_file_under_the_same_number_is_a_leak(tmp_path: Path) -> None:
    file = (tmp_path / "first").open("w")
    here = LeakMeter()
    file.close()
    other = (tmp_path / "second").open("w")

    assert other.fileno() in {int(leak.what.split()[0]) for leak in here.left()}
    other.close()


def test_a_thread_is_named_with_what_runs_in_it() -> None:
    let_go = threading.Event()
    here = LeakMeter()
    thread = threading.Thread(target=let_go.wait, name="worker of mine")
    thread.start()

    (leak,) = here.left()
    assert (leak.kind, leak.what.partition(",")[0]) == ("thread", "worker of mine")
    assert "wait (threading.py:" in leak.what
    let_go.set()
    thread.join()
    assert here.left() == []


async def test_a_thread_of_the_executor_of_the_loop_is_the_loops() -> None:
    async with leak_meter():
        await asyncio.to_thread(len, "")


async def test_an_abandoned_thread_is_named_with_its_tool_until_it_ends() -> None:
    let_go, began = threading.Event(), threading.Event()

    def stubborn() -> None:
        began.set()
        let_go.wait()

    threads = ToolThreads(1)
    here = LeakMeter()
    asked = asyncio.ensure_future(threads.run("stubborn_tool", stubborn))
    await until(began.is_set)
    asked.cancel()
    await asyncio.wait([asked])
    await threads.close()

    (leak,) = here.left(frozenset({"thread"}))
    assert "abandoned by stubborn_tool" in leak.what
    let_go.set()
    await until(lambda: not here.left())


@linux
def test_a_child_is_named_by_its_command_without_its_options() -> None:
    here = LeakMeter()
    with _child("--token=very-secret") as child:
        (leak,) = [leak for leak in here.left() if leak.kind == "child"]
        assert leak.what.startswith(f"{child.pid} ")
        assert Path(sys.executable).name in leak.what
        assert "very-secret" not in leak.what


@linux
def test_a_child_that_ended_and_was_not_waited_for_is_left() -> None:
    here = LeakMeter()
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert ["not waited for" in leak.what for leak in here.left() if leak.kind == "child"] == [True]
    child.wait()
    assert here.left() == []


def left_after_a_while(meter: LeakMeter, count: int) -> list[Leak]:
    """What is left when there are so many, or once it is given up: shells end a moment after what they say."""
    for _ in range(6_000):
        if len(meter.left()) == count:
            break
        time.sleep(0.01)
    return meter.left()


@linux
@pytest.mark.parametrize("command", ["sleep 30 & echo $!", "setsid sh -c 'sleep 30 & echo $!'"])
def test_a_process_whose_parent_has_ended_is_left(command: str) -> None:
    with own_temporary_folder() as temporary:
        meter = LeakMeter(temporary)
        shell = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True)
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        shell.stdout.close()
        shell.wait()
        try:
            found = left_after_a_while(meter, 1)
        finally:
            os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # a process that keeps its descendants has it as its child now
                os.waitpid(pid, 0)
        after = left_after_a_while(meter, 0)

    assert [leak.kind for leak in found] == ["child"]
    assert found[0].what.split()[0] == str(pid)  # which may still be the shell that becomes it
    assert after == []


def test_a_temporary_file_is_left() -> None:
    with own_temporary_folder() as folder:
        here = LeakMeter(folder)
        handle, name = tempfile.mkstemp()
        os.close(handle)

        assert [(leak.kind, leak.what) for leak in here.left()] == [("temporary", Path(name).name)]


def test_folders_that_somebody_takes_away_meanwhile_are_no_error(tmp_path: Path) -> None:
    here, over = LeakMeter(tmp_path), threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            (tmp_path / "a" / "b" / "c").mkdir(parents=True)
            shutil.rmtree(tmp_path / "a")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        found = {leak.what for _ in range(LOOKS) for leak in here.left(frozenset({"temporary"}))}
    finally:
        over.set()
        thread.join()

    assert found <= {"a", "a/b", "a/b/c"}
    assert here.left(frozenset({"temporary"})) == []


def test_the_folder_of_temporary_files_is_gone_after_and_the_old_one_is_back() -> None:
    before = tempfile.gettempdir(), os.environ.get("TMPDIR")
    with own_temporary_folder() as inside:
        assert (tempfile.gettempdir(), os.environ.get("TMPDIR")) == (str(inside), str(inside))

    assert not inside.exists()
    assert before == (tempfile.gettempdir(), os.environ.get("TMPDIR"))


async def test_an_error_of_the_block_goes_before_what_it_left() -> None:
    left: list[asyncio.Task[object]] = []

    async def work() -> None:
        async with leak_meter():
            left.append(asyncio.create_task(asyncio.Event().wait()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    left[0].cancel()


async def test_the_calls_that_hold_or_wait_for_a_slot_are_named_until_they_end() -> None:
    door = asyncio.Event()

    async def slow() -> str:
        await door.wait()
        return "came back"

    async with lab(Mind(calls(call("slow"), call("slow"))), [slow], sharing=ToolboxSharing.EXCLUSIVE) as here:
        seen = LeakMeter()
        seen.watch(here.kernel)
        asked = asyncio.ensure_future(here.ask())
        await until(lambda: len([leak for leak in seen.left() if leak.kind == "slot"]) == 2)
        words = {leak.what.split(" of ")[1].split(" ", 1)[1] for leak in seen.left() if leak.kind == "slot"}

        door.set()
        await asked
        await seen.check(frozenset({"slot", "scope"}))
        assert words == {"holds box", "waits for box"}


async def test_a_scope_that_stays_open_is_named_by_its_path() -> None:
    async with lab() as here:
        seen = LeakMeter()
        seen.watch(here.kernel)
        scope = here.kernel.scope.child(Level.AGENT, "mine")
        scope.push("thing", lambda: None)

        assert [str(leak) for leak in seen.left()] == ["scope: program/mine, with 1 to give back"]
        await scope.close()
        assert seen.left() == []


async def test_a_resource_is_named_and_so_is_who_holds_it_or_waits_for_it() -> None:
    async with lab() as here:
        seen = LeakMeter()
        seen.watch(here.kernel)
        scope = here.kernel.scope.child(Level.AGENT, "mine")
        shared = await here.kernel.resources.create(scope, "browser", "chrome", Factory(make=_handle))
        waiting = asyncio.ensure_future(_borrow(shared))
        async with shared.borrow():
            await asyncio.sleep(0)
            said = [leak.what for leak in seen.left(frozenset({"resource"}))]

        assert said == [
            "browser chrome of program/mine",
            "program holds browser chrome of program/mine",
            "program waits for browser chrome of program/mine",
        ]
        await waiting
        await scope.close()
        assert seen.left() == []


async def test_a_meter_that_starts_anew_takes_what_is_there_as_given() -> None:
    here = LeakMeter()
    task = asyncio.create_task(asyncio.Event().wait())
    here.start_anew()

    assert here.left() == []
    task.cancel()


async def test_a_whole_kernel_with_a_turn_leaves_nothing() -> None:
    async with leak_meter(), lab(Mind(calls(call("add")), "done"), [_add]) as here:
        assert (await here.ask()).text == "done"


def _add() -> int:
    return 3


async def _handle() -> object:
    return object()


async def _borrow(shared: Shared[object]) -> None:
    async with shared.borrow():
        pass


@contextmanager
def _child(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "print(flush=True); input()", *words]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child
    finally:
        child.communicate(b"\n")
