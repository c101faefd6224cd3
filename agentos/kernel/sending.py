"""Sending by way of the store: an item is put into the inbox of a log, and whoever owns the log takes it from there."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from agentos.clock import Clock
from agentos.errors import ConversationBusy, ConversationClosed, ConversationErased
from agentos.events.entry import Registry
from agentos.events.intake import Input, Item
from agentos.events.kinds import InputReceived
from agentos.ids import LogId, name_of
from agentos.journal import decode_units
from agentos.kernel.held import Foreign
from agentos.kernel.inbox_items import inbox_row
from agentos.kernel.loaded import Loaded
from agentos.kernel.logs import Logs
from agentos.kernel.owners import busy_elsewhere
from agentos.persistence.base import Store
from agentos.settings import Settings

POLLS_OF_A_SENDER = 10
"""How often, within inbox_poll_ms, a sender asks whether its input was taken."""
POLLS_PER_LOOK = 50
"""After so many of these it looks whether the owner has died: a look is a write."""


class Sending:
    """Puts items into inboxes, and waits until they are taken.

    check_open raises KernelClosed once nothing is taken in any more. accepting gives a log of this kernel that takes
    another input, and raises why it does not.
    """

    def __init__(
        self,
        store: Store,
        logs: Logs,
        registry: Registry,
        clock: Clock,
        settings: Settings,
        check_open: Callable[[], None],
        accepting: Callable[[LogId], Awaitable[Loaded]],
    ) -> None:
        self._store, self._logs, self._registry = store, logs, registry
        self._clock, self._settings = clock, settings
        self._check_open, self._accepting = check_open, accepting

    async def hand_over(self, log: LogId, key: str, item: Item) -> int:
        """The seq of the end of the unit with which the owner of a log, another process, took an item, 0 when it has not
        within inbox_wait_s. Raises ConversationBusy, ConversationErased."""
        await self.post(log, key, item)
        return await self._until_taken(log, key)

    async def drop_late(self, log: LogId) -> None:
        """What was posted to an erased log by somebody who did not know of it yet; its owner, or this kernel, drops it."""
        late = await self._store.inbox(log)
        if late:
            await self._take_over(log)
        for row in late:
            await self._until_taken(log, row.key)

    async def send(self, log: LogId, key: str, text: str, ephemeral: bool) -> int:
        """By way of the store, which remembers the key; whoever owns the log takes it.

        Errors: ConversationBusy when the owner, another process, has not taken it within inbox_wait_s.
        """
        item = Input(text=text, ephemeral=ephemeral, key=name_of(key))
        inbox_key = f"input:{item.key}"
        await self._post_input(log, inbox_key, item)
        end = await self._until_taken(log, inbox_key)
        if not end:
            raise await busy_elsewhere(self._store, log, key)
        return await self._input_in_unit(log, end, item)

    async def _until_taken(self, log: LogId, key: str) -> int:
        """The seq of the end of the unit that took an item, 0 when none has within inbox_wait_s."""
        poll_s = self._settings.inbox_poll_ms / 1000 / POLLS_OF_A_SENDER
        until = self._clock.monotonic() + self._settings.inbox_wait_s
        polls = 0
        while not (end := await self._store.inbox_seq(log, key)):
            if self._clock.monotonic() >= until:
                return 0
            polls += 1
            if polls % POLLS_PER_LOOK == 0:
                await self._take_over(log)
            await self._clock.sleep(poll_s)
            self._check_open()
        return end

    async def _post_input(self, log: LogId, key: str, item: Input) -> None:
        """An input that stands in the inbox already is not refused, however much stands there."""
        is_known = await self._store.inbox_seq(log, key) is not None
        try:
            await (self._logs.get(log) if is_known else self._accepting(log))
        except Foreign:
            await self.post(log, key, item)
            return
        if await self._store.post(inbox_row(log, key, item)):
            self._logs.route(log, item, key)

    async def _take_over(self, log: LogId) -> None:
        """When the owner has died, what it did not take is taken here."""
        with contextlib.suppress(Foreign):
            await self._logs.get(log)
            await self._logs.take_inbox(log)

    async def _input_in_unit(self, log: LogId, end: int, item: Input) -> int:
        """The seq of an input's entry in the unit that took it. Raises ConversationClosed when the unit dropped it, or
        ConversationErased."""
        (last,) = await self._store.entries(log, end - 1, end)
        stored = await self._store.entries(log, last.unit - 1, end)
        for unit in decode_units(log, stored, self._registry):
            for entry in unit:
                if isinstance(entry.data, InputReceived) and entry.data.key == item.key:
                    return entry.seq
        row = await self._store.log(log)
        if row is not None and row.erased_at is not None:
            raise ConversationErased(log, row.erased_at)
        raise ConversationClosed(log)

    async def post(self, log: LogId, key: str, item: Item) -> bool:
        """Into the inbox, unless it is full. Raises ConversationBusy, ConversationErased."""
        row = await self._store.log(log)
        if row is not None and row.erased_at is not None:
            raise ConversationErased(log, row.erased_at)
        if await self._store.inbox_seq(log, key) is None:
            waiting = len(await self._store.inbox(log))
            if waiting >= self._settings.inbox_max:
                raise ConversationBusy(log, waiting)
        return await self._store.post(inbox_row(log, key, item))
