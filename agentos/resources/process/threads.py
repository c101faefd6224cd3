"""Threads for sync tools: bounded, kept for the next call, and honest about those that ignore a cancellation.

A thread cannot be stopped from outside. When a call is cancelled its caller goes on at once; the thread is then
*abandoned*: it keeps its slot and stands in `abandoned` until the function returns. Threads are daemons, so that the
end of the process waits for none of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

import anyio

_log = logging.getLogger(__name__)
JOIN_S = 1.0
"""How long `close` waits for one idle thread to end, which takes it microseconds."""


class Abandoned(NamedTuple):
    """A thread that still runs for a call that is over: the tool, and since when (monotonic seconds)."""

    tool: str
    since_s: float


class ToolThreads:
    """At most `size` threads. It belongs to one event loop, and to whoever closes it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots = anyio.CapacityLimiter(size)
        self._idle: list[_Worker] = []
        self._abandoned: dict[_Job, Abandoned] = {}
        self._started = 0
        self._closed = False

    @property
    def abandoned(self) -> tuple[Abandoned, ...]:
        return tuple(self._abandoned.values())

    async def run(self, tool: str, function: Callable[[], Any]) -> Any:
        """What the function returns or raises, with the caller's context variables. Waits for a slot, first come first
        served. On cancellation it returns at once, whatever the function does."""
        job = _Job(function, self._finished)
        await self._slots.acquire_on_behalf_of(job)
        try:
            job.worker = self._idle.pop() if self._idle else self._start()
        except RuntimeError:  # the machine has no thread left
            self._slots.release_on_behalf_of(job)
            raise
        job.worker.jobs.put(job)
        try:
            result, error = await job.outcome
        except asyncio.CancelledError:
            if not job.outcome.done() or job.outcome.cancelled():
                self._abandon(job, tool)
            raise
        if error is not None:
            raise error
        return result

    async def close(self) -> None:
        """Ends the idle threads; an abandoned one ends by itself when its function returns."""
        self._closed = True
        for worker in self._idle:
            worker.jobs.put(None)
        for worker in self._idle:
            worker.thread.join(JOIN_S)
        self._idle.clear()

    def _start(self) -> _Worker:
        self._started += 1
        return _Worker(f"agentos-tool-{self._started}")

    def _abandon(self, job: _Job, tool: str) -> None:
        self._abandoned[job] = Abandoned(tool, time.monotonic())
        if job.worker is not None:
            job.worker.thread.name = f"{job.worker.name}, abandoned by {tool}"
        _log.warning("tool %s goes on in its thread after its call was cancelled; it keeps one of %d", tool, self.size)

    def _finished(self, job: _Job, result: Any, error: BaseException | None) -> None:
        """On the loop, once the thread is free again."""
        self._slots.release_on_behalf_of(job)
        self._abandoned.pop(job, None)
        assert job.worker is not None
        job.worker.thread.name = job.worker.name
        if self._closed:
            job.worker.jobs.put(None)
        else:
            self._idle.append(job.worker)
        if not job.outcome.done():
            job.outcome.set_result((result, error))


class _Job:
    """One function to run. Its outcome is a pair, since a future cannot hold every kind of exception."""

    def __init__(
        self, function: Callable[[], Any], finished: Callable[[_Job, Any, BaseException | None], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.worker: _Worker | None = None
        self._function = function
        self._finished = finished
        self._context = contextvars.copy_context()

    def run(self) -> None:
        result, raised = None, None
        try:
            result = self._context.run(self._function)
        except BaseException as error:
            raised = error
        try:
            self.loop.call_soon_threadsafe(self._finished, self, result, raised)
        except RuntimeError:
            _log.debug("the event loop was closed before an abandoned tool returned; nobody waits for it")


class _Worker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            job.run()
            del job
