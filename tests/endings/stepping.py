"""Stops the task of a call at its n-th await: exactly there, whatever it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from agentos.effects import Runner
from agentos.events.effects import RunCall

CALL = Runner._to_report.__qualname__


class Steps:
    """Counts the awaits of all calls that begin while it is in force; at the one of number `at` it does `then`, once."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then
        self.at = 0
        self.seen = 0

    def begin(self, at: int) -> None:
        self.at, self.seen = at, 0

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """All tasks of the running loop are made by it meanwhile."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        loop.set_task_factory(self._task)
        try:
            yield
        finally:
            loop.set_task_factory(before)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        if work.__qualname__ == CALL and isinstance(work.cr_frame.f_locals["effect"], RunCall):
            work = self._counted(work)
        return asyncio.Task(work, loop=loop, **options)

    async def _counted(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await _Awaits(work, self._step)

    def _step(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            self._then()


class _Awaits:
    """Work that tells of each await before its task waits."""

    def __init__(self, work: Coroutine[Any, Any, Any], step: Callable[[], None]) -> None:
        self._work, self._step = work, step

    def __await__(self) -> Generator[Any, Any, Any]:
        value, error = None, None
        while True:
            try:
                awaited = self._work.send(value) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            self._step()
            value, error = yield from _came_of(awaited)


def _came_of(awaited: Any) -> Generator[Any, Any, tuple[Any, BaseException | None]]:
    """What the task is given for it, or what is raised there: a cancellation too is for the work to hear."""
    try:
        return (yield awaited), None
    except BaseException as error:
        return None, error
