"""What surrounds the tick: after a unit is stored, slots, scopes, watchers, approval ports and other logs hear of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from agentos.components import CallConfig, CallState, ConversationConfig, Waiting
from agentos.effects import Runner
from agentos.effects.base import owned
from agentos.errors import AgentosError, ReleaseFailed, ToolError
from agentos.events.effects import Effect
from agentos.events.entry import Draft
from agentos.events.intake import Answer, InnerCall, Item, SlotFree
from agentos.events.kinds import ApprovalRequested
from agentos.ids import CONVERSATION, Digest, LogId, Micros, Name, call_id
from agentos.kernel.catalog import Catalog
from agentos.kernel.inner import Asked
from agentos.kernel.installing import close_unused
from agentos.kernel.loaded import Loaded
from agentos.kernel.logs import Logs
from agentos.kernel.metering import Meter
from agentos.kernel.services import LiveServices
from agentos.kernel.tick import Ticker
from agentos.kernel.watch import Watchers
from agentos.ports import Approval, ApprovalRequest
from agentos.resources import Scope, Slots
from agentos.world import View

_log = logging.getLogger(__name__)


class LiveHost:
    """Implements the tick's `Host` over one kernel's live parts, which are made after it and given by `wire`."""

    def __init__(self) -> None:
        self.slots = Slots(self._slot_free)
        self._closed = False
        self._broken: set[LogId] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.meter: Meter | None = None
        """Is told of what is stored, while somebody looks."""

    def wire(
        self,
        catalog: Catalog,
        watchers: Watchers,
        services: LiveServices,
        runner: Runner,
        ticker: Ticker,
        logs: Logs,
    ) -> None:
        self._catalog, self._watchers, self._services = catalog, watchers, services
        self._runner, self._ticker, self._logs, self._eviction = runner, ticker, logs, logs.eviction
        services.standstill.running_call = runner.running_call

    def reported(self, log: LogId, item: Item) -> None:
        """A runner's report is intake, unless its log is no longer here, or the kernel is closed."""
        loaded = self._ticker.loaded.get(log)
        if loaded is not None and not self._closed:
            self._ticker.feed(loaded, item, alone=not len(self._runner))

    def definitions(self, digest: str) -> Sequence[tuple[str, str, str]]:
        return () if digest in self._catalog.stored else self._catalog.definitions(digest)

    def asked(self, log: LogId, item: InnerCall) -> Asked:
        """What a running call asks for is intake of its turn. Raises ToolError when its log is no longer here."""
        loaded = self._ticker.loaded.get(log)
        if loaded is None or self._closed:
            raise ToolError("the call is over here; it may ask for no others")
        waiter = loaded.ask_inner(item)
        self._ticker.feed(loaded, item)
        return waiter

    def give_slot_back(self, log: LogId, call: int) -> None:
        self.slots.give_back((log, call))

    def route(self, log: LogId, item: Item, key: str) -> None:
        self._logs.route(log, item, key)

    def start_effect(self, effect: Effect) -> None:
        self._runner.start(effect)

    def person_awaited(self, view: View, call: int) -> None:
        self._services.standstill.waits(view, call)

    def turn_awaited(self, view: View) -> None:
        self._services.standstill.joined(view)

    def person_heard(self, log: LogId, call: int) -> None:
        self._services.standstill.goes_on(log, call)

    def turn_started(self, context: Digest) -> None:
        if context not in self._catalog.stored:
            self._catalog.are_stored(context)

    def turn_finished(self, loaded: Loaded, turn: int) -> None:
        if self._services.lent:
            self._close_turn_scope(loaded, turn)
        self._eviction.evict()

    def conversation_closed(self, loaded: Loaded) -> None:
        if self._services.lent:
            self._close_conversation_scope(loaded)

    def landed(self, loaded: Loaded, drafts: Sequence[Draft], first: int, at: Micros) -> None:
        self._eviction.touched(loaded)
        if self.meter is not None:
            self.meter.landed(loaded, drafts, at)
        if loaded.log in self._watchers:
            self._watchers.publish(loaded.log, drafts, first, at, self._ticker.writer)
        if self._catalog.approval is not None:
            for draft in drafts:
                if type(draft.data) is ApprovalRequested:
                    self.ask_port(loaded, draft.call)

    def lost(self, loaded: Loaded) -> None:
        self._close_conversation_scope(loaded)
        self._services.standstill.lost(loaded.log)
        self._logs.lost(loaded)
        if self.slots.of(loaded.log):
            self._spawn(self._free_slots(loaded.log))

    def broke(self, loaded: Loaded) -> None:
        """Its memory cannot go on from where its log ends: it is let go, and taken up as after a crash; but once only, since
        what broke it may be in its log."""
        self.lost(loaded)
        if loaded.log not in self._broken and not loaded.head.new and not self._closed:
            self._broken.add(loaded.log)
            self._spawn(self._take_up(loaded.log))

    async def _take_up(self, log: LogId) -> None:
        try:
            await self._logs.get(log)
        except AgentosError as error:
            _log.warning("%s is not taken up: %s", log, type(error).__name__)

    def erased(self, loaded: Loaded, at: Micros, *, is_heard: bool) -> None:
        """Its texts are gone from the store, and leave memory."""
        self._close_conversation_scope(loaded)
        self._logs.erased(loaded, at, is_heard=is_heard)

    async def _free_slots(self, log: LogId) -> None:
        """No unit of a lost log will free its slots. A tool keeps its own until it has let go; a log that came back has
        taken them over."""
        await self._runner.wait_ended(log)
        if log not in self._ticker.loaded:
            for caller in self.slots.of(log):
                self.slots.give_back(caller)

    def taken(self, log: LogId, keys: Sequence[str]) -> None:
        self._logs.taken(log, keys)

    def ask_port(self, loaded: Loaded, call: int) -> None:
        """Asks the approval port of this process about a call that waits for a person."""
        config, state = loaded.slice.get(call, CallConfig), loaded.slice.get(call, CallState)
        approval = self._catalog.approval
        if approval is None or config is None or state is None or state.waiting is not Waiting.APPROVAL:
            return
        arguments = owned(self._services.body(loaded.log, *config.arguments))
        request = ApprovalRequest(call=call_id(loaded.log, call), tool=config.tool, arguments=arguments)
        self._spawn(self._ask_approval(loaded.log, approval, request))

    async def close(self) -> None:
        """Nothing is taken in any more: a call that ignored its cancellation reports to nobody."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask_approval(self, log: LogId, approval: Approval, request: ApprovalRequest) -> None:
        """Its answer is an entry like anybody's; a port that fails leaves the request to others."""
        try:
            verdict = await approval.decide(request)
            if verdict is not None:
                item = Answer(call=request.call, verdict=verdict, by=Name("approval-port"))
                self._ticker.feed(await self._logs.get(log), item)
        except Exception as error:
            _log.warning("the approval port failed for %s: %s", request.call, type(error).__name__)

    def _slot_free(self, log: str, call: int) -> None:
        loaded = self._ticker.loaded.get(LogId(log))
        if loaded is not None:
            self._ticker.feed(loaded, SlotFree(call=call))

    def _close_turn_scope(self, loaded: Loaded, turn: int) -> None:
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        scope = self._services.scope_of(loaded.log, config.slug, turn) if config is not None else None
        if scope is not None and config is not None:
            self._spawn(_close_with_parent(scope, config.slug in self._catalog.agents))

    def _close_conversation_scope(self, loaded: Loaded) -> None:
        """What was lent to a conversation that does not go on here comes back."""
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        scope = self._services.scope_of(loaded.log, config.slug) if config is not None else None
        if scope is not None and config is not None:
            self._spawn(_close_conversation(scope, config.slug in self._catalog.agents))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _close_conversation(conversation: Scope, installed: bool) -> None:
    """The scope of a conversation that is over; that of its agent only once it is not installed any more."""
    await _told(conversation.close())
    if not installed and conversation.parent is not None:
        await _told(close_unused(conversation.parent))


async def _close_with_parent(turn: Scope, installed: bool) -> None:
    """The scope of a turn that has ended; that of its conversation too, when nothing is lent there any more.

    That of the agent stays as long as the agent is installed.
    """
    await _told(turn.close())
    conversation = turn.parent
    if conversation is not None:
        await _told(close_unused(conversation))
        if not installed and conversation.parent is not None:
            await _told(close_unused(conversation.parent))


async def _told(closing: Coroutine[Any, Any, None]) -> None:
    """What cannot be given back is told to whoever reads the log of the program; the conversation goes on."""
    try:
        await closing
    except ReleaseFailed as error:
        _log.warning("%s", error)
