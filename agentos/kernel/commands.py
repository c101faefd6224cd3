"""Commands of clients: inputs, answers, cancels. Each is an entry by the one road; nobody waits on a handler."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

import msgspec

from agentos.clock import Clock
from agentos.components import (
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    Resolution,
    TurnConfig,
    Verdict,
)
from agentos.effects import Runner
from agentos.errors import (
    AlreadyResolved,
    ConfigurationError,
    ConversationBusy,
    ConversationClosed,
    ConversationErased,
    ConversationHeld,
    InputRefused,
    KernelClosed,
)
from agentos.events.entry import Registry
from agentos.events.intake import Answer, Cancel, Control, ControlItem, Erase, Input, Item
from agentos.events.kinds import InputReceived
from agentos.ids import CONVERSATION, CallId, LogId, Name, log_and_seq, name_of
from agentos.journal import decode_units
from agentos.kernel.doubts import resolve_item
from agentos.kernel.loaded import Loaded, Ticket
from agentos.kernel.logs import Foreign, Logs, inbox_row
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.owners import busy_elsewhere
from agentos.kernel.tick import Ticker
from agentos.kernel.waiters import unheard
from agentos.persistence.base import Store
from agentos.settings import Settings

POLLS_OF_A_SENDER = 10
"""How often, within inbox_poll_ms, a sender asks whether its input was taken."""
POLLS_PER_LOOK = 50
"""After so many of these it looks whether the owner has died: a look is a write."""
BLANK = "\u200b\u200c\u200d\ufeff \t\r\n\v\f\u00a0\u3000"


class Commands:
    """Takes commands for logs of this kernel, and passes those for others on by the inbox."""

    def __init__(
        self,
        store: Store,
        ticker: Ticker,
        logs: Logs,
        runner: Runner,
        registry: Registry,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store, self._ticker, self._logs, self._runner = store, ticker, logs, runner
        self._registry, self._clock, self._settings = registry, clock, settings
        self._last_ticket = 0
        self.closed = False

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def check_open(self) -> None:
        if self.closed:
            raise KernelClosed

    async def agent_of(self, log: LogId) -> Name | None:
        """Whose next turn this kernel runs in a conversation; None when another process owns it. Raises KernelClosed."""
        self.check_open()
        try:
            loaded = self._ticker.loaded.get(log) or await self._logs.get(log)
        except Foreign:
            return None
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        return config.slug if config is not None else None

    async def send(self, log: LogId, text: str, key: str | None, ephemeral: bool) -> int:
        self._check_input(text)
        if key is not None:
            return await self._send_by_inbox(log, key, text, ephemeral)
        try:
            loaded = await self._accepting(log)
        except Foreign:
            return await self._send_by_inbox(log, uuid.uuid4().hex, text, ephemeral)
        stored: asyncio.Future[int] = self._loop.create_future()
        self._feed_input(loaded, text, ephemeral, Ticket(stored, None))
        return await stored

    async def ask(self, log: LogId, text: str, ephemeral: bool) -> RunOutcome:
        self._check_input(text)
        loaded = self._ticker.loaded.get(log)
        if loaded is None or loaded.times.shown != "idle" or self._ticker.admission is not None:
            try:
                loaded = await self._accepting(log)
            except Foreign as error:
                raise await busy_elsewhere(self._store, log) from error
        ended: asyncio.Future[RunOutcome] = self._loop.create_future()
        self._feed_input(loaded, text, ephemeral, Ticket(None, ended))
        return await ended

    async def answer(self, request: str, verdict: Verdict, reason: str, by: str) -> bool:
        return await self._command(*answer_item(request, verdict, reason=reason, by=by))

    async def resolve(self, call: str, resolution: Resolution, result: str | None, reason: str, by: str) -> None:
        """By way of the inbox also for a log of this kernel: its key lets only the first one through."""
        self.check_open()
        log, key, item = await resolve_item(
            self._store,
            call,
            resolution,
            result=result,
            reason=reason,
            by=by,
            bytes_max=self._settings.input_bytes_max,
        )
        try:
            _check_not_erased(log, (await self._logs.get(log)).slice.get(CONVERSATION, ConversationState))
            mine = True
        except Foreign:
            mine = False
        if not await self._store.post(inbox_row(log, key, item)):
            raise AlreadyResolved(call)
        if mine:
            self._logs.route(log, item, key)

    async def interrupt(self, log: LogId, by: str) -> None:
        await self._command(log, f"cancel:{uuid.uuid4().hex}", Cancel(by=name_of(by)), lets_go=True)

    async def control(self, log: LogId, control: Control) -> None:
        key, item = f"control:{uuid.uuid4().hex}", ControlItem(control=control)
        await self._command(log, key, item, lets_go=control is Control.UNPAUSE)

    async def outcome(self, log: LogId) -> RunOutcome | None:
        """Waits for the end of the open turn; None when there is none.

        Errors: UnknownConversation; ConversationBusy when another process runs it.
        """
        try:
            loaded = await self._logs.get(log)
        except Foreign as error:
            raise await busy_elsewhere(self._store, log) from error
        state = loaded.slice.get(CONVERSATION, ConversationState)
        _check_not_erased(log, state)
        if state is None or not (state.open_turn or state.waiting):
            return None
        config = loaded.slice.get(state.open_turn, TurnConfig)
        seq = config.inputs[0] if config is not None else state.waiting[0].seq
        waiter = loaded.asks.get(seq)
        if waiter is None or waiter.done():
            waiter = loaded.asks[seq] = self._loop.create_future()
            waiter.add_done_callback(unheard)
        return await asyncio.shield(waiter)

    def _check_input(self, text: str) -> None:
        self.check_open()
        if not text.strip(BLANK):
            raise InputRefused("the input is blank; nothing was stored")
        limit = self._settings.input_bytes_max
        if len(text) > limit // 4 and (size := len(text.encode("utf-8", "surrogatepass"))) > limit:
            raise InputRefused(f"the input has {size} bytes, over input_bytes_max ({limit})")

    async def _accepting(self, log: LogId) -> Loaded:
        loaded = await self._logs.get(log)
        state = loaded.slice.get(CONVERSATION, ConversationState)
        _check_not_erased(log, state)
        if state is not None and state.status is ConversationStatus.CLOSED:
            raise ConversationClosed(log)
        waiting = len(loaded.intake) + (len(state.waiting) if state is not None else 0)
        if waiting >= self._settings.inbox_max:
            raise ConversationBusy(log, waiting)
        self._check_waiting_turns(log, state)
        return loaded

    def _check_waiting_turns(self, log: LogId, state: ConversationState | None) -> None:
        """An input of a conversation that runs, or waits already, makes no turn more that waits now."""
        admission, limit = self._ticker.admission, self._settings.waiting_turns_max
        if admission is None or admission.waiting < limit or admission.waits(log):
            return
        if state is None or not state.open_turn:
            raise ConversationBusy(log, admission.waiting, turns_max=limit)

    def _feed_input(self, loaded: Loaded, text: str, ephemeral: bool, ticket: Ticket) -> None:
        self._last_ticket += 1
        self._ticker.waiters.tickets[self._last_ticket] = ticket
        item = Input(text=text, ephemeral=ephemeral, ticket=self._last_ticket)
        self._ticker.feed(loaded, item, alone=not len(self._runner))

    async def erase(self, log: LogId, item: Erase) -> int:
        """The seq of the receipt, stored. Raises ConversationClosed when the item calls for nothing (any more), Foreign."""
        self.check_open()
        try:
            loaded = await self._logs.get(log)
        except ConversationHeld as held:  # by its inbox: the word lets it go
            raise Foreign(log) from held
        stored: asyncio.Future[int] = self._loop.create_future()
        self._last_ticket += 1
        self._ticker.waiters.tickets[self._last_ticket] = Ticket(stored, None)
        item = msgspec.structs.replace(item, ticket=self._last_ticket)
        self._ticker.feed(loaded, item, alone=not len(self._runner))
        return await stored

    async def by_inbox(self, log: LogId, key: str, item: Item) -> int:
        """The seq of the end of the unit with which the owner of a log, another process, took an item, 0 when it has not
        within inbox_wait_s. Raises ConversationBusy, ConversationErased."""
        await self._post(log, key, item)
        return await self._until_taken(log, key)

    async def drop_late(self, log: LogId) -> None:
        """What was posted to an erased log by somebody who did not know of it yet; its owner, or this kernel, drops it."""
        late = await self._store.inbox(log)
        if late:
            await self._take_over(log)
        for row in late:
            await self._until_taken(log, row.key)

    async def _send_by_inbox(self, log: LogId, key: str, text: str, ephemeral: bool) -> int:
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
            self.check_open()
        return end

    async def _post_input(self, log: LogId, key: str, item: Input) -> None:
        """An input that stands in the inbox already is not refused, however much stands there."""
        is_known = await self._store.inbox_seq(log, key) is not None
        try:
            await (self._logs.get(log) if is_known else self._accepting(log))
        except Foreign:
            await self._post(log, key, item)
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

    async def _command(self, log: LogId, key: str, item: Item, *, lets_go: bool = False) -> bool:
        """By way of the inbox, whoever owns the log: it is stored when this returns, and False when the key was known
        already. Raises ConversationBusy.

        lets_go: a word with which a conversation that an import brought may be taken. Raises ConversationHeld without.
        """
        self.check_open()
        try:
            loaded = await self._logs.get(log)
        except Foreign:
            return await self._post(log, key, item)
        except ConversationHeld:
            if not lets_go:
                raise
            is_new = await self._post(log, key, item)
            await self._logs.get(log)
            return is_new
        _check_not_erased(log, loaded.slice.get(CONVERSATION, ConversationState))
        if len(loaded.intake) >= self._settings.inbox_max:
            raise ConversationBusy(log, len(loaded.intake))
        is_new = await self._store.post(inbox_row(log, key, item))
        if is_new:
            self._logs.route(log, item, key)
        return is_new

    async def _post(self, log: LogId, key: str, item: Item) -> bool:
        """Into the inbox, unless it is full. Raises ConversationBusy, ConversationErased."""
        row = await self._store.log(log)
        if row is not None and row.erased_at is not None:
            raise ConversationErased(log, row.erased_at)
        if await self._store.inbox_seq(log, key) is None:
            waiting = len(await self._store.inbox(log))
            if waiting >= self._settings.inbox_max:
                raise ConversationBusy(log, waiting)
        return await self._store.post(inbox_row(log, key, item))


def _check_not_erased(log: LogId, state: ConversationState | None) -> None:
    if state is not None and state.erased_at is not None:
        raise ConversationErased(log, state.erased_at)


def answer_item(request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> tuple[LogId, str, Answer]:
    """The log, inbox key and item of an answer. Raises ConfigurationError when the request is no call's id."""
    try:
        log, _ = log_and_seq(request)
    except ValueError as error:
        raise ConfigurationError(f"no approval request {request[:80]!r}: it is named by its call's id") from error
    return log, f"answer:{request}", Answer(call=CallId(request), verdict=verdict, reason=reason, by=name_of(by))
