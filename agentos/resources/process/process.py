"""Runs one process to its end, and leaves nothing of it.

The process begins a session of its own. Its output is read in chunks and kept within a bound. The run is over when the
process itself has ended and its pipes are drained, for at most drain_s: a grandchild that keeps a pipe open holds
nobody up. What still lives then, or when the run is cancelled, gets SIGTERM, a grace, and SIGKILL over and over until
none is left; descendants that left the group too (see `descendants`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import anyio
import msgspec

from agentos.resources.process.descendants import (
    Process,
    dead_orphans,
    leaders,
    left_behind,
    reap_if_still,
    signal_group,
    signal_process,
)
from agentos.resources.process.output import CHUNK_BYTES, Output
from agentos.resources.process.partial import attach_partial

_log = logging.getLogger(__name__)
_POLL_S = 0.01


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one run.

    memory_bytes bounds what its output takes, however much is printed: half of it for what is kept of stdout, the rest
    for making that a text. error_bytes are kept of stderr. The process of a cancelled run has grace_s between SIGTERM
    and SIGKILL; what is left when it has ended has leftover_s only. SIGKILL is given kill_s to work. progress_s stands
    between two lines that are told while it runs.
    """

    memory_bytes: int = 16 * 1024 * 1024
    error_bytes: int = 65_536
    drain_s: float = 0.5
    grace_s: float = 2.0
    leftover_s: float = 0.1
    kill_s: float = 5.0
    progress_s: float = 0.5


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. argv[0] is an absolute path; nothing goes through a shell. mark is the value of MARK for its run."""

    argv: list[str]
    environment: dict[str, str]
    cwd: str
    mark: str
    stdin: bytes | None = None


class Listener(Protocol):
    """Hears what a process prints while it runs; see `script.progress`."""

    def pipe(self) -> Callable[[memoryview], None]:
        """What is called with each chunk of one of its pipes, before the chunk's memory is used again. Never raises."""


class Ended(msgspec.Struct, frozen=True):
    """How a process ended: its exit code, or the negative number of the signal that killed it."""

    code: int
    out: Output
    err: Output


async def run_process(command: Command, limits: ProcessLimits, listener: Listener | None = None) -> Ended:
    """Runs a command. Raises OSError when it cannot be started, ValueError when an argument holds a NUL.

    A cancellation goes on once every process is gone; `partial_of` it gives what had been printed.
    """
    run = _Run(command, limits, listener)
    try:
        await run.until_drained()
        if run.left_behind() or run.dead_orphans():
            await _insist(run.stop(0))
    except asyncio.CancelledError as error:
        await _insist(run.stop(limits.grace_s))
        attach_partial(error, run.out.take_text())
        raise
    finally:
        code = run.close()
    return Ended(code, run.out, run.err)


async def _insist(work: Coroutine[Any, Any, None]) -> None:
    """Runs work to its end however often the waiting task is cancelled meanwhile; only then it is cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class _Run:
    """One process with its pipes. `close` gives everything back, in every case."""

    def __init__(self, command: Command, limits: ProcessLimits, listener: Listener | None) -> None:
        self.out, self.err = Output(limits.memory_bytes // 2), Output(limits.error_bytes)
        self._mark, self._limits = command.mark, limits
        self._seen: set[Process] = set()
        self._loop = asyncio.get_running_loop()
        self._process = _spawn(command)
        leaders.add(self._process.pid)
        self._exit = _Exit(self._process)
        pipes = ((self._process.stdout, self.out), (self._process.stderr, self.err))
        self._pipes = [
            _Reader(pipe, output, listener.pipe() if listener is not None else None) for pipe, output in pipes
        ]
        self._stdin = _Writer(self._process.stdin, command.stdin or b"")

    async def until_drained(self) -> None:
        await asyncio.wait([self._exit.ended])  # not the future itself, which a cancellation would end
        self.left_behind()
        await self._drain()

    def left_behind(self) -> set[Process]:
        self._seen |= (found := left_behind(self._process.pid, self._mark, self._seen))
        return found

    def dead_orphans(self) -> set[Process]:
        return dead_orphans(self._process.pid)

    async def stop(self, grace_s: float) -> None:
        """Ends every process of the run; the first one has grace_s for it, the others leftover_s more."""
        try:
            self._signal(signal.SIGTERM)
            await asyncio.wait([self._exit.ended], timeout=grace_s)
            self._signal(signal.SIGTERM)  # again: on the way from fork to exec the first one may get lost
            await self._gone(self._limits.leftover_s)
        finally:
            self._signal(signal.SIGKILL)
        if not await self._gone(self._limits.kill_s, signal.SIGKILL):
            _log.error("processes of %s outlive SIGKILL: %s", self._mark, self._alive())
        if orphans := self.dead_orphans():
            await asyncio.sleep(self._limits.leftover_s)  # whoever started them has taken their exit status by then
            for orphan in orphans:
                reap_if_still(orphan)
        await self._drain()

    def close(self) -> int:
        """Gives back pipes and descriptors, and takes the exit code."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
        for pipe in self._pipes:
            pipe.close()
        self._stdin.close()
        self._exit.close()
        leaders.discard(self._process.pid)
        return self._process.poll() or 0

    async def _drain(self) -> None:
        await asyncio.wait([pipe.ended for pipe in self._pipes], timeout=self._limits.drain_s)

    async def _gone(self, wait_s: float, number: signal.Signals | None = None) -> bool:
        """Whether all have ended within wait_s; signals those that are left again and again when given a signal."""
        deadline = self._loop.time() + wait_s
        while self._alive():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
            if number is not None:
                self._signal(number)
        return True

    def _alive(self) -> list[int]:
        leader = [] if self._exit.ended.done() else [self._process.pid]
        return leader + [process.pid for process in self.left_behind()]

    def _signal(self, number: signal.Signals) -> None:
        """The group comes first: a script that waits for a child shall learn of the signal, not of the child's end. But
        whoever is in no group of ours has to be found while the script still lives, and then is remembered."""
        self.left_behind()
        signal_group(self._process.pid, number)
        for process in self.left_behind():
            signal_process(process, number, but_group=self._process.pid)


def _spawn(command: Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [argument.encode() for argument in command.argv],
        stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=command.cwd,
        env=command.environment,
        start_new_session=True,
    )


class _Exit:
    """Knows when a process has ended, without taking its exit status: until then its number stays its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._fd = -1
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        try:
            self._fd = os.pidfd_open(process.pid)
            self._loop.add_reader(self._fd, self._end)
        except (AttributeError, OSError):  # not on this system, or no descriptor left
            self._poll()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self) -> None:
        if self._process.poll() is None:
            self._timer = self._loop.call_later(_POLL_S, self._poll)
        else:
            self._end()

    def _end(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        if not self.ended.done():
            self.ended.set_result(None)


class _Reader:
    """Moves what comes out of a pipe into an Output, and lets it be heard."""

    def __init__(self, pipe: Any, output: Output, heard: Callable[[memoryview], None] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, self._output, self._heard = pipe, output, heard
        self._buffer = bytearray(CHUNK_BYTES)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._ready)

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)

    def _ready(self) -> None:
        try:
            size = os.readv(self._pipe.fileno(), [self._buffer])
        except BlockingIOError:
            return
        if not size:
            self.close()
            return
        chunk = memoryview(self._buffer)[:size]
        self._output.add(chunk)
        if self._heard is not None:
            self._heard(chunk)


class _Writer:
    """Feeds a process. One that ends or closes its stdin before it has read all is no error."""

    def __init__(self, pipe: Any, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, self._data = pipe, memoryview(data)
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_writer(pipe.fileno(), self._ready)

    def close(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()

    def _ready(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._data[:CHUNK_BYTES]) if self._data else 0
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()
            return
        self._data = self._data[written:]
        if not self._data:
            self.close()
