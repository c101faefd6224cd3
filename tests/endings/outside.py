"""A process that has resources, started and looked at from outside: what runs below it, and what it leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from tests.support import until

ROOT = Path(__file__).parents[2]
HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""


class Outside:
    """A process in a session of its own, as a terminal starts one. below are the processes that it has started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.below: list[psutil.Process] = []

    async def until_held(self, kinds: Sequence[str]) -> None:
        """Until it has said of all of these that it has them."""
        missing = {f"held {kind}" for kind in kinds}
        assert self._process.stdout is not None
        while missing:
            line = (await asyncio.wait_for(self._process.stdout.readline(), HANG_S)).decode()
            assert line, f"it ended, and {missing} were not held:\n{(await self.ended())[1]}"
            missing.discard(line.strip())
        self.below = psutil.Process(self._process.pid).children(recursive=True)

    def press_ctrl_c(self) -> None:
        """As a terminal does: all of its group are told."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Itself alone, as kill -9 does."""
        self._process.kill()

    async def ended(self) -> tuple[int, str]:
        """Its exit code, negative for a signal, and what it said on stderr."""
        _, said = await asyncio.wait_for(self._process.communicate(), HANG_S)
        assert self._process.returncode is not None
        return self._process.returncode, said.decode()

    async def until_nothing_runs_below(self) -> None:
        """Until all has ended that it had started."""
        await until(lambda: not any(map(_runs, self.below)))


@asynccontextmanager
async def outside(*words: str, cwd: Path = ROOT) -> AsyncIterator[Outside]:
    """Python with these words; it is killed at the end of the block, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    running = Outside(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for left in filter(_runs, running.below):
            left.kill()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def sockets_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_socket()]
