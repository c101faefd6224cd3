"""A process that was started, and whose pipes cannot be taken up, is ended at once: nobody else would ever end it."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from typing import Any

import pytest

from agentos.resources.account import borne_by
from agentos.resources.process.command import Command, ProcessLimits
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.process import run_process
from tests.bounds.ledger import Counted

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def command(**more: Any) -> Command:
    return Command(argv=SLEEPS, environment=dict(os.environ), cwd="/", mark="unfollowed", **more)


def children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(file.read().split())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class Full:
    """An event loop that takes up no more after so many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = taken
        for name in ("add_reader", "add_writer"):
            monkeypatch.setattr(self._loop, name, self._counted(getattr(self._loop, name)))

    def _counted(self, add: Any) -> Any:
        def do(fd: int, *arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise OSError(errno.ENOSPC, "no more can be watched")
            return add(fd, *arguments)

        return do


async def live(here: Counted) -> None:
    with borne_by(here.account()):
        place = await here.place(here.account(), used=False).take()
        process = LiveProcess(command(), ProcessLimits(), lambda chunk: None, 1_000, place)
        await process.end(at_once=True)


async def run(here: Counted) -> None:
    with borne_by(here.account()):
        await run_process(command(stdin=b"words"), ProcessLimits())


@pytest.mark.parametrize("taken", [1, 2])
@pytest.mark.parametrize("begin", [live, run])
async def test_what_cannot_be_followed_is_ended_and_gives_all_back(
    begin: Any, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Counted(program=1)
    await live(here)  # whatever is made once is there
    before = (children(), open_files())
    with monkeypatch.context() as patched:
        Full(patched, taken)
        with pytest.raises(OSError, match="no more can be watched"):
            await begin(here)

    assert (children(), open_files()) == before
    assert here.ledger.uses() == []
    await live(here)
