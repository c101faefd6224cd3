"""Takes up what dead processes left: at a word, and from time to time when the settings say so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection

from agentos.components import CallState, CallStatus
from agentos.errors import ConversationHeld, StoreUnavailable, UnknownConversation
from agentos.ids import LogId
from agentos.kernel.held import Foreign
from agentos.kernel.loaded import Loaded
from agentos.kernel.logs import Logs
from agentos.kernel.tick import Ticker
from agentos.persistence.base import Store

_log = logging.getLogger(__name__)


class Recovery:
    """Looks for open turns, waiting inputs and inboxes without a living owner. ask_port asks the approval port of this
    process about a call of a log that is here now."""

    def __init__(self, store: Store, logs: Logs, ticker: Ticker, ask_port: Callable[[Loaded, int], None]) -> None:
        self._store, self._logs, self._ticker, self._ask_port = store, logs, ticker, ask_port
        self._unbegun: set[str] = set()
        self.agents: frozenset[str] | None = None
        """Whose conversations are taken up; None for all."""

    async def recover(self, only: Collection[str] | None = None) -> list[LogId]:
        """The logs that had an open turn, or have one now, of those that no living process of others owns."""
        found = [log for log in await self._store.open_logs() if only is None or log in only]
        return [LogId(log) for log in found if await self._is_wanted(log) and await self._take_up(LogId(log))]

    async def keep_looking(self, every_s: float) -> None:
        """Takes up what dies from here on. A store that is out of reach is asked again; a log that cannot be taken up is
        told, and holds up no others."""
        while True:
            await self._ticker.clock.sleep(every_s)
            with contextlib.suppress(StoreUnavailable):
                for log in await self._left_behind():
                    await self._try(log)

    async def _try(self, log: LogId) -> None:
        try:
            await self._take_up(log)
        except StoreUnavailable:
            raise
        except Exception as error:
            _log.error("%s was left behind and cannot be taken up: %s: %s", log, type(error).__name__, error)

    async def _left_behind(self) -> list[LogId]:
        """Open logs whose owner is dead. A child that nobody has begun counts when it was so the last time, too: it may
        be on its way."""
        living = {writer.n for writer in await self._store.writers() if writer.alive}
        unbegun, found = self._unbegun, []
        self._unbegun = set()
        for log in await self._store.open_logs():
            if LogId(log) in self._logs.mine:
                continue
            row = await self._store.log(log)
            if row is None:
                self._unbegun.add(log)
            if (row.owner not in living if row is not None else log in unbegun) and await self._is_wanted(log):
                found.append(LogId(log))
        return found

    async def _is_wanted(self, log: str) -> bool:
        """One that has not begun is the task of a delegation, which is wanted when whoever asks is: it is taken up."""
        if self.agents is None:
            return True
        rows = (await self._store.query("select agent from conversations where id = ?", (log,))).rows
        return not rows or rows[0][0] in self.agents

    async def _take_up(self, log: LogId) -> bool:
        """Whether a turn of it was open, or is now; a short one may have ended already."""
        try:
            loaded = await self._logs.get(log)
        except (Foreign, ConversationHeld):
            return False
        except UnknownConversation:
            loaded = None
        await self._logs.take_inbox(log)
        if loaded is None or not (loaded.resumed or self._logs.goes_on(loaded)):
            return False
        children = []
        for call in list(loaded.slice.rows):
            self._ask_port(loaded, call)
            state = loaded.slice.get(call, CallState)
            if state is not None and state.child is not None and state.status is CallStatus.STARTED:
                children.append(LogId(state.child))
        await asyncio.sleep(0)  # many that are parked leave memory again, once their first pass was made
        self._logs.eviction.evict()
        for child in children:
            await self._take_up(child)  # its task may wait there for a turn that could not begin
        return True
