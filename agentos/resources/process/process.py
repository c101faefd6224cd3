"""Runs one process to its end, and leaves nothing of it.

The process begins a session of its own. Its output is read in chunks and kept within a bound. The run is over when the
process itself has ended and its pipes are drained, for at most drain_s: a grandchild that keeps a pipe open holds
nobody up. What still lives then, or when the run is cancelled, gets SIGTERM, a grace, and SIGKILL over and over until
none is left; descendants that left the group too (see `descendants`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from agentos.resources.account import process_place
from agentos.resources.process.command import Command, ProcessLimits
from agentos.resources.process.family import begun, insist
from agentos.resources.process.output import Output
from agentos.resources.process.partial import attach_partial
from agentos.resources.process.pipes import Reader, Writer

__all__ = ["Command", "Ended", "Listener", "ProcessLimits", "run_process"]


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

    Where processes are bounded it first has a place among them, for the length of the run: raises as `Place.take`. A
    cancellation goes on once every process is gone; `partial_of` it gives what had been printed.
    """
    place = process_place(Path(command.argv[0]).name, kept=False)
    if place is None:
        return await _run(command, limits, listener)
    await place.take()
    try:
        return await _run(command, limits, listener)
    finally:
        place.give_back()


async def _run(command: Command, limits: ProcessLimits, listener: Listener | None) -> Ended:
    run = _Run(command, limits, listener)
    try:
        await run.until_drained()
        if run.has_left_any_behind():
            await insist(run.stop(0))
    except asyncio.CancelledError as error:
        await insist(run.stop(limits.grace_s))
        attach_partial(error, run.out.take_text())
        raise
    finally:
        code = run.close()
    return Ended(code, run.out, run.err)


class _Run:
    """One process with its pipes. `close` gives everything back, in every case."""

    def __init__(self, command: Command, limits: ProcessLimits, listener: Listener | None) -> None:
        self.out, self.err = Output(limits.memory_bytes // 2), Output(limits.error_bytes)
        self._limits = limits
        with begun(command, limits, feed=command.stdin is not None) as (process, self._family):
            pipes = ((process.stdout, self.out), (process.stderr, self.err))
            self._pipes = [
                Reader(pipe, output, listener.pipe() if listener is not None else None) for pipe, output in pipes
            ]
            self._stdin = Writer(process.stdin, command.stdin or b"")

    async def until_drained(self) -> None:
        await asyncio.wait([self._family.ended])
        self._family.reap()
        await self._drain()

    def has_left_any_behind(self) -> bool:
        return self._family.has_left_any()

    async def stop(self, grace_s: float) -> None:
        await self._family.stop(grace_s)
        await self._drain()

    def close(self) -> int:
        """Gives back pipes and descriptors, and takes the exit code."""
        code = self._family.close()
        for pipe in self._pipes:
            pipe.close()
        self._stdin.close()
        return code

    async def _drain(self) -> None:
        await asyncio.wait([pipe.ended for pipe in self._pipes], timeout=self._limits.drain_s)
