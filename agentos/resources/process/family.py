"""A process with all that descends from it, and how that is ended: SIGTERM, a grace, SIGKILL until none is left."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from agentos.resources.process.command import Command, ProcessLimits, spawn
from agentos.resources.process.descendants import (
    Kin,
    dead_orphans,
    leaders,
    left_behind,
    reap_if_still,
    signal_group,
    signal_process,
)
from agentos.resources.process.pipes import POLL_S, Exit
from agentos.resources.process.survivors import Process
from agentos.resources.process.tags import Tag
from agentos.resources.process.warden import WARDEN

_log = logging.getLogger(__name__)


@contextmanager
def begun(command: Command, limits: ProcessLimits, *, feed: bool) -> Iterator[tuple[subprocess.Popen[bytes], Family]]:
    """Starts a command whose pipes are taken up in the block. When that fails, where no descriptor is left, say, nobody
    would ever end it: it is killed at once. Raises as `spawn` does, and what the block raises."""
    with WARDEN.birth() as tag:
        process = spawn(command, feed=feed)
    family: Family | None = None
    try:
        family = Family(process, tag, command.mark, limits)
        yield process, family
    except BaseException:
        signal_group(process.pid, signal.SIGKILL)
        _close_pipes(process)
        process.wait()
        if family is not None:
            family.close()
        raise


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    loop = asyncio.get_running_loop()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            loop.remove_reader(pipe.fileno())
            loop.remove_writer(pipe.fileno())
            pipe.close()


class Family:
    """A process that began a session of its own, and its descendants, those too that left the session.

    It was born with the tag; mark is the value of MARK in its environment. `close` gives back what is held of it, in
    every case.
    """

    def __init__(self, process: subprocess.Popen[bytes], tag: Tag, mark: str, limits: ProcessLimits) -> None:
        self._process, self._limits = process, limits
        self._kin = Kin(process.pid, WARDEN.follow(process.pid, tag), mark)
        self._loop = asyncio.get_running_loop()
        self._seen: set[Process] = set()
        leaders.add(process.pid)
        self._exit = Exit(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the first process has ended. Not to be awaited itself: a cancellation would end it."""
        return self._exit.ended

    def reap(self) -> None:
        """Takes the exit status of descendants that were left to us and have ended, and remembers those that live."""
        self._look()

    def has_left_any(self) -> bool:
        """Whether there are others beside the first one, or may be: where nothing can be seen now, nobody is gone."""
        return not self._look() or bool(self._seen or dead_orphans(self._kin))

    async def stop(self, grace_s: float) -> None:
        """Ends every process; the first one has grace_s for it, the others leftover_s more."""
        try:
            self._signal(signal.SIGTERM)
            await asyncio.wait([self.ended], timeout=grace_s)
            self._signal(signal.SIGTERM)  # again: on the way from fork to exec the first one may get lost
            await self._gone(self._limits.leftover_s)
        finally:
            self._signal(signal.SIGKILL)
        if not await self._gone(self._limits.kill_s, signal.SIGKILL):
            words = "processes of %s outlive SIGKILL by %g s (kill_s): %s"
            _log.error(words, self._kin.mark, self._limits.kill_s, self._alive())
        if orphans := dead_orphans(self._kin):
            await asyncio.sleep(self._limits.leftover_s)  # whoever started them has taken their exit status by then
            for orphan in orphans:
                reap_if_still(orphan)

    def close(self) -> int:
        """Takes the exit code: negative is the number of the signal that killed it, or will once the system lets it end."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
        self._exit.close()
        leaders.discard(self._process.pid)
        WARDEN.forget(self._kin.tag)
        code = self._process.poll()
        return -signal.SIGKILL if code is None else code

    async def _gone(self, wait_s: float, number: signal.Signals | None = None) -> bool:
        """Whether all have ended within wait_s; signals those that are left again and again when given a signal."""
        deadline = self._loop.time() + wait_s
        while self._alive():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL_S)
            if number is not None:
                self._signal(number)
        return True

    def _alive(self) -> list[int | str]:
        leader = [] if self.ended.done() else [self._process.pid]
        unseen = [] if self._look() else ["any that cannot be seen, since no descriptor is left"]
        return [*leader, *unseen, *(process.pid for process in self._seen)]

    def _look(self) -> bool:
        """Finds those that live beside the first one, and reaps what is ours to reap; whether they could be seen."""
        try:
            self._seen = left_behind(self._kin, self._seen)
        except OSError as error:
            _log.debug("the processes of %s cannot be seen now: %s", self._kin.mark, error)
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        """The group comes first: a script that waits for a child shall learn of the signal, not of the child's end. But
        whoever is in no group of ours has to be found while the script still lives, and then is remembered."""
        self._look()
        signal_group(self._process.pid, number)
        self._look()
        for process in self._seen:
            signal_process(process, number, but_group=self._process.pid)


async def insist(work: Coroutine[Any, Any, None]) -> None:
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
