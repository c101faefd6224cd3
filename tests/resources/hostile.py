"""Programs that do not end when they should, and that shed whatever tells where they came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from agentos.resources.process.survivors import stat_of
from tests.support import until

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def tell(path):
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
"""
RUNAWAY = (
    STUBBORN
    + """
def run_away(path, lasts_s=1000):
    "In a session of its own, without a parent, an environment, a pipe or a folder that would tell on it."
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.closerange(0, 64)
            source = MINE + f"\\ntell({path!r})\\ntime.sleep({lasts_s})"
            os.execve(sys.executable, ["sh", "-c", source], {})
        os._exit(0)
    os.wait()
"""
)
"""Defines run_away; the name of its process says nothing either."""


def python(source: str) -> str:
    """A source that may use the above."""
    return f"MINE = {STUBBORN!r}\n{RUNAWAY}\n{source}"


async def pid_in(path: Path) -> int:
    """What a hostile process told of itself, once it is there."""
    await until(path.exists)
    return read_pid(path)


def read_pid(path: Path) -> int:
    return int(path.read_text())


def living(pids: Iterable[int]) -> list[int]:
    stats = [stat_of(pid) for pid in pids]
    return [stat.process.pid for stat in stats if stat is not None and stat.state not in "ZX"]


def argv(source: str) -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", python(source)]
