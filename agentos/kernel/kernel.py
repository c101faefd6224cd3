"""The kernel: opens a store and a World, runs ticks, and gives conversations to whoever talks to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from agentos import codec
from agentos.clock import Clock, SystemClock
from agentos.components import (
    AgentConfig,
    AgentState,
    Component,
    ConversationState,
    Verdict,
)
from agentos.definitions import AgentSpec, load_agent
from agentos.effects import Runner
from agentos.errors import (
    ConfigurationError,
    StoreUnavailable,
    UnknownConversation,
)
from agentos.events.entry import Entry, Registry
from agentos.events.intake import Control, Start
from agentos.events.kinds import (
    AgentInstalled,
    AgentRemoved,
)
from agentos.ids import (
    CONVERSATION,
    ConversationId,
    IdSource,
    Kind,
    LogId,
    Name,
    RandomIds,
    RandomSalts,
    SaltSource,
    agent_id,
    conversation_id,
    hashed_id,
    name_of,
)
from agentos.journal import decode_units
from agentos.kernel.administration import Administration
from agentos.kernel.catalog import Catalog
from agentos.kernel.commands import Commands
from agentos.kernel.conversation import Conversation
from agentos.kernel.host import LiveHost
from agentos.kernel.logs import Foreign, Logs
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.services import LiveServices
from agentos.kernel.tick import Ticker
from agentos.kernel.watch import Watched, Watchers, follow
from agentos.models.base import ModelClient
from agentos.persistence import open_store
from agentos.persistence.base import Rows, Store
from agentos.ports import Approval, Hook
from agentos.resources import Scope
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
        self._host = LiveHost()
        self.slots = self._host.slots
        self.catalog = Catalog(self.world, self.slots, self.clock, self.settings, self.schedule.digest(), approval)
        self.catalog.hooks.extend(hooks)
        self.watchers = Watchers(self.settings.watch_queue_max)
        self.scope = Scope(Level.PROGRAM, "program", release_s=self.settings.release_s)
        self.services = LiveServices(
            self.world, self.catalog, self.slots, self.watchers, self.clock, self.scope, self._host.reported
        )
        self.runner = Runner(self.services)
        self.ticker = Ticker(
            self.world, self.store, self.schedule, self.clock, self.settings, self.services, self._host, self._salts
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
        self._host.wire(self.catalog, self.watchers, self.services, self.runner, self.ticker, self.logs)
        self._commands = Commands(
            self.store, self.ticker, self.logs, self.runner, self.registry, self.clock, self.settings
        )
        self._administration = Administration(self.store, self.ticker, self.registry, self._salts)
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Kernel:
        self.runner.open()
        self._commands.open()
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
        if self._commands.closed:
            return
        self._commands.closed = True
        grace_s = self.settings.close_grace_s if grace_s is None else grace_s
        try:
            if grace_s > 0:
                await self._drain(grace_s)
            self.ticker.starting, self.services.closing = False, True
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
            await asyncio.gather(self._poller, return_exceptions=True)
        await self._host.close()
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
        log = LogId(agent_id(slug))
        digest = self.catalog.install(spec, base, model, await self._administration.installed(log))
        config, state = self.world.get(agent_id(slug), AgentConfig), self.world.get(agent_id(slug), AgentState)
        assert config is not None and state is not None
        body = codec.encode_body(spec.model_dump(mode="json"))
        await self._administration.record(
            log, Kind.AGENT, AgentInstalled(), (config, state), ((digest, "agent", body),)
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
            state = self.world.get(agent_id(name), AgentState)
            assert state is not None
            await self._administration.record(LogId(agent_id(name)), Kind.AGENT, AgentRemoved(), (state,))
            return
        self.catalog.remove_toolbox(Name(name))
        self.slots.remove(Name(name))
        scope = self.scope.find(Level.TOOLBOX, name)
        if scope is not None:
            await scope.close()

    # Conversations

    async def start(self, agent: str, key: str | None = None) -> Conversation:
        """A new conversation of an installed agent, stored when this returns; the same key gives the same one."""
        self._commands.check_open()
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
        return await self._commands.send(LogId(id_), text, key, ephemeral)

    async def ask(self, id_: str, text: str, *, ephemeral: bool = False) -> RunOutcome:
        return await self._commands.ask(LogId(id_), text, ephemeral)

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> None:
        """Answers an approval request from any process; a request that is decided already stays as it is."""
        await self._commands.answer(request, verdict, reason, by)

    async def interrupt(self, id_: str, *, by: str = "user") -> None:
        await self._commands.interrupt(LogId(id_), by)

    async def control(self, id_: str, control: Control) -> None:
        await self._commands.control(LogId(id_), control)

    async def outcome(self, id_: str) -> RunOutcome | None:
        """Waits for the end of the open turn; None when there is none."""
        return await self._commands.outcome(LogId(id_))

    async def recover(self, only: Collection[str] | None = None) -> list[Conversation]:
        """Takes up what a dead process left: open turns go on, items in the inbox are taken.

        only: ids of the conversations to look at, None for all. A tree of delegations has to be taken up as a whole.
        Returns the conversations that had an open turn, or have one now; a short turn may have ended already. Logs that
        a living process owns are left to it.
        """
        self._commands.check_open()
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
                    self._host.ask_port(loaded, call)
        return resumed

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


def _read_agent(path: Path) -> tuple[Path, AgentSpec]:
    """An agent file, and the folder that its relative paths count from."""
    return path.resolve().parent, load_agent(path)


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
