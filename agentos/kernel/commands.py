"""Commands of clients: inputs, answers, cancels. Each is an entry by the one road; nobody waits on a handler."""

from __future__ import annotations

import asyncio
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
from agentos.ids import CONVERSATION, CallId, LogId, Name, log_and_seq, name_of
from agentos.kernel.doubts import resolve_item
from agentos.kernel.held import Foreign
from agentos.kernel.inbox_items import inbox_row
from agentos.kernel.loaded import Loaded, Ticket
from agentos.kernel.logs import Logs
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.owners import busy_elsewhere
from agentos.kernel.sending import Sending
from agentos.kernel.tick import Ticker
from agentos.persistence.base import Store
from agentos.resources.finishing import unheard
from agentos.settings import Settings

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
        self._settings = settings
        self.sending = Sending(store, logs, registry, clock, settings, self.check_open, self._accepting)
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
            return await self.sending.send(log, key, text, ephemeral)
        try:
            loaded = await self._accepting(log)
        except Foreign:
            return await self.sending.send(log, uuid.uuid4().hex, text, ephemeral)
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
        """An input of a conversation that runs, waits already, or has room, makes no turn more that waits now."""
        admission, limit = self._ticker.admission, self._settings.waiting_turns_max
        if admission is None or admission.waiting < limit or admission.waits(log):
            return
        if (state is None or not state.open_turn) and not admission.has_room(log):
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

    async def _command(self, log: LogId, key: str, item: Item, *, lets_go: bool = False) -> bool:
        """By way of the inbox, whoever owns the log: it is stored when this returns, and False when the key was known
        already. Raises ConversationBusy.

        lets_go: a word with which a conversation that an import brought may be taken. Raises ConversationHeld without.
        """
        self.check_open()
        try:
            loaded = await self._logs.get(log)
        except Foreign:
            return await self.sending.post(log, key, item)
        except ConversationHeld:
            if not lets_go:
                raise
            is_new = await self.sending.post(log, key, item)
            await self._logs.get(log)
            return is_new
        _check_not_erased(log, loaded.slice.get(CONVERSATION, ConversationState))
        if len(loaded.intake) >= self._settings.inbox_max:
            raise ConversationBusy(log, len(loaded.intake))
        is_new = await self._store.post(inbox_row(log, key, item))
        if is_new:
            self._logs.route(log, item, key)
        return is_new


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
