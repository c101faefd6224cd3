"""The kernel: opens a store and a World, runs ticks, and gives conversations to whoever talks to them."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from agentos.clock import Clock, SystemClock
from agentos.components import (
    Component,
    ConversationConfig,
    Resolution,
    ToolSpec,
    Verdict,
)
from agentos.definitions import AgentSpec, ToolboxUse
from agentos.effects import Runner
from agentos.errors import (
    ConfigurationError,
    StoreUnavailable,
    UnknownConversation,
)
from agentos.events.entry import Entry, Registry
from agentos.events.intake import Control, Start
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
from agentos.kernel.agents import agent_of, read_agent
from agentos.kernel.catalog import Catalog
from agentos.kernel.commands import Commands
from agentos.kernel.conversation import Conversation, Fork
from agentos.kernel.doubts import Doubt, doubts_of
from agentos.kernel.following import Following
from agentos.kernel.forking import Forking
from agentos.kernel.host import LiveHost
from agentos.kernel.installing import Installing
from agentos.kernel.listing import Listing, Page, list_conversations
from agentos.kernel.logs import Foreign, Logs
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.recovery import Recovery
from agentos.kernel.services import LiveServices
from agentos.kernel.tick import Ticker
from agentos.kernel.variants import Variants, Whole
from agentos.kernel.waiters import beginning_of
from agentos.kernel.watch import Watched, Watchers, follow
from agentos.models.base import ModelClient
from agentos.persistence import open_store
from agentos.persistence.base import Rows, Store, WriterRow
from agentos.ports import Approval, Hook, Observer
from agentos.resources import Scope
from agentos.resources.scope import Level
from agentos.settings import Settings
from agentos.systems import SCHEDULE, System
from agentos.toolboxes.base import Toolbox
from agentos.world import World

_log = logging.getLogger(__name__)
FROZEN_S = 5.0
"""A kernel that did not run for so long may have been taken for dead."""


class Kernel:
    """Hosts agents over one store, from the begin of an `async with` block to its end, on the loop that runs the block.

    store: memory:, sqlite:///FILE, file:DIR, postgresql://..., or a Store. ids, clock and salts replace the sources of
    ids, time and salts (tests do).
    keys are key files, asked before those of this user; base_url replaces the address of every model over a network.
    observers are told of every effect.
    Errors: ConfigurationError for an unknown kind of url; StoreError, at the begin, when the store cannot be opened.
    """

    def __init__(
        self,
        store: Store | str = "memory:",
        *,
        ids: IdSource | None = None,
        clock: Clock | None = None,
        salts: SaltSource | None = None,
        settings: Settings | None = None,
        approval: Approval | None = None,
        hooks: Sequence[Hook] = (),
        systems: Sequence[System] = (),
        components: Sequence[type[Component]] = (),
        keys: Sequence[Path] = (),
        base_url: str | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.store: Store = open_store(store, self.settings) if isinstance(store, str) else store
        self.world = World()
        self.clock: Clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._salts = salts or RandomSalts()
        self.registry = Registry()
        for type_ in components:
            self.registry.register(type_)
        self.schedule = SCHEDULE.with_systems(systems)
        self._host = LiveHost()
        self.slots = self._host.slots
        self.catalog = Catalog(
            self.world, self.slots, self.clock, self.settings, self.schedule.digest(), approval, keys, base_url
        )
        self.catalog.hooks.extend(hooks)
        self.watchers = Watchers(self.settings.watch_queue_max)
        self.scope = Scope(Level.PROGRAM, "program", release_s=self.settings.release_s)
        self.services = LiveServices(
            self.world,
            self.catalog,
            self.slots,
            self.watchers,
            self.clock,
            self.scope,
            self._host.reported,
            self._host.asked,
        )
        self.runner = Runner(self.services, observers)
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
        self._installing = Installing(
            self.catalog, self._administration, self.world, self.scope, self.runner, self.clock
        )
        self._following = Following(self.catalog, self._installing, self.world)
        self._recovery = Recovery(self.store, self.logs, self.ticker, self._host.ask_port)
        self._variants = Variants(self.catalog, self._installing)
        self._forking = Forking(
            self.store,
            self.ticker,
            self.logs,
            self.catalog,
            self._recovery,
            self.registry,
            self.schedule,
            self._ids,
            self._salts,
            self.settings,
        )
        self._pollers: list[asyncio.Task[None]] = []
        self._reloading = False

    async def __aenter__(self) -> Kernel:
        self.runner.open()
        self._commands.open()
        self.ticker.open(await self.store.open(uuid.uuid4().hex))
        loop = asyncio.get_running_loop()
        self._pollers.append(loop.create_task(self._poll()))
        if (every_s := self.settings.recover_poll_s) is not None:
            self._pollers.append(loop.create_task(self._recovery.keep_looking(every_s)))
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
                await self._installing.wait_recorded(grace_s)
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
        for poller in self._pollers:
            poller.cancel()
        await asyncio.gather(*self._pollers, return_exceptions=True)
        await self._host.close()
        await self._installing.close()
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

    async def install(
        self,
        spec: AgentSpec | str | os.PathLike[str],
        *,
        model: ModelClient | None = None,
        working_directory: Path | None = None,
    ) -> Name:
        """Puts an agent in force, from a spec or a file, with the toolboxes that it holds; open turns keep what they
        pinned. A file is followed from here on (see `refresh`), also that of a spec which says what its file says.

        working_directory: what the paths of toolboxes count from that say so; by default where this process is.
        Errors: ConfigurationError naming file and line. References to toolboxes and agents are checked at its first turn,
        so that agents may name each other in any order; `check` does it at once.
        """
        spec, path, seen = read_agent(spec)
        agent = agent_of(spec, working_directory, model)
        async with self._installing.lock:
            self._installing.forget_bound(agent.slug)
            await self._installing.put_agent(agent)
            self._following.follow(agent, path, seen)
        self._watch_files()
        return agent.slug

    async def refresh(self, agent: str | None = None) -> list[str]:
        """Takes up what was edited, for turns that begin from here on: the files of an agent, of its toolboxes and of the
        agents that it may ask; None is all of them. Gives what became of it, a sentence each.

        `start`, `send` and `ask` do so for their agent unless the setting follow_files is off. Nothing edited costs a stat
        for each file. A broken edit leaves what is in force, and is told: here, by a warning, and in the World
        (`AgentProblem`, `ToolboxState.problem`).
        Errors: UnknownAgent, StoreUnavailable.
        """
        self._commands.check_open()
        if agent is not None:
            self.catalog.spec(agent)
        return await self._following.refresh(Name(agent) if agent is not None else None)

    def check(self) -> None:
        """Resolves every installed agent, and makes its model.

        Errors: ConfigurationError for what is not there; of several agents it tells the first problem of each, a line each.
        """
        problems: list[ConfigurationError] = []
        for slug in self.catalog.agents:
            try:
                self.offered(slug)
            except ConfigurationError as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise ConfigurationError("\n".join(map(str, problems)))

    def offered(self, agent: str) -> tuple[ToolSpec, ...]:
        """The tools that the model of an agent would be offered in a turn that begins now, by name.

        Errors: UnknownAgent; ConfigurationError for a reference that leads nowhere, and for a model that cannot be made.
        """
        spec = self.catalog.spec(agent)
        context = self.catalog.pinned(self.catalog.current(agent_id(agent), 0))
        self.catalog.model(Name(spec.slug), spec.model_ref)
        return context.tools

    async def add_toolbox(self, toolbox: Toolbox) -> Name:
        """Opens a toolbox and shares it among the agents that name it. Raises ConfigurationError."""
        async with self._installing.lock:
            await self._installing.put_toolbox(toolbox)
        self._watch_files()
        return toolbox.name

    def bind(
        self, agent: str, toolbox: str, *, expose: Sequence[str] | None = None, grant: Sequence[str] | None = None
    ) -> None:
        """Lets an installed agent use an open toolbox from its next turn on, until it is installed anew."""
        self._installing.rebind(Name(agent), toolbox, ToolboxUse(name=toolbox, expose=expose, grant=grant))

    def unbind(self, agent: str, toolbox: str) -> None:
        self._installing.rebind(Name(agent), toolbox, None)

    async def remove(self, name: str) -> None:
        """Removes an agent, whose open turns end as they are, or a toolbox; its own toolboxes go with an agent.

        A toolbox takes no more calls, and closes when those that run have ended.
        Errors: UnknownToolbox; ReleaseFailed when it does not close.
        """
        async with self._installing.lock:
            if Name(name) in self.catalog.agents:
                await self._installing.take_agent(Name(name))
                self._following.forget(Name(name))
            else:
                await self._installing.take_toolbox(Name(name))

    # Conversations

    async def start(self, agent: str, key: str | None = None) -> Conversation:
        """A new conversation of an installed agent, stored when this returns; the same key gives the same one."""
        self._commands.check_open()
        slug = Name(agent)
        self.catalog.spec(agent)
        if self.settings.follow_files and self._following.anything:
            await self._following.refresh(slug)
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
        begun = beginning_of(loaded)
        self.ticker.feed(loaded, item)
        await asyncio.shield(begun)
        self.logs.evict()
        return Conversation(self, id_)

    async def _has_begun(self, log: LogId) -> bool:
        """Whether the conversation is stored. One that is being begun is waited for, also when who began it was told that
        the store is out of reach: what became of it is not known yet, and it is begun again if it must be."""
        loaded = self.ticker.loaded.get(log)
        if loaded is None:
            return await self.store.log(log) is not None
        if loaded.begun is not None or (loaded.head.new and loaded.flying):
            await asyncio.shield(beginning_of(loaded))
            return True
        return not loaded.head.new

    async def fork(
        self,
        id_: str,
        at: int | None = None,
        *,
        replace_results: Mapping[str, str] | None = None,
        model: ModelClient | str | None = None,
        prompt: str | None = None,
        agent: Whole | None = None,
        run: bool = True,
    ) -> Fork:
        """A conversation that begins with what this one had come to at a seq, or at the end of the unit before; without one,
        at its end. It shares those entries, and is one row and one unit, however many they are.

        A turn that was open there goes on: a model is asked anew, calls that were under way end as unknown, those that wait
        go on waiting. With run=False all this waits until somebody takes the fork up (`recover`, `ask`, `send`).
        replace_results gives results to calls, by their ids, that are open there; without a seq, the fork begins where
        they last are. How the other calls of that step ended is taken over then.
        model, prompt and agent vary whom the fork goes on with, from the open turn on: a model by its name or a client, the
        text of a system prompt, a whole agent (a slug, a file, a definition).
        Errors: UnknownConversation, ForkRefused, UnknownAgent, ConfigurationError, StoreUnavailable.
        """
        self._commands.check_open()
        log = LogId((await self.get(id_)).id)
        slug = await self._agent_of(log)
        other = await self._variants.slug_of(slug, agent, model, prompt)
        forked = await self._forking.fork(log, at, replace_results or {}, other if other != slug else None)
        fork = Fork(
            self,
            forked.id,
            forked_from=ConversationId(forked.parent),
            upto=forked.upto,
            turn=forked.turn,
            agent=other,
        )
        if run:
            await self.run_fork(fork)
        return fork

    async def run_fork(self, fork: Fork) -> None:
        """Takes up a fork that was begun with run=False: its open turn goes on, and inputs that wait begin one."""
        self._commands.check_open()
        await self._forking.run(LogId(fork.id), fork.turn)

    async def _agent_of(self, log: LogId) -> Name:
        rows = (await self.query("select agent from conversations where id = ?", (log,))).rows
        return Name(rows[0][0])

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

    async def page(self, listing: Listing | None = None) -> Page:
        """A page of stored conversations with what `ps` shows of each. Raises UnknownConversation, StoreError."""
        return await list_conversations(self.store, listing or Listing())

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
        if self.settings.follow_files and self._following.anything:
            await self._follow(LogId(id_))
        return await self._commands.send(LogId(id_), text, key, ephemeral)

    async def ask(self, id_: str, text: str, *, ephemeral: bool = False) -> RunOutcome:
        if self.settings.follow_files and self._following.anything:
            await self._follow(LogId(id_))
        return await self._commands.ask(LogId(id_), text, ephemeral)

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> None:
        """Answers an approval request from any process; a request that is decided already stays as it is."""
        await self._commands.answer(request, verdict, reason, by)

    async def resolve(
        self, call: str, resolution: Resolution, *, result: str | None = None, reason: str = "", by: str = "user"
    ) -> None:
        """Says what became of a call in doubt, from any process; result is what it brought, where somebody knows.

        While the call waits for a person (`doubt_s` of its agent) it ends by that, or is started again. One that has ended
        with an unknown outcome stays so, and the model reads a note at the beginning of the next turn.
        Errors: UnknownCall, NotInDoubt, AlreadyResolved, InputRefused, StoreUnavailable.
        """
        await self._commands.resolve(call, resolution, result, reason, by)

    async def doubts(self, conversation: str | None = None) -> list[Doubt]:
        """The calls of one conversation, or of all, that nobody knows the outcome of and that nobody has resolved."""
        return await doubts_of(self.store, conversation)

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
        return [Conversation(self, ConversationId(log)) for log in await self._recovery.recover(only)]

    async def writers(self) -> list[WriterRow]:
        """Every process that ever opened the store for writing, oldest first, and whether it lives."""
        return await self.store.writers()

    async def declare_dead(self, writer: int) -> bool:
        """On a person's word: what this writer owns may be taken over from now on, and it stores nothing there any more.

        For a process that hangs, or whose machine is out of reach: a store knows by itself of those that have ended. A
        tool that still runs there goes on until its process finds out, or ends. Take up its turns with `recover`.
        False when there is no such writer, or it had ended, or is this kernel itself.
        """
        self._commands.check_open()
        return await self.store.declare_dead(writer)

    async def _follow(self, log: LogId) -> None:
        """Takes up what was edited for the next turn of a conversation; one that others own is theirs to look after."""
        self._commands.check_open()
        try:
            loaded = self.ticker.loaded.get(log) or await self.logs.get(log)
        except Foreign:
            return
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        if config is not None:
            await self._following.refresh(config.slug)

    def _watch_files(self) -> None:
        """From the first thing on that there is to look at."""
        if self.settings.follow_files and not self._reloading and self._following.anything:
            self._reloading = True
            self._pollers.append(asyncio.get_running_loop().create_task(self._reload()))

    async def _reload(self) -> None:
        """For turns that begin with no word of this process: delegated ones, and those of the inbox."""
        while True:
            await self.clock.sleep(self.settings.reload_poll_s)
            try:
                await self._following.refresh(None)
            except StoreUnavailable:
                continue
            except Exception as error:
                _log.warning("edited files could not be taken up: %s: %s", type(error).__name__, error)

    async def _poll(self) -> None:
        """Sees what other processes wrote for us, and took from us; a store that is out of reach is asked again."""
        poll_s = self.settings.inbox_poll_ms / 1000
        behind = doubtful = False
        while True:
            began = self.clock.monotonic()
            await self.clock.sleep(poll_s)
            doubtful = doubtful or self.clock.monotonic() - began > poll_s + FROZEN_S
            try:
                if doubtful:
                    await self.logs.let_go_of_lost()
                    doubtful = False
                behind = self.store.changed() or behind
                if behind:
                    await self.logs.poll()
                    behind = False
            except StoreUnavailable:
                doubtful = True


async def _watch(kernel: Kernel, log: LogId, after: int) -> AsyncIterator[Watched]:
    watcher = kernel.watchers.add(log)
    try:
        async for item in follow(
            watcher, lambda seq: kernel.history(log, seq), after, kernel.settings.inbox_poll_ms / 1000
        ):
            yield item
    finally:
        kernel.watchers.remove(watcher)


open = Kernel
"""As people write it: `async with agentos.open(url) as kernel`."""
