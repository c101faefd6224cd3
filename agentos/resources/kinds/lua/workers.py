"""The workers of one toolbox: at most so many at once, and some ready before anybody asks."""

from __future__ import annotations

import asyncio
import logging

from agentos.errors import AgentosError, ResourceBusy, ResourceClosed
from agentos.resources.kinds.lua.limits import LuaLimits
from agentos.resources.kinds.lua.worker import LuaWorker

_log = logging.getLogger(__name__)


class LuaWorkers:
    """Makes workers. prepared of them wait, started and never used, for who asks next, once somebody has asked.

    A worker that is over workers_max takes the place of the one that ran nothing for longest, whose state is lost.
    """

    def __init__(self, limits: LuaLimits, tools: tuple[str, ...] = (), name: str = "lua", prepared: int = 1) -> None:
        self.name = name
        self._limits, self._tools, self._prepared = limits, tools, prepared
        self._taken: dict[LuaWorker, None] = {}
        self._starting = 0
        self._ready: list[LuaWorker] = []
        self._tasks: set[asyncio.Task[None]] = set()
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

        Errors: ResourceBusy when workers_max of them run scripts now; ResourceClosed; as `LuaWorker.start`.
        """
        self._check_open()
        self._starting += 1
        try:
            await self._make_room()
            worker = await self._next()
        finally:
            self._starting -= 1
        try:
            self._check_open()
        except ResourceClosed:
            await worker.end()
            raise
        self._taken[worker] = None
        self._prepare()
        return worker

    def used(self, worker: LuaWorker) -> None:
        """It runs something now, so that others are given up before it is."""
        if worker in self._taken:
            del self._taken[worker]
            self._taken[worker] = None

    async def close(self) -> None:
        """Ends all of them, those too that somebody has."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        every = [*self._taken, *self._ready]
        self._taken.clear()
        self._ready.clear()
        await asyncio.gather(*(worker.end() for worker in every))

    def _check_open(self) -> None:
        if self._closed:
            raise ResourceClosed(self.name)

    async def _make_room(self) -> None:
        self._taken = dict.fromkeys(self.taken)
        while len(self._taken) + self._starting > self._limits.workers_max:
            idle = next((worker for worker in self._taken if not worker.running), None)
            if idle is None:
                holders = [f"process {worker.pid}" for worker in self._taken]
                raise ResourceBusy(self.name, self._limits.workers_max, holders)
            del self._taken[idle]
            await idle.end()

    async def _next(self) -> LuaWorker:
        while self._ready:
            worker = self._ready.pop()
            if worker.alive:
                return worker
            await worker.end()
        return await LuaWorker.start(self._limits, self._tools, self.name)

    def _prepare(self) -> None:
        for _ in range(self._prepared - len(self._ready) - len(self._tasks)):
            task = asyncio.ensure_future(self._start_ahead())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _start_ahead(self) -> None:
        try:
            self._ready.append(await LuaWorker.start(self._limits, self._tools, self.name))
        except AgentosError as error:  # who needs one makes it then, and is told
            _log.debug("no worker was prepared for %s: %s", self.name, error)
