"""What a kernel that is killed leaves behind: nothing, though none of its processes ends by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentos.testing.leaks import leak_meter
from tests.resources.hostile import living
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there the processes of a dead one can be found")

HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
ROOT = Path(__file__).parents[2]


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.resources.mortal_kernel", str(folder)], cwd=ROOT)


def numbers(path: Path) -> list[int]:
    return [int(number) for number in json.loads(path.read_text())]


async def until_gone(pids: list[int]) -> None:
    async with asyncio.timeout(HANG_S):
        while living(pids):  # noqa: ASYNC110 - nobody tells of the end of another's processes
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_all_processes_of_a_kernel_that_is_killed_are_gone(tmp_path: Path, number: signal.Signals) -> None:
    """Of a script that ignores SIGTERM and its runaway, of a kept process, of a server that is stopped, and of Lua."""
    async with leak_meter():
        kernel = started(tmp_path)
        try:
            await until(lambda: (tmp_path / "pids").exists() or kernel.poll() is not None)
            warden, lua, *pids = numbers(tmp_path / "pids")
            before = living(pids)
        finally:
            os.kill(kernel.pid, number)
            code = await asyncio.to_thread(kernel.wait, HANG_S)
        await until_gone(pids)

    assert code == -number
    assert warden in pids
    assert lua >= 1
    assert len(before) == len(pids) >= 6
