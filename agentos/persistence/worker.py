"""One thread that does one job after another, and hands each result to the loop that asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Worker:
    """The thread of a store. It is a daemon: a program that ends without closing the store does not wait for it.

    pending counts jobs whose result has not arrived, and places that were given to a waiter and not used yet; it is read
    and changed on the loop alone. queue_max bounds it for those who come by `submit_in_turn`.
    """

    def __init__(self, name: str, queue_max: int | None = None) -> None:
        self.name = name
        self.pending = 0
        self._queue_max = queue_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._last: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None

    @property
    def full(self) -> bool:
        """Whether a job would have to wait for room."""
        return self._queue_max is not None and (self.pending >= self._queue_max or bool(self._waiting))

    async def submit_in_turn(self, work: Callable[[], T], check: Callable[[], None]) -> T:
        """The result of the job, which waits for room first, those who came earlier before it.

        `check` is called once there is room, and what it raises ends the wait.
        """
        if self.full:
            await self._room()
            self.pending -= 1  # the place that was given; submit takes one
        try:
            check()
        except BaseException:
            self._pass_on()
            raise
        return await self.submit(work)

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The job goes on when its future is cancelled; only the result is dropped."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.pending += 1
        self._jobs.put((loop, future, work))
        return future

    def stop(self, last: Callable[[], object] | None = None) -> None:
        """Ends the thread after the jobs that it has and a last one, whose result nobody waits for."""
        self._last = last
        if self._thread is not None:
            self._jobs.put(None)
        elif last is not None:
            last()

    async def _room(self) -> None:
        """Returns with a place counted in `pending`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with contextlib.suppress(ValueError):  # passed over already
                    self._waiting.remove(waiter)
            else:
                self.pending -= 1
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Gives a place that came free to whoever waits longest."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.pending += 1
                waiter.set_result(None)
                return

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, work = job
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed first: nobody waits
                loop.call_soon_threadsafe(self._deliver, future, result, error)
            del job, loop, future, work, result, error
        if self._last is not None:
            self._last()

    def _deliver(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self.pending -= 1
        self._pass_on()
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
