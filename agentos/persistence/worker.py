"""One thread that does one job after another, and hands each result to the loop that asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Worker:
    """The thread of a store. It is a daemon: a program that ends without closing the store does not wait for it.

    pending counts jobs whose result has not arrived; it is read and changed on the loop alone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pending = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._last: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None

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
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
