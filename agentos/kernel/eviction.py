"""Which conversations leave memory when there are too many of them, and which of these come back by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from agentos.components import CallState, CallStatus, ConversationState, TurnState
from agentos.effects import Runner
from agentos.errors import KernelClosed
from agentos.ids import CONVERSATION, LogId
from agentos.kernel.dormant import SHORT, Dormant
from agentos.kernel.held import Foreign
from agentos.kernel.loaded import Loaded
from agentos.kernel.tick import Ticker

_log = logging.getLogger(__name__)


class Eviction:
    """Keeps no more than so many in memory, as far as those that are over have nothing to do.

    unload takes one out of memory; load brings one back, however long its store is out of reach.
    """

    def __init__(
        self,
        ticker: Ticker,
        runner: Runner,
        live_max: int,
        unload: Callable[[Loaded], None],
        load: Callable[[LogId], Awaitable[Loaded]],
    ) -> None:
        self._ticker, self._runner, self._live_max = ticker, runner, live_max
        self._unload, self._load = unload, load
        self._due: deque[LogId] = deque()
        self._loading: asyncio.Task[None] | None = None
        self.dormant = Dormant(ticker.clock, self._wake)

    def evict(self) -> None:
        """Lets the longest unused conversations go that have nothing to do; the store has them."""
        over = len(self._ticker.loaded) - self._live_max
        if over <= 0:
            return
        for loaded in list(self._ticker.loaded.values()):
            if over <= 0:
                return
            state = loaded.slice.get(CONVERSATION, ConversationState)
            idle = not (loaded.intake or loaded.asks or loaded.head.new or loaded.flying) and _waits_long(loaded)
            if idle and self._ticker.admission is not None and self._ticker.admission.needs(loaded.log):
                continue
            if idle and state is not None and not self._runner.busy(loaded.log) and not _waits_for_slot(loaded, state):
                if loaded.alarms:
                    due = (loaded.alarms[key].due_at for key in loaded.timers)
                    self.dormant.add(loaded.log, min(due, default=None))
                self._unload(loaded)
                over -= 1

    def _wake(self, log: LogId) -> None:
        """The time that a log which is away waits for has come."""
        self._due.append(log)
        if len(self._due) == 1:
            self._loading = asyncio.get_running_loop().create_task(self._load_due())

    async def _load_due(self) -> None:
        """One after the other; each rings as it is loaded."""
        while self._due:
            log = self._due[0]
            try:
                await self._load(log)
            except (Foreign, KernelClosed):
                self.dormant.discard(log)
            except Exception as error:
                self.dormant.discard(log)
                _log.error("%s has a time to keep and cannot be loaded: %s: %s", log, type(error).__name__, error)
            self._due.popleft()

    def touched(self, loaded: Loaded) -> None:
        """Moves a conversation to the end of the line for eviction."""
        known = self._ticker.loaded
        if len(known) >= self._live_max and loaded.log in known:
            known[loaded.log] = known.pop(loaded.log)

    async def close(self) -> None:
        self.dormant.close()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)


def _waits_long(loaded: Loaded) -> bool:
    """Whether every time that it waits for is one that the kernel keeps for it while it is away."""
    return all(reason not in SHORT for reason, _, _ in loaded.alarms)


def _waits_for_slot(loaded: Loaded, state: ConversationState) -> bool:
    """Whether a call stands in line: the word that its turn has come finds loaded logs alone."""
    turn = loaded.slice.get(state.open_turn, TurnState) if state.open_turn else None
    calls = turn.calls + turn.inner if turn is not None else ()
    return any(
        (c := loaded.slice.get(call, CallState)) is not None and c.status is CallStatus.PROPOSED for call in calls
    )
