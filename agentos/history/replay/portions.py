"""The logs of a store in portions, which processes of their own decide again side by side; results come in order.

Each process opens the store by its URL, reads, and writes nothing. It gets the URL and its work on stdin, since what stands
on a command line is seen by all, and it ends when stdin does: none outlives the one that began it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from agentos.errors import StoreError
from agentos.history.replay.log import replay_all
from agentos.history.replay.results import Replayed
from agentos.history.replay.worker import MODULE, Begin, Did, Failed, Heard, Portion
from agentos.persistence import open_store
from agentos.persistence.base import LogRow
from agentos.secrets import without_password

PORTION_ENTRIES = 5_000
"""About how many entries a process is given at once."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""How long one answer of a process may be: a divergence holds bodies."""

_decode = msgspec.json.Decoder(Heard).decode


async def replay_in_processes(url: str, jobs: int | None = None) -> AsyncGenerator[Replayed, None]:
    """Replays every log of the store at this URL, oldest first, in so many processes; by default one for each core.

    One job is done in this process. What ends the iteration early ends all processes before it is over.
    Errors: StoreError; ConfigurationError for a URL that is none.
    """
    store = open_store(url)
    try:
        portions = list(portions_of(await store.logs()))
        count = min(jobs or cores(), len(portions))
        if count < 2:
            async with contextlib.aclosing(replay_all(store)) as results:
                async for result in results:
                    yield result
            return
    finally:
        await store.close()
    pool = _Pool(url, portions, count)
    try:
        for waiting in pool.results:
            for result in await waiting:
                yield result
    finally:
        await asyncio.shield(pool.close())


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def portions_of(rows: Sequence[LogRow], entries: int = PORTION_ENTRIES) -> Iterator[list[str]]:
    """The names of logs in order, so many that they have about as many entries."""
    portion: list[str] = []
    size = 0
    for row in rows:
        portion.append(row.id)
        size += row.seq - row.upto
        if size >= entries:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


class _Pool:
    """Processes that take one portion after the other. results stand in the order of the portions."""

    def __init__(self, url: str, portions: Sequence[Sequence[str]], count: int) -> None:
        loop = asyncio.get_running_loop()
        self._url = url
        self.results: list[asyncio.Future[list[Replayed]]] = [loop.create_future() for _ in portions]
        self._processes: list[Process] = []
        self._left = iter(list(zip(self.results, portions, strict=True)))
        self._tasks = [loop.create_task(self._drive()) for _ in range(count)]

    async def close(self) -> None:
        """Ends what still works, and waits until it is gone. Tasks first: one may be about to begin a process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._processes:
            await _end(process)
        for waiting in self.results:
            if not waiting.cancel():
                waiting.exception()  # it was told already, by the first one that failed

    async def _drive(self) -> None:
        """What one process does; its failure is told at the portion that it had."""
        process: Process | None = None
        for waiting, portion in self._left:
            try:
                process = process or await self._begin()
                waiting.set_result(await self._ask(process, portion))
            except Exception as error:  # who waits for the portion is to be told, whatever it is
                waiting.set_exception(_as_store_error(self._url, error))
                return

    async def _begin(self) -> Process:
        """A process in a session of its own: Ctrl-C reaches the one that began it alone."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, stdin=PIPE, stdout=PIPE, start_new_session=True, limit=LINE_BYTES_MAX
        )
        self._processes.append(process)
        _tell(process, Begin(url=self._url))
        return process

    async def _ask(self, process: Process, portion: Sequence[str]) -> list[Replayed]:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        _tell(process, Portion(logs=list(portion)))
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise OSError(f"a process that replays ended with code {await process.wait()}")
        heard = _decode(line)
        if isinstance(heard, Failed):
            raise StoreError(heard.error)
        assert isinstance(heard, Did)
        return heard.results


def _tell(process: Process, words: Begin | Portion) -> None:
    assert process.stdin is not None, "it is a pipe"
    process.stdin.write(msgspec.json.encode(words) + b"\n")


async def _end(process: Process) -> None:
    """It only reads, so nothing is lost with it."""
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        process.kill()
    await process.wait()


def _as_store_error(url: str, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"{without_password(url)}: a process that replays failed: {type(error).__name__}: {error}")
