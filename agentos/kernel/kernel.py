"""The kernel: opens a store and a World, runs ticks, and gives conversations to whoever talks to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from agentos import codec
from agentos.clock import Clock, SystemClock
from agentos.components import (
    AgentConfig,
    AgentState,
    CallConfig,
    CallState,
    Component,
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    TurnConfig,
    Verdict,
    Waiting,
)
from agentos.definitions import AgentSpec, load_agent
from agentos.effects import Runner
from agentos.errors import (
    ConfigurationError,
    ConversationBusy,
    ConversationClosed,
    InputRefused,
    KernelClosed,
    StoreUnavailable,
    UnknownConversation,
)
from agentos.events.effects import Effect
from agentos.events.entry import Draft, Entry, Registry, seed_digest
from agentos.events.intake import Answer, Cancel, Control, ControlItem, Input, Item, SlotFree, Start
from agentos.events.kinds import (
    AgentInstalled,
    AgentRemoved,
    ApprovalRequested,
    EntryData,
    InputReceived,
)
from agentos.ids import (
    CONVERSATION,
    CallId,
    ConversationId,
    Digest,
    IdSource,
    Kind,
    LogId,
    Micros,
    Name,
    RandomIds,
    RandomSalts,
    SaltSource,
    agent_id,
    call_id,
    conversation_id,
    hashed_id,
    log_and_seq,
    name_of,
)
from agentos.journal import Head, decode_units, seal_drafts
from agentos.kernel.catalog import Catalog
from agentos.kernel.conversation import Conversation
from agentos.kernel.loaded import Loaded, Ticket
from agentos.kernel.logs import Foreign, Logs, inbox_row
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.services import LiveServices
from agentos.kernel.tick import Ticker
from agentos.kernel.watch import Watched, Watchers, follow
from agentos.models.base import ModelClient
from agentos.persistence import open_store
from agentos.persistence.base import LogRow, Rows, Store
from agentos.ports import Approval, ApprovalRequest, Hook
from agentos.resources import Scope, Slots
from agentos.resources.scope import Level
from agentos.settings import Settings
from agentos.systems import SCHEDULE, System
from agentos.toolboxes.base import Toolbox
from agentos.world import World

_log = logging.getLogger(__name__)


class Kernel:
    """Hosts agents over one store. Use `agentos.open(url)`; everything runs on the loop that opened it."""

    def __init__(
        self,
        store: Store | str,
        *,
        ids: IdSource | None = None,
        clock: Clock | None = None,
        salts: SaltSource | None = None,
        settings: Settings | None = None,
        approval: Approval | None = None,
        hooks: Sequence[Hook] = (),
        systems: Sequence[System] = (),
        components: Sequence[type[Component]] = (),
    ) -> None:
        self.store: Store = open_store(store) if isinstance(store, str) else store
        self.world = World()
        self.settings = settings or Settings()
        self.clock: Clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._salts = salts or RandomSalts()
        self.registry = Registry()
        for type_ in components:
            self.registry.register(type_)
        self.schedule = SCHEDULE.with_systems(systems)
        self.slots = Slots(self._slot_free)
        self.catalog = Catalog(self.world, self.slots, self.clock, self.settings, self.schedule.digest(), approval)
        self.catalog.hooks.extend(hooks)
        self.watchers = Watchers(self.settings.watch_queue_max)
        self.scope = Scope(Level.PROGRAM, "program", release_s=self.settings.release_s)
        self.services = LiveServices(
            self.world, self.catalog, self.slots, self.watchers, self.clock, self.scope, self._reported
        )
        self.runner = Runner(self.services)
        self.ticker = Ticker(
            self.world, self.store, self.schedule, self.clock, self.settings, self.services, self, self._salts
        )
        self.logs = Logs(
            self.world,
            self.store,
            self.catalog,
            self.ticker,
            self.registry,
            self.runner,
            self.settings.live_conversations_max,
        )
        self._ticket = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Kernel:
        self._loop = asyncio.get_running_loop()
        self.runner.open()
        self.ticker.open(await self.store.open(uuid.uuid4().hex))
        self._poller = asyncio.get_running_loop().create_task(self._poll())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(0.0 if error is not None else None)

    async def close(self, grace_s: float | None = None) -> None:
        """Takes no more, lets running effects end within grace_s, cancels the rest, stores, closes every scope.

        Turns that are still open then are found by `recover`.
        """
        if self._closed:
            return
        self._closed = True
        grace_s = self.settings.close_grace_s if grace_s is None else grace_s
        try:
            if grace_s > 0:
                await self._drain(grace_s)
            self.ticker.starting = False
            self.runner.cancel_all()
            await self.runner.wait_idle(self.settings.release_s)
            await self.ticker.wait_quiet()
        finally:
            await self._shut()

    async def _drain(self, grace_s: float) -> None:
        """Until nothing runs any more: the end of an effect may start the next."""
        until = self.clock.monotonic() + grace_s
        while self.clock.monotonic() < until:
            await self.ticker.wait_quiet()
            if not len(self.runner):
                return
            await self.runner.wait_idle(until - self.clock.monotonic())

    async def _shut(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *filter(None, [self._poller]), return_exceptions=True)
        await self.logs.close()
        await self.ticker.close()
        self.runner.close()
        self.watchers.close()
        try:
            await self.scope.close()
        finally:
            await self.catalog.close_models()
            await self.store.close()

    # What is installed

    async def install(self, spec: AgentSpec | str | os.PathLike[str], *, model: ModelClient | None = None) -> Name:
        """Puts an agent in force, from a spec or a file; turns that are open keep what they pinned.

        Errors: ConfigurationError naming file and line. References to toolboxes and agents are checked at its first turn,
        so that agents may name each other in any order; `check` does it at once.
        """
        base = None
        if not isinstance(spec, AgentSpec):
            base, spec = _read_agent(Path(spec))
        slug = Name(spec.slug)
        digest = self.catalog.install(spec, base, model)
        config, state = self.world.get(agent_id(slug), AgentConfig), self.world.get(agent_id(slug), AgentState)
        assert config is not None and state is not None
        body = codec.encode_body(spec.model_dump(mode="json"))
        await self._administer(
            agent_id(slug), Kind.AGENT, AgentInstalled(), (config, state), ((digest, "agent", body),)
        )
        return slug

    def check(self) -> None:
        """Resolves every installed agent. Raises ConfigurationError for the first that names what is not there."""
        for slug in self.catalog.agents:
            self.catalog.current(agent_id(slug), 0)

    async def add_toolbox(self, toolbox: Toolbox) -> Name:
        """Opens a toolbox and shares it among the agents that name it."""
        await toolbox.open()
        try:
            self.catalog.add_toolbox(toolbox)
        except ConfigurationError:
            await toolbox.close()
            raise
        self.scope.child(Level.TOOLBOX, toolbox.name).push("toolbox", toolbox.close)
        return toolbox.name

    def bind(
        self, agent: str, toolbox: str, *, expose: Sequence[str] | None = None, grant: Sequence[str] | None = None
    ) -> None:
        """Lets an installed agent use an open toolbox from its next turn on."""
        self.catalog.rebind(Name(agent), self.catalog.spec(agent).bound(toolbox, expose, grant))

    def unbind(self, agent: str, toolbox: str) -> None:
        self.catalog.rebind(Name(agent), self.catalog.spec(agent).unbound(toolbox))

    async def remove(self, name: str) -> None:
        """Removes an agent, whose open turns end as they are, or a toolbox, which is closed."""
        if Name(name) in self.catalog.agents:
            self.catalog.remove_agent(Name(name))
            state = AgentState(removed=True)
            await self._administer(agent_id(name), Kind.AGENT, AgentRemoved(), (state,), ())
            return
        self.catalog.remove_toolbox(Name(name))
        self.slots.remove(Name(name))
        scope = self.scope.find(Level.TOOLBOX, name)
        if scope is not None:
            await scope.close()

    # Conversations

    async def start(self, agent: str, key: str | None = None) -> Conversation:
        """A new conversation of an installed agent, stored when this returns; the same key gives the same one."""
        self._check_open()
        slug = Name(agent)
        self.catalog.spec(agent)
        id_ = ConversationId(
            hashed_id(Kind.CONVERSATION, agent, key) if key is not None else self._ids.new(Kind.CONVERSATION)
        )
        if key is not None and await self._has_begun(LogId(id_)):
            return Conversation(self, id_)
        item = Start(
            agent=agent_id(slug),
            slug=slug,
            root=id_,
            children_budget=self.settings.children_max,
            key=name_of(key) if key is not None else None,
        )
        loaded = self.logs.begin(LogId(id_), item)
        loaded.begun = asyncio.get_running_loop().create_future()
        self.ticker.feed(loaded, item)
        await asyncio.shield(loaded.begun)
        self.logs.evict()
        return Conversation(self, id_)

    async def _has_begun(self, log: LogId) -> bool:
        """Whether the conversation is stored; one that is just being begun is waited for."""
        loaded = self.ticker.loaded.get(log)
        if loaded is not None and loaded.begun is not None:
            await asyncio.shield(loaded.begun)
        return loaded is not None or await self.store.log(log) is not None

    async def get(self, id_: str) -> Conversation:
        """The handle of a stored conversation. Raises UnknownConversation."""
        try:
            checked = conversation_id(id_)
        except ValueError as error:
            raise UnknownConversation(id_[:80]) from error
        if LogId(checked) not in self.ticker.loaded and await self.store.log(checked) is None:
            raise UnknownConversation(checked)
        return Conversation(self, checked)

    async def conversations(self, state: str | None = None) -> list[ConversationId]:
        """Ids of stored conversations, oldest first; state as `ps` shows it."""
        sql = "select id from conversations where state = coalesce(?, state) order by started_at, id"
        return [ConversationId(row[0]) for row in (await self.query(sql, (state,))).rows]

    async def history(self, id_: str, after_seq: int = 0, upto: int | None = None) -> list[Entry]:
        """Stored entries of a conversation with their bodies."""
        stored = await self.store.entries(id_, after_seq, upto)
        return [entry for unit in decode_units(LogId(id_), stored, self.registry) for entry in unit]

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """One reading SQL statement over the store. Raises QueryRefused."""
        return await self.store.query(sql, parameters)

    def watch(self, id_: str, after_seq: int = 0) -> AsyncIterator[Any]:
        return _watch(self, LogId(id_), after_seq)

    def state_of(self, id_: str) -> str:
        loaded = self.ticker.loaded.get(LogId(id_))
        return loaded.times.shown if loaded is not None else "unloaded"

    async def send(self, id_: str, text: str, *, key: str | None = None, ephemeral: bool = False) -> int:
        self._check_input(text)
        if key is not None:
            name = name_of(key)
            keyed = Input(text=text, ephemeral=ephemeral, key=name)
            return await self._send_by_inbox(LogId(id_), f"input:{name}", keyed)
        try:
            loaded = await self._accepting(id_)
        except Foreign:
            name = Name(uuid.uuid4().hex)
            item = Input(text=text, ephemeral=ephemeral, key=name)
            return await self._send_by_inbox(LogId(id_), f"input:{name}", item)
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._feed_input(loaded, text, ephemeral, Ticket(stored, None))
        return await stored

    async def ask(self, id_: str, text: str, *, ephemeral: bool = False) -> RunOutcome:
        self._check_input(text)
        loaded = self.ticker.loaded.get(LogId(id_))
        if loaded is None or loaded.times.shown != "idle":
            try:
                loaded = await self._accepting(id_)
            except Foreign as error:
                raise ConversationBusy(id_, 0) from error
        ended: asyncio.Future[RunOutcome] = self._loop.create_future()
        self._feed_input(loaded, text, ephemeral, Ticket(None, ended))
        return await ended

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> None:
        """Answers an approval request from any process; a request that is decided already stays as it is."""
        await self._command(*answer_item(request, verdict, reason=reason, by=by))

    async def interrupt(self, id_: str, *, by: str = "user") -> None:
        await self._command(LogId(id_), f"cancel:{uuid.uuid4().hex}", Cancel(by=name_of(by)))

    async def control(self, id_: str, control: Control) -> None:
        await self._command(LogId(id_), f"control:{uuid.uuid4().hex}", ControlItem(control=control))

    async def recover(self, only: Collection[str] | None = None) -> list[Conversation]:
        """Takes up what a dead process left: open turns go on, items in the inbox are taken.

        only: ids of the conversations to look at, None for all. A tree of delegations has to be taken up as a whole.
        Returns the conversations that had an open turn, or have one now; a short turn may have ended already. Logs that
        a living process owns are left to it.
        """
        self._check_open()
        resumed = []
        for log in await self.store.open_logs():
            if only is not None and log not in only:
                continue
            try:
                loaded = await self.logs.get(LogId(log))
            except Foreign:
                continue
            except UnknownConversation:
                loaded = None
            await self.logs.take_inbox(LogId(log))
            state = loaded.slice.get(CONVERSATION, ConversationState) if loaded is not None else None
            if loaded is not None and state is not None and (loaded.resumed or state.open_turn or state.waiting):
                resumed.append(Conversation(self, ConversationId(log)))
                for call in list(loaded.slice.rows):
                    self._ask_port(loaded, call)
        return resumed

    async def outcome(self, id_: str) -> RunOutcome | None:
        """Waits for the end of the open turn; None when there is none."""
        loaded = await self.logs.get(LogId(id_))
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is None or not (state.open_turn or state.waiting):
            return None
        config = loaded.slice.get(state.open_turn, TurnConfig)
        seq = config.inputs[0] if config is not None else state.waiting[0].seq
        waiter = loaded.asks.get(seq)
        if waiter is None:
            waiter = loaded.asks[seq] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(waiter)

    # What the tick asks of its host

    def definition(self, digest: str) -> tuple[str, str, str] | None:
        if digest in self.catalog.stored:
            return None
        return self.catalog.definition(digest)

    def give_slot_back(self, log: LogId, call: int) -> None:
        self.slots.give_back((log, call))

    def route(self, log: LogId, item: Item, key: str) -> None:
        self.logs.route(log, item, key)

    def start_effect(self, effect: Effect) -> None:
        self.runner.start(effect)

    def turn_started(self, context: Digest) -> None:
        self.catalog.stored.add(context)

    def turn_finished(self, loaded: Loaded, turn: int) -> None:
        if self.services.lent:
            self._close_turn_scope(loaded, turn)
        self.logs.evict()

    def landed(self, loaded: Loaded, drafts: Sequence[Draft], first: int, at: Micros) -> None:
        self.logs.touched(loaded)
        if loaded.log in self.watchers:
            self.watchers.publish(loaded.log, drafts, first, at, self.ticker.writer)
        if self.catalog.approval is not None:
            for draft in drafts:
                if type(draft.data) is ApprovalRequested:
                    self._ask_port(loaded, draft.call)

    def lost(self, loaded: Loaded) -> None:
        self.logs.lost(loaded)

    # Helpers

    def _reported(self, log: LogId, item: Item) -> None:
        loaded = self.ticker.loaded.get(log)
        if loaded is not None:
            self.ticker.feed(loaded, item, alone=not len(self.runner))

    def _slot_free(self, log: str, call: int) -> None:
        loaded = self.ticker.loaded.get(LogId(log))
        if loaded is not None:
            self.ticker.feed(loaded, SlotFree(call=call))

    def _check_open(self) -> None:
        if self._closed:
            raise KernelClosed

    def _check_input(self, text: str) -> None:
        self._check_open()
        if not text.strip("\u200b\u200c\u200d\ufeff \t\r\n\v\f\u00a0\u3000"):
            raise InputRefused("the input is blank; nothing was stored")
        limit = self.settings.input_bytes_max
        if len(text) > limit // 4 and (size := len(text.encode("utf-8", "surrogatepass"))) > limit:
            raise InputRefused(f"the input has {size} bytes, over input_bytes_max ({limit})")

    async def _accepting(self, id_: str) -> Loaded:
        loaded = await self.logs.get(LogId(id_))
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is not None and state.status is ConversationStatus.CLOSED:
            raise ConversationClosed(id_)
        waiting = len(loaded.intake) + (len(state.waiting) if state is not None else 0)
        if waiting >= self.settings.inbox_max:
            raise ConversationBusy(id_, waiting)
        return loaded

    async def _check_room(self, log: LogId) -> None:
        """The bound on what waits, for an input that goes by way of the store."""
        try:
            await self._accepting(log)
        except Foreign:
            waiting = len(await self.store.inbox(log))
            if waiting >= self.settings.inbox_max:
                raise ConversationBusy(log, waiting) from None

    def _feed_input(self, loaded: Loaded, text: str, ephemeral: bool, ticket: Ticket) -> None:
        self._ticket += 1
        self.ticker.tickets[self._ticket] = ticket
        item = Input(text=text, ephemeral=ephemeral, ticket=self._ticket)
        self.ticker.feed(loaded, item, alone=not len(self.runner))

    async def _send_by_inbox(self, log: LogId, key: str, item: Input) -> int:
        """By way of the store, which remembers the key; whoever owns the log takes it."""
        if await self.store.inbox_seq(log, key) is None:
            await self._check_room(log)
        await self._command(log, key, item)
        while True:
            end = await self.store.inbox_seq(log, key)
            if end:
                return await self._input_in_unit(log, end, item)
            await self.clock.sleep(self.settings.inbox_poll_ms / 1000 / 10)
            self._check_open()

    async def _input_in_unit(self, log: LogId, end: int, item: Input) -> int:
        """The seq of an input's entry in the unit that took it. Raises ConversationClosed when the unit dropped it."""
        (last,) = await self.store.entries(log, end - 1, end)
        for entry in await self.history(log, last.unit - 1, end):
            if isinstance(entry.data, InputReceived) and entry.data.key == item.key:
                return entry.seq
        raise ConversationClosed(log)

    async def _command(self, log: LogId, key: str, item: Item) -> None:
        """An item for a log of this kernel, or by the inbox for whoever owns it."""
        self._check_open()
        keyed = isinstance(item, Input)
        try:
            loaded = await self.logs.get(log)
        except Foreign:
            await self.store.post(inbox_row(log, key, item))
            return
        if not keyed:
            self.ticker.feed(loaded, item)
        elif await self.store.post(inbox_row(log, key, item)):
            self.logs.route(log, item, key)

    async def _administer(
        self,
        log: str,
        kind: Kind,
        data: EntryData,
        components: tuple[Component, ...],
        definitions: tuple[tuple[str, str, str], ...],
    ) -> None:
        """One entry in a log of administration, unless its last one says the same or another process keeps it."""
        row = await self.store.log(log)
        new = row is None
        if row is None:
            row = LogRow(
                id=LogId(log), kind=kind.value, owner=self.ticker.writer, epoch=1, seq=0, digest=seed_digest(log)
            )
        elif row.owner != self.ticker.writer and (row := await self.store.claim(log)) is None:
            return
        drafts = [Draft(data=data, changes=tuple((CONVERSATION, component) for component in components))]
        stored = await self.store.entries(log, row.seq - 1) if not new else []
        last = [entry for unit in decode_units(LogId(log), stored, self.registry) for entry in unit]
        if last and _same(last[-1], drafts[0]):
            return
        at = self.ticker.now()
        unit = seal_drafts(drafts, Head(row=row, new=new), row.seq + 1, at, self.ticker.writer, self._salts)
        unit.components = [
            (log, component.component, codec.encode_struct(component).decode()) for component in components
        ]
        unit.definitions = definitions
        await self.ticker.administer(unit)

    def _ask_port(self, loaded: Loaded, call: int) -> None:
        """Asks the approval port of this process about a call that waits for a person."""
        config, state = loaded.slice.get(call, CallConfig), loaded.slice.get(call, CallState)
        approval = self.catalog.approval
        if approval is None or config is None or state is None or state.waiting is not Waiting.APPROVAL:
            return
        arguments = self.services.body(loaded.log, *config.arguments)
        request = ApprovalRequest(call=call_id(loaded.log, call), tool=config.tool, arguments=arguments)
        self._spawn(self._ask_approval(approval, request))

    async def _ask_approval(self, approval: Approval, request: ApprovalRequest) -> None:
        """Its answer is an entry like anybody's; a port that fails leaves the request to others."""
        try:
            verdict = await approval.decide(request)
            if verdict is not None:
                await self.answer(request.call, verdict, by="approval-port")
        except Exception as error:
            _log.warning("the approval port failed for %s: %s", request.call, type(error).__name__)

    def _close_turn_scope(self, loaded: Loaded, turn: int) -> None:
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        scope = self.services.scope_of(loaded.log, config.slug, turn) if config is not None else None
        if scope is not None:
            self._spawn(scope.close())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _poll(self) -> None:
        """Sees what other processes wrote for us; a store that is out of reach is asked again."""
        behind = False
        while True:
            await self.clock.sleep(self.settings.inbox_poll_ms / 1000)
            with contextlib.suppress(StoreUnavailable):
                behind = self.store.changed() or behind
                if behind:
                    await self.logs.poll()
                    behind = False


def answer_item(request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> tuple[LogId, str, Answer]:
    """The log, inbox key and item of an answer. Raises ConfigurationError when the request is no call's id."""
    try:
        log, _ = log_and_seq(request)
    except ValueError as error:
        raise ConfigurationError(f"no approval request {request[:80]!r}: it is named by its call's id") from error
    return log, f"answer:{request}", Answer(call=CallId(request), verdict=verdict, reason=reason, by=name_of(by))


def _read_agent(path: Path) -> tuple[Path, AgentSpec]:
    """An agent file, and the folder that its relative paths count from."""
    return path.resolve().parent, load_agent(path)


def _same(entry: Entry, draft: Draft) -> bool:
    return type(entry.data) is type(draft.data) and _definition(entry) == _definition(draft)


def _definition(draft: Draft) -> str | None:
    return next((value.definition for _, value in draft.changes if isinstance(value, AgentConfig)), None)


async def _watch(kernel: Kernel, log: LogId, after: int) -> AsyncIterator[Watched]:
    watcher = kernel.watchers.add(log)
    try:
        async for item in follow(
            watcher, lambda seq: kernel.history(log, seq), after, kernel.settings.inbox_poll_ms / 1000
        ):
            yield item
    finally:
        kernel.watchers.remove(watcher)


@asynccontextmanager
async def open(
    url: Store | str = "memory:",
    *,
    ids: IdSource | None = None,
    clock: Clock | None = None,
    salts: SaltSource | None = None,
    settings: Settings | None = None,
    approval: Approval | None = None,
    hooks: Sequence[Hook] = (),
    systems: Sequence[System] = (),
    components: Sequence[type[Component]] = (),
) -> AsyncIterator[Kernel]:
    """A kernel over a store, closed at the end of the block.

    url: memory:, sqlite:///FILE, or a Store. ids, clock and salts replace the sources of ids, time and salts (tests do).
    Errors: StoreError when the store cannot be opened; ConfigurationError for an unknown kind of url.
    """
    kernel = Kernel(
        url,
        ids=ids,
        clock=clock,
        salts=salts,
        settings=settings,
        approval=approval,
        hooks=hooks,
        systems=systems,
        components=components,
    )
    async with kernel:
        yield kernel
