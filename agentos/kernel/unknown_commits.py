"""Units of which nobody knows whether they are stored: the connection was lost at the commit, or the store was gone.

The head of the log tells, once the store can be read again. Until then the conversation stays as it is; who waits for what
the unit brings is told after a while that nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentos.clock import Clock
from agentos.errors import StoreUnavailable
from agentos.kernel.flight import InFlight
from agentos.kernel.landing import Landing
from agentos.kernel.waiters import Waiters
from agentos.persistence.base import LogRow, Store

STORE_RETRY_S = 0.5
"""How long the kernel waits before it asks a store again that was not there."""


class UnknownCommits:
    """Finds out, each unit by itself. known is called whenever one of them has come to its end.

    unknown_commit_s: how long those who wait are not told.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        landing: Landing,
        waiters: Waiters,
        unknown_commit_s: float,
        known: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._landing, self._waiters = store, clock, landing, waiters
        self._unknown_commit_s, self._known = unknown_commit_s, known
        self._finding: set[asyncio.Task[None]] = set()

    def find_out(self, running: InFlight, writer: int, error: StoreUnavailable | None = None) -> None:
        """error: the store was not there to begin with."""
        task = asyncio.get_running_loop().create_task(self._look(running, writer, error))
        self._finding.add(task)
        task.add_done_callback(self._finding.discard)

    async def _look(self, running: InFlight, writer: int, error: StoreUnavailable | None) -> None:
        """What became of a unit, when the connection was lost at the commit: the head of its log tells."""
        row, unit = await self._row_of(running, error), running.sealed.unit
        if row is None or (row.owner == writer and row.digest == unit.previous):
            if error is not None:
                self._tell(running, error)
                await self._clock.sleep(STORE_RETRY_S)  # it can be read, which does not mean that it can be written
            self._landing.not_stored(running)
        elif row.owner == writer and row.digest == unit.digest:
            try:
                self._landing.stored(running)
            except Exception as failure:
                self._landing.broke(running, failure)
        else:
            self._landing.lost(running)
        self._known()

    async def _row_of(self, running: InFlight, error: StoreUnavailable | None) -> LogRow | None:
        """The log as it is stored, however long that takes; who waits for the unit is told when it takes too long."""
        untold = error or StoreUnavailable(self._store.url, "it is gone, and nobody knows yet what it has stored")
        timer = self._clock.call_later(self._unknown_commit_s, lambda: self._tell(running, untold))
        try:
            while True:
                try:
                    return await self._store.log(running.loaded.log)
                except StoreUnavailable:
                    await self._clock.sleep(STORE_RETRY_S)
        finally:
            timer.cancel()

    def _tell(self, running: InFlight, error: StoreUnavailable) -> None:
        """Who waits for what a unit brings learns that it is not stored, or that nobody knows."""
        for item in running.view.taken:
            self._waiters.tell(item, error)
        self._waiters.begun(running.loaded, error)

    async def close(self) -> None:
        for task in self._finding:
            task.cancel()
        await asyncio.gather(*self._finding, return_exceptions=True)
