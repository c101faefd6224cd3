"""The warden of a program's families: what it knows, what it outlives, and what a forked program has to do with it."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from agentos.resources.process import Command, Keeper, ProcessLimits
from agentos.resources.process import warden as wardens
from agentos.resources.process.descendants import Kin, left_behind, living_below, reap
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.survivors import RECORD, Process, send, stat_of, tag_of
from agentos.resources.process.warden import WARDEN
from tests.resources.hostile import argv, living, pid_in, python
from tests.support import until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have neither tags nor a table to look into"
)

HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
QUICK = ProcessLimits(grace_s=0.05, drain_s=0.2, leftover_s=0.05)
ROOT = Path(__file__).parents[2]


def live(source: str = "time.sleep(1000)") -> LiveProcess:
    return LiveProcess(
        Command(argv=argv(source), environment={}, cwd="/", mark="it"), QUICK, lambda chunk: None, 1_000_000
    )


async def ended(*families: LiveProcess) -> None:
    for family in families:
        await asyncio.wait_for(family.end(at_once=True), HANG_S)


def records() -> set[tuple[int, int]]:
    assert WARDEN._table is not None
    return set(RECORD.iter_unpack(os.pread(WARDEN._table.fileno(), 4096, 0))) - {(0, 0)}


async def output_of(source: str) -> str:
    """What a program of its own prints."""
    argv = [sys.executable, "-c", source]
    done = await asyncio.to_thread(
        subprocess.run, argv, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    return done.stdout


def started(source: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", source], cwd=ROOT)


@pytest.fixture
def adopting() -> Iterator[None]:
    keeper = Keeper()
    yield
    keeper.close()


async def test_a_family_that_began_when_there_was_no_file_is_recorded_once_there_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left() -> BinaryIO:
        raise OSError(errno.EMFILE, "no descriptor left")

    with monkeypatch.context() as patched:
        patched.setattr(wardens, "_file_without_a_name", none_left)
        first = live()
    second = live()
    both = records()
    await ended(first)
    one = records()
    await ended(second)

    assert "no warden" in caplog.text
    assert {pid for _, pid in both} == {first.pid, second.pid}
    assert {pid for _, pid in one} == {second.pid}


@pytest.mark.usefixtures("adopting")
async def test_a_limit_that_leaves_no_room_gives_each_family_a_name_of_its_own_and_no_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an administrator sets it for programs with real-time priorities; root could go over it."""
    monkeypatch.setattr(resource, "getrlimit", lambda number: (200_000, 200_000))
    families = [live() for _ in range(3)]
    known = records()
    monkeypatch.undo()
    tags = {tag_of(family.pid) for family in families}
    mine = tag_of(os.getpid())
    await ended(*families)

    assert len({number for number, _ in known}) == 3
    assert tags == {mine}


@pytest.mark.usefixtures("adopting")
async def test_what_was_on_its_way_when_the_tag_was_given_is_known_by_the_one_it_was_born_with(tmp_path: Path) -> None:
    path = tmp_path / "runaway"
    with WARDEN.birth() as tag:
        leader = started(python(f"run_away({str(path)!r})\ntime.sleep(1000)"))
    runaway = await pid_in(path)
    await until(lambda: {runaway} <= {one.pid for one in living_below()})
    found = {one.pid for one in left_behind(Kin(leader.pid, tag, "another"), set())}
    for pid in (leader.pid, runaway):
        os.kill(pid, signal.SIGKILL)
    leader.wait(HANG_S)
    await until(lambda: living([runaway]) == [])
    reap(runaway)

    assert runaway in found


@pytest.mark.usefixtures("adopting")
async def test_what_a_family_begins_before_it_has_its_tag_gets_it_too(tmp_path: Path) -> None:
    """On a busy machine: one that has shed all signs, and whose parent has ended."""
    path = tmp_path / "runaway"
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    with WARDEN.birth() as tag:
        leader = started(python(f"run_away({str(path)!r})\ntime.sleep(1000)"))
    runaway = await pid_in(path)
    bare = tag_of(runaway)
    carried = WARDEN.follow(leader.pid, tag)
    tags = [tag_of(leader.pid), tag_of(runaway)]
    for pid in (leader.pid, runaway):
        os.kill(pid, signal.SIGKILL)
    leader.wait(HANG_S)
    await until(lambda: living([runaway]) == [])
    reap(runaway)
    WARDEN.forget(carried)

    assert carried.works
    assert bare != tag.number
    assert tags == [tag.number, tag.number]
    assert resource.getrlimit(resource.RLIMIT_RTTIME) == before


@pytest.mark.usefixtures("adopting")
async def test_a_soft_limit_that_was_set_for_all_holds_for_a_family_too() -> None:
    source = (
        "import resource, subprocess\n"
        "from agentos.resources.process.warden import WARDEN\n"
        "resource.setrlimit(resource.RLIMIT_RTTIME, (200_000, resource.getrlimit(resource.RLIMIT_RTTIME)[1]))\n"
        "with WARDEN.birth() as tag:\n"
        "    child = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE)\n"
        "tag = WARDEN.follow(child.pid, tag)\n"
        "print(resource.prlimit(child.pid, resource.RLIMIT_RTTIME) == (200_000, tag.number))\n"
        "child.communicate()\n"
        "WARDEN.forget(tag)\n"
    )

    assert await output_of(source) == "True\n"


async def test_a_program_that_was_forked_while_a_thread_held_the_warden_has_one_of_its_own() -> None:
    """And adopts its own orphans: that it does not inherit."""
    source = (
        "import os, signal, threading\n"
        "from agentos.resources.process import Keeper\n"
        "from agentos.resources.process.descendants import _subreaper\n"
        "from agentos.resources.process.warden import WARDEN\n"
        "outer = Keeper()\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with WARDEN._lock, Keeper._lock:\n"
        "        held.set()\n"
        "        done.wait()\n"
        "threading.Thread(target=hold, daemon=True).start()\n"
        "held.wait()\n"
        "if os.fork() == 0:\n"
        "    signal.alarm(30)\n"
        "    outer.close()\n"
        "    inner = Keeper()\n"
        "    print(_subreaper(), WARDEN.pid is not None, flush=True)\n"
        "    inner.close()\n"
        "    print(_subreaper(), WARDEN.pid, flush=True)\n"
        "    os._exit(0)\n"
        "print(os.wait()[1])\n"
        "done.set()\n"
        "outer.close()\n"
    )

    assert await output_of(source) == "1 True\n0 None\n0\n"


def test_a_number_that_is_another_s_by_now_gets_no_signal() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as other:
        stat = stat_of(other.pid)
        assert stat is not None
        send(Process(other.pid, stat.process.started - 1), signal.SIGKILL)
        unhurt = other.poll()
        send(stat.process, signal.SIGKILL)
        code = other.wait(HANG_S)

    assert (unhurt, code) == (None, -signal.SIGKILL)


async def test_what_a_kernel_in_a_family_of_another_began_is_gone_when_both_are_killed(tmp_path: Path) -> None:
    """The inner one heeds nothing, and is killed at the same time as all that bears the tag of the outer one."""
    kernel = (
        "import asyncio, os, signal, sys\n"
        "from agentos.resources.process import Command, Keeper, ProcessLimits\n"
        "from agentos.resources.process.live import LiveProcess\n"
        "async def main():\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    keeper = Keeper()\n"
        "    command = Command(argv={argv!r}, environment={environment!r}, cwd={cwd!r}, mark='it')\n"
        "    live = LiveProcess(command, ProcessLimits(), lambda chunk: None, 1000)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "innermost"
    innermost = argv(f"tell({str(path)!r})\ntime.sleep(1000)")
    inner = kernel.format(argv=innermost, environment={}, cwd="/")
    outer = kernel.format(argv=[sys.executable, "-c", inner], environment=dict(os.environ), cwd=str(ROOT))
    program = started(outer)
    try:
        pid = await pid_in(path)
    finally:
        program.kill()
        program.wait(HANG_S)
    async with asyncio.timeout(HANG_S):
        while living([pid]):  # noqa: ASYNC110 - nobody tells of the end of another's processes
            await asyncio.sleep(0.02)
