"""Whose a process is that has shed its session, its parent and its environment: by what it cannot shed."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from agentos.resources.process import Command, Keeper, ProcessLimits, run_process, tags
from agentos.resources.process import warden as wardens
from agentos.resources.process.descendants import reap
from agentos.resources.process.family import insist
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.reasons import reason_of
from agentos.resources.process.survivors import stat_of, tag_of, tags_of
from agentos.resources.process.warden import WARDEN
from agentos.testing.leaks import leak_meter
from tests.resources.hostile import argv, living, pid_in
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems neither adopt orphans nor have tags")

HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
QUICK = ProcessLimits(grace_s=0.05, drain_s=0.2, leftover_s=0.05)


@pytest.fixture(autouse=True)
def _adopting() -> Iterator[None]:
    keeper = Keeper()
    yield
    keeper.close()
    assert WARDEN.pid is None


def command(source: str, mark: str = "it") -> Command:
    return Command(argv=argv(source), environment={"AGENTOS_CALL": mark}, cwd="/", mark=mark)


def live(source: str, mark: str = "it") -> LiveProcess:
    return LiveProcess(command(source, mark), QUICK, lambda chunk: None, 1_000_000)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, before[1]))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        with suppress(OSError):
            while True:
                held.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        yield


def started(script: str) -> subprocess.Popen[bytes]:
    """By code of the program itself."""
    return subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, env={}, cwd="/")


async def test_one_that_has_shed_all_signs_is_ended_with_the_run_that_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "runaway"
    async with leak_meter():
        ended = await asyncio.wait_for(
            run_process(
                command(f"run_away({str(path)!r})\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)"), QUICK
            ),
            HANG_S,
        )
        left = living([await pid_in(path)])

    assert (ended.code, left) == (0, [])


async def test_each_family_is_ended_alone(tmp_path: Path) -> None:
    """Though one of them bears the mark of another."""
    async with leak_meter():
        source = "run_away({!r})\nif {!r}: run_away({!r})\ntime.sleep(1000)"
        families = [
            live(
                source.format(str(tmp_path / name), name == "a", str(tmp_path / "second")),
                "same" if name != "c" else "other",
            )
            for name in "abc"
        ]
        runaways = {name: await pid_in(tmp_path / name) for name in ("a", "b", "c", "second")}
        left = []
        for family in families:
            await asyncio.wait_for(family.end(at_once=True), HANG_S)
            left.append([name for name, pid in runaways.items() if living([pid])])

    assert left == [["b", "c"], ["c"], []]


async def test_what_the_program_itself_started_is_neither_ended_nor_reaped(tmp_path: Path) -> None:
    """In a session of its own, without an environment, while a family lives: nothing but the tag tells the two apart."""
    path = tmp_path / "runaway"
    family = live(f"run_away({str(path)!r})\ntime.sleep(1000)")
    runaway = await pid_in(path)
    own, dead = started("exec sleep 1000"), started("exit 7")
    await until(lambda: (stat := stat_of(dead.pid)) is not None and stat.state == "Z")
    await asyncio.wait_for(family.end(at_once=True), HANG_S)
    left = living([runaway, own.pid])
    own.kill()
    ended = dead.wait(), own.wait()

    assert left == [own.pid]
    assert ended == (7, -signal.SIGKILL)


async def test_orphans_that_end_by_themselves_are_reaped_while_their_family_lives(tmp_path: Path) -> None:
    path = tmp_path / "runaway"
    family = live(f"run_away({str(path)!r}, 0)\ntime.sleep(1000)")
    runaway = await pid_in(path)
    await until(lambda: (stat := stat_of(runaway)) is None or stat.state == "Z")
    before = stat_of(runaway)
    family.reap()
    after = stat_of(runaway)
    await asyncio.wait_for(family.end(at_once=True), HANG_S)

    assert (before is not None, after) == (True, None)


async def test_where_no_descriptor_is_left_nobody_is_taken_for_gone(tmp_path: Path) -> None:
    """Those that a run leaves behind are found by the one descriptor that its first process gives back."""
    path = tmp_path / "runaway"
    await insist(asyncio.sleep(0))  # what this loads needs one too
    run = asyncio.create_task(run_process(command(f"run_away({str(path)!r})\ntime.sleep(1000)"), QUICK))
    runaway = await pid_in(path)
    async with leak_meter():
        with no_descriptor_left():
            run.cancel()
            await asyncio.wait([run], timeout=HANG_S)
        left = living([runaway])

    assert run.cancelled()
    assert left == []


async def test_where_tags_do_not_work_session_and_mark_tell_as_far_as_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "_LIMIT", None)
    path, marked = tmp_path / "runaway", tmp_path / "marked"
    detached = (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        tell({str(marked)!r}); time.sleep(1000)\n    os._exit(0)\nos.wait()\n"
    )
    family = live(f"run_away({str(path)!r})\n{detached}time.sleep(1000)")
    runaway, found = await pid_in(path), await pid_in(marked)
    await asyncio.wait_for(family.end(at_once=True), HANG_S)
    left = living([runaway, found])
    os.kill(runaway, signal.SIGKILL)
    await until(lambda: living([runaway]) == [])
    reap(runaway)

    assert left == [runaway]


async def test_a_tag_reaches_all_below_and_stays_under_the_limit_of_the_one_who_gives_it(tmp_path: Path) -> None:
    """As when a kernel is itself a process of another kernel's family."""
    path = tmp_path / "runaway"
    source = (
        "import resource, subprocess, sys\n"
        "resource.setrlimit(resource.RLIMIT_RTTIME, (2**50, 2**50))\n"
        "from agentos.resources.process.warden import WARDEN\n"
        "with WARDEN.birth() as tag:\n"
        "    child = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE)\n"
        "tag = WARDEN.follow(child.pid, tag)\n"
        "print(tag.works, tag.number < 2**50)\n"
        "child.communicate()\n"
        "WARDEN.forget(tag)\n"
    )
    inner = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", source], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    family = live(f"run_away({str(path)!r})\ntime.sleep(1000)")
    tag, carried = tag_of(family.pid), tags_of(await pid_in(path))
    mine = resource.getrlimit(resource.RLIMIT_RTTIME)
    await asyncio.wait_for(family.end(at_once=True), HANG_S)

    assert inner.stdout == "True True\n"
    assert tag in carried
    assert tag not in (None, mine[1])


async def test_a_warden_that_was_ended_is_there_again_with_the_next_family(caplog: pytest.LogCaptureFixture) -> None:
    first = live("time.sleep(1000)")
    assert WARDEN.pid is not None
    dead = WARDEN.pid
    os.kill(dead, signal.SIGKILL)
    await until(lambda: living([dead]) == [])
    second = live("time.sleep(1000)")
    again = WARDEN.pid
    for family in (first, second):
        await asyncio.wait_for(family.end(at_once=True), HANG_S)

    assert again not in (None, dead)
    assert again is not None
    assert living([again]) == [again]
    assert "the warden ended with signal SIGKILL, and is started anew" in caplog.text


async def test_a_family_lives_and_ends_also_when_there_can_be_no_warden(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(table: object) -> subprocess.Popen[bytes]:
        raise OSError(11, "no process left")

    first = live("time.sleep(1000)")
    dead = WARDEN.pid
    assert dead is not None
    os.kill(dead, signal.SIGKILL)
    await until(lambda: living([dead]) == [])
    monkeypatch.setattr(wardens, "_started", none_left)
    second = live("time.sleep(1000)")
    pids = [first.pid, second.pid]
    for family in (first, second):
        await asyncio.wait_for(family.end(at_once=True), HANG_S)

    assert living(pids) == []
    assert "no warden" in caplog.text


async def test_a_fork_of_the_program_leaves_the_warden_and_its_families_to_its_parent() -> None:
    source = (
        "import os, subprocess\n"
        "from agentos.resources.process.warden import WARDEN\n"
        "WARDEN.hold()\n"
        "with WARDEN.birth() as tag:\n"
        "    child = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE)\n"
        "tag = WARDEN.follow(child.pid, tag)\n"
        "if os.fork() == 0:\n"
        "    WARDEN.forget(tag)\n"
        "    WARDEN.release()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "record = os.pread(WARDEN._table.fileno(), 8, 0)\n"
        "print(WARDEN._process.poll(), int.from_bytes(record, 'little') == tag.number)\n"
        "child.communicate()\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", source], capture_output=True, text=True, timeout=HANG_S, check=True
    )

    assert done.stdout == "None True\n"


async def test_nothing_is_started_by_a_program_that_would_not_be_told_how_it_ended() -> None:
    """A script that fails would seem to be well."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(ChildProcessError) as refused:
            await run_process(command("pass"), QUICK)
    finally:
        signal.signal(signal.SIGCHLD, before)
    reason = reason_of(refused.value, Path(sys.executable), Path("/"))

    assert reason.startswith("this program ignores SIGCHLD")


async def test_a_command_is_told_how_its_tools_ended_whatever_the_one_that_started_it_ignores() -> None:
    source = (
        "import signal\n"
        "from agentos.interfaces.cli import main\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "main(['--version'])\n"
        "print(signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", source], capture_output=True, text=True, timeout=HANG_S, check=True
    )

    assert done.stdout.splitlines()[-1] == "True"
