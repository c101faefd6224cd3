"""The workers of one toolbox: at most so many at once, and some ready before anybody asks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from agentos.clock import Clock, SystemClock, Timer
from agentos.errors import AgentosError, ResourceAccessTimeout, ResourceClosed
from agentos.resources.account import asked_now
from agentos.resources.kinds.lua.limits import LuaLimits
from agentos.resources.kinds.lua.worker import LuaWorker
from agentos.resources.process.family import insist

_log = logging.getLogger(__name__)

_Place = asyncio.Future["LuaWorker | None"]
"""A place that is waited for: given together with the worker that has to be ended for it, if there is one."""


class LuaWorkers:
    """Makes workers. prepared of them wait, started and never used, for who asks next, once somebody has asked; they are
    ended when nobody does for idle_s.

    A worker that is over workers_max takes the place of the one that ran nothing for longest, whose state is lost. When all
    of them run, it waits in line until one does not.
    """

    def __init__(
        self,
        limits: LuaLimits,
        tools: tuple[str, ...] = (),
        name: str = "lua",
        prepared: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._limits, self._tools, self._prepared = limits, tools, prepared
        self._clock = clock or SystemClock()
        self._taken: dict[LuaWorker, None] = {}
        self._starting = 0
        self._line: deque[_Place] = deque()
        self._ready: list[LuaWorker] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def taken(self) -> list[LuaWorker]:
        """Those that live and were given to somebody, the one used last at the end."""
        return [worker for worker in self._taken if worker.alive]

    async def take(self) -> LuaWorker:
        """A worker that has run nothing yet.

        Errors: ResourceAccessTimeout when workers_max of them run scripts for all of wait_s; ResourceClosed; as
        `LuaWorker.start`.
        """
        self._check_open()
        try:
            given_up = await self._place()
            try:
                if given_up is not None:
                    await given_up.end()
                worker = await self._next()
            finally:
                self._starting -= 1
        except BaseException:
            self._pass_on()
            raise
        if self._closed:
            await worker.end()
        self._check_open()
        worker.idle = self._pass_on
        self._taken[worker] = None
        self._prepare()
        return worker

    def used(self, worker: LuaWorker) -> None:
        """It runs something now, so that others are given up before it is."""
        if worker in self._taken:
            del self._taken[worker]
            self._taken[worker] = None

    async def close(self) -> None:
        """Ends all of them, those too that somebody has; who waits for one is refused. A cancellation goes on when all
        is done."""
        await insist(self._close())

    async def _close(self) -> None:
        self._closed = True
        self._stop_timer()
        for place in self._line:
            if not place.done():
                place.set_exception(ResourceClosed(self.name))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        every = [*self._taken, *self._ready]
        self._taken.clear()
        self._ready.clear()
        await asyncio.gather(_end_all(every), *self._ends)

    def _check_open(self) -> None:
        if self._closed:
            raise ResourceClosed(self.name)

    # Places

    async def _place(self) -> LuaWorker | None:
        """Waits for a place and counts it as starting; gives the worker that had it, if one did. It is taken by nobody."""
        place: _Place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        self._pass_on()
        timer = self._clock.call_later(self._limits.wait_s, lambda: self._expire(place))
        try:
            return await place
        except BaseException:
            await self._hand_back(place)
            raise
        finally:
            timer.cancel()
            if place in self._line:
                self._line.remove(place)

    def _pass_on(self) -> None:
        """Gives places to those in line, as far as there are any."""
        self._taken = dict.fromkeys(self.taken)
        while self._line and not self._closed:
            if self._line[0].done():
                del self._line[0]
                continue
            idle = None
            if len(self._taken) + self._starting >= self._limits.workers_max:
                idle = next((worker for worker in self._taken if not worker.running), None)
                if idle is None:
                    return
                del self._taken[idle]
            self._starting += 1
            self._line.popleft().set_result(idle)

    async def _hand_back(self, place: _Place) -> None:
        """One that was given to somebody who was cancelled at the same time."""
        if place.done() and not place.cancelled() and place.exception() is None:
            self._starting -= 1
            if (idle := place.result()) is not None:
                await idle.end()

    def _expire(self, place: _Place) -> None:
        if not place.done():
            holders = [f"process {worker.pid}" for worker in self._taken]
            limits = self._limits
            place.set_exception(ResourceAccessTimeout(self.name, limits.wait_s, limits.workers_max, holders))

    # Those that are prepared

    async def _next(self) -> LuaWorker:
        while self._ready:
            worker = self._ready.pop()
            if worker.alive:
                return worker
            await worker.end()
        return await LuaWorker.start(self._limits, self._tools, self.name)

    def _prepare(self) -> None:
        """Where processes are bounded none is: it would count on the account of whoever asked last."""
        self._stop_timer()
        if asked_now() is not None:
            return
        if self._prepared:
            self._timer = self._clock.call_later(self._limits.idle_s, self._drop_ready)
        for _ in range(self._prepared - len(self._ready) - len(self._tasks)):
            task = asyncio.ensure_future(self._start_ahead())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _start_ahead(self) -> None:
        try:
            worker = await LuaWorker.start(self._limits, self._tools, self.name)
        except AgentosError as error:  # who needs one makes it then, and is told
            _log.debug("no worker was prepared for %s: %s", self.name, error)
        else:
            self._ready.append(worker)  # to the list of now: those that were idle may have been dropped meanwhile

    def _drop_ready(self) -> None:
        self._timer = None
        task = asyncio.ensure_future(_end_all(self._ready))
        self._ready = []
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _end_all(workers: list[LuaWorker]) -> None:
    await asyncio.gather(*(worker.end() for worker in workers))
