"""What a kernel looks at from time to time: what others wrote for it, edited files, and what dead processes left."""

from __future__ import annotations

import asyncio
import logging

from agentos.clock import Clock
from agentos.errors import StoreUnavailable
from agentos.kernel.following import Following
from agentos.kernel.logs import Logs
from agentos.kernel.recovery import Recovery
from agentos.kernel.sweeping import Sweeping
from agentos.persistence.base import Store
from agentos.settings import Settings

_log = logging.getLogger(__name__)
FROZEN_S = 5.0
"""A kernel that did not run for so long may have been taken for dead."""


class Polling:
    """The tasks that look, from the opening of a kernel to its close; each has its own pace in the settings."""

    def __init__(
        self,
        store: Store,
        logs: Logs,
        following: Following,
        recovery: Recovery,
        sweeping: Sweeping,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store, self._logs, self._following, self._recovery = store, logs, following, recovery
        self._sweeping = sweeping
        self._clock, self._settings = clock, settings
        self._tasks: list[asyncio.Task[None]] = []
        self._recovering: asyncio.Task[None] | None = None
        self._looks_at_files = self._sweeps = False

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._look_at_store()))
        if (every_s := self._settings.recover_poll_s) is not None:
            self._recovering = loop.create_task(self._recovery.keep_looking(every_s))

    async def take_up_no_more(self) -> None:
        """What dead processes left is for others from here on; words for conversations of this kernel are still read."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def watch_files(self) -> None:
        """From the first thing on that there is to look at."""
        if self._settings.follow_files and not self._looks_at_files and self._following.anything:
            self._looks_at_files = True
            self._tasks.append(asyncio.get_running_loop().create_task(self._look_at_files()))

    def sweep(self) -> None:
        """From the first agent on whose conversations are erased after a time."""
        if (every_s := self._settings.retention_sweep_s) > 0 and not self._sweeps:
            self._sweeps = True
            self._tasks.append(asyncio.get_running_loop().create_task(self._sweeping.keep_sweeping(every_s)))

    async def _look_at_store(self) -> None:
        """Sees what other processes wrote for us, and took from us; a store that is out of reach is asked again."""
        poll_s = self._settings.inbox_poll_ms / 1000
        behind = doubtful = False
        while True:
            began = self._clock.monotonic()
            await self._clock.sleep(poll_s)
            doubtful = doubtful or self._clock.monotonic() - began > poll_s + FROZEN_S
            try:
                if doubtful:
                    await self._logs.let_go_of_lost()
                    doubtful = False
                behind = self._store.changed() or behind
                if behind:
                    await self._logs.poll()
                    behind = False
            except StoreUnavailable:
                doubtful = True

    async def _look_at_files(self) -> None:
        """For turns that begin with no word of this process: delegated ones, and those of the inbox."""
        while True:
            await self._clock.sleep(self._settings.reload_poll_s)
            try:
                await self._following.refresh(None)
            except StoreUnavailable:
                continue
            except Exception as error:
                _log.warning("edited files could not be taken up: %s: %s", type(error).__name__, error)
