"""The live parts of one kernel: made in the order in which they need each other, opened and closed together.

A part knows those that it is given, and none knows the machine. What people call is said in kernel.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agentos.clock import Clock, SystemClock
from agentos.components import Component
from agentos.effects import Runner
from agentos.errors import UnknownConversation
from agentos.events.entry import Registry
from agentos.ids import IdSource, LogId, RandomIds, RandomSalts, SaltSource, conversation_id
from agentos.kernel.accounts import Accounts, counts_what_resources_take
from agentos.kernel.administration import Administration
from agentos.kernel.beginning import Beginning
from agentos.kernel.bounding import Bounding
from agentos.kernel.catalog import Catalog
from agentos.kernel.commands import Commands
from agentos.kernel.erasing import Erasing
from agentos.kernel.following import Following
from agentos.kernel.forking import Forking
from agentos.kernel.host import LiveHost
from agentos.kernel.installing import Installing
from agentos.kernel.leftovers import leftovers
from agentos.kernel.lending import LiveLending
from agentos.kernel.limiting import Limiting
from agentos.kernel.live_resources import LiveResources
from agentos.kernel.logs import Logs
from agentos.kernel.open_resources import OpenResources
from agentos.kernel.polling import Polling
from agentos.kernel.programs import Programs
from agentos.kernel.recovery import Recovery
from agentos.kernel.retention import Rules
from agentos.kernel.services import LiveServices
from agentos.kernel.shares import LiveShares
from agentos.kernel.stopping import Stopping
from agentos.kernel.stored_agents import StoredAgents
from agentos.kernel.sweeping import Sweeping
from agentos.kernel.tick import Ticker
from agentos.kernel.variants import Variants
from agentos.kernel.vitals import Vitals
from agentos.kernel.watch import Watchers
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.ports import Approval, Hook, Observer
from agentos.resources import Level, Resources, Scope
from agentos.resources.bounds import Ledger
from agentos.resources.fairness import Weights
from agentos.resources.kinds.known import KNOWN
from agentos.secrets import without_password
from agentos.settings import Settings
from agentos.systems import SCHEDULE, System
from agentos.world import World


class Door(Protocol):
    """By which other processes come in while the kernel is open."""

    @property
    def path(self) -> str | None: ...
    async def close(self) -> None: ...


class Machine:
    """Holds what is alive of one kernel: the store and the World, the tick, effects, slots, watchers, and what commands
    go to. Nothing else of a kernel has state.

    left, once it is closed, names what could not be ended: a sentence each.
    """

    left: tuple[str, ...] = ()

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
        control: bool = False,
    ) -> None:
        self.settings = settings or Settings()
        self.stopping = Stopping()
        self._listens = control
        self._door: Door | None = None
        self.store: Store = open_store(store, self.settings) if isinstance(store, str) else store
        self.world = World()
        self.clock: Clock = clock or SystemClock()
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
        salts = salts or RandomSalts()
        ids = ids or RandomIds()
        self._weights = Weights()
        self._run_turns(ids, salts, observers)
        self._take_commands(ids, salts)
        self._be_seen()

    def _run_turns(self, ids: IdSource, salts: SaltSource, observers: Sequence[Observer]) -> None:
        """The parts that turns go through."""
        self.watchers = Watchers(self.settings.watch_queue_max)
        self.scope = Scope(Level.PROGRAM, "program", release_s=self.settings.release_s)
        host = self._host
        self.services = LiveServices(
            self.world, self.catalog, self.slots, self.watchers, self.clock, self.scope, host.reported, host.asked
        )
        self.resources = Resources(
            self.clock,
            ids,
            hold_warn_s=self.settings.hold_warn_s,
            wait_warn_s=self.settings.wait_warn_s,
            graph=self.slots.graph,
        )
        for kind in KNOWN:
            self.resources.register(kind)
        self.resources.lookout.slots = self.slots
        self.slots.waited = self.resources.used
        self._lending = LiveLending(self.world, self.services, self.resources, self.scope, host.reported)
        self.services.lending = self._lending
        self.runner = Runner(self.services, observers)
        self.ticker = Ticker(
            self.world, self.store, self.schedule, self.clock, self.settings, self.services, host, salts
        )
        live_max = self.settings.live_conversations_max
        self.logs = Logs(self.world, self.store, self.catalog, self.ticker, self.registry, self.runner, live_max)
        self._limit()
        host.wire(self.catalog, self.watchers, self.services, self.runner, self.ticker, self.logs)

    def _limit(self) -> None:
        """Who comes in next where there is a line; the bounds of turns and calls at once and of what resources take, if there
        are any."""
        self._limiting = limiting = Limiting(self.world, self.catalog.agents, self.settings, self._weights)
        self.services.limiting = limiting
        self.slots.order, self.resources.order = limiting.order_of_calls, limiting.order_of_leases
        self._accounts: Accounts | None = None
        self._ledger: Ledger | None = None
        if counts_what_resources_take(self.settings):
            self._accounts = Accounts(self.world, self.services, limiting, self.resources, self.settings)
            self._ledger, self._lending.account_of = self._accounts.ledger, self._accounts.of_call
        bounding = Bounding(
            limiting, self.ticker, self.services, self.slots, self.resources.lookout, self.clock, self.settings
        )
        self.catalog.taken = bounding.as_said

    def _be_seen(self) -> None:
        """The parts that tell how it does, and who has what."""
        self._open_resources = OpenResources(
            self.world, self.resources, self.slots, self.services, self._limiting, self.clock
        )
        self._open_resources.ledger = self._ledger
        live = LiveResources(self.world, self._open_resources)
        self.resources.on_change.append(live.changed)
        self.slots.changed = live.slot_changed
        url = without_password(self.store.url)
        self.vitals = Vitals(self.ticker, self.runner, self._host, self.clock, url, self._open_resources)

    def _take_commands(self, ids: IdSource, salts: SaltSource) -> None:
        """The parts that commands go to."""
        self._commands = Commands(
            self.store, self.ticker, self.logs, self.runner, self.registry, self.clock, self.settings
        )
        self._beginning = Beginning(self.store, self.ticker, self.logs, ids, self.settings)
        administration = Administration(self.store, self.ticker, self.registry, salts)
        self._installing = Installing(
            self.catalog, administration, self.world, self.scope, self.runner, self.clock, self.resources
        )
        self._shares = LiveShares(self._weights, administration, self.store, self.catalog)
        self._lending.toolbox_scope = self._installing.scope_of
        self._installing.accounts = self._accounts
        self._following = Following(self.catalog, self._installing, self.world)
        self._recovery = Recovery(self.store, self.logs, self.ticker, self._host.ask_port)
        self._rules = Rules(self.store, self.catalog)
        self._erasing = Erasing(self.store, self._commands, self._rules, self.clock)
        self._sweeping = Sweeping(self.store, self._erasing, self._rules, self.clock)
        self._polling = Polling(
            self.store, self.logs, self._following, self._recovery, self._sweeping, self.clock, self.settings
        )
        self._programs = Programs(self.catalog, self._installing, self._following, self._polling)
        self._lending.renew_toolbox = self._programs.renew_toolbox
        self._stored_agents = StoredAgents(self.store, self.catalog, administration, self._installing)
        self.logs.take_agent = self._stored_agents.take_if_missing
        self._variants = Variants(self.catalog, self._installing)
        self._forking = Forking(
            self.store,
            self.ticker,
            self.logs,
            self.catalog,
            self._recovery,
            self.registry,
            self.schedule,
            ids,
            salts,
            self.settings,
        )

    async def _known(self, id_: str, *, or_posted: bool = False) -> LogId:
        """The log of a stored conversation; or_posted: or of one whose first task is on its way there, as that of a subagent
        for a moment. Raises UnknownConversation."""
        try:
            log = LogId(conversation_id(id_))
        except ValueError as error:
            raise UnknownConversation(id_[:80]) from error
        if log in self.ticker.loaded or await self.store.log(log) is not None:
            return log
        if or_posted and (await self.store.inbox(log) or await self.store.log(log) is not None):
            return log
        raise UnknownConversation(log)

    async def _open(self) -> None:
        """From here on it runs on this loop. Raises StoreError when the store cannot be opened."""
        self.runner.open()
        self._commands.open()
        self.ticker.open(await self.store.open(uuid.uuid4().hex))
        await self._shares.open()
        self._polling.open()
        self.vitals.open()

    async def close(self, grace_s: float | None = None) -> None:
        """Takes no more, lets running effects end within grace_s, cancels the rest, stores, closes every scope.

        Turns that are still open then are found by `recover`.
        """
        if self._commands.closed:
            return
        self._commands.closed = self.services.draining = True
        await self._polling.take_up_no_more()
        grace_s = self.settings.close_grace_s if grace_s is None else grace_s
        try:
            if grace_s > 0:
                await self._drain(grace_s)
                await self._installing.log.wait_recorded(grace_s)
            self.ticker.start_no_more()
            self.services.closing = True
            self.runner.cancel_all()
            await self.runner.wait_idle(self.settings.release_s)
            await self.ticker.wait_quiet()
        finally:
            await self._shut()

    def hurry(self) -> None:
        """Ends the grace of a close that is under way: what still runs is cancelled now."""
        self.ticker.start_no_more()
        self.services.closing = True
        self.runner.cancel_all()

    async def _drain(self, grace_s: float) -> None:
        """Until nothing runs any more: the end of an effect may start the next."""
        until = self.clock.monotonic() + grace_s
        while self.clock.monotonic() < until and not self.services.closing:
            await self.ticker.wait_quiet()
            if len(self.runner):
                await self.runner.wait_idle(until - self.clock.monotonic())
            elif not await self.logs.wait_arrived():
                return

    async def _shut(self) -> None:
        self.vitals.close()
        await self._polling.close()
        await self._host.close()
        await self._installing.close()
        await self.logs.close()
        await self.ticker.close()
        self.runner.close()
        self.watchers.close()
        toolboxes = list(self.catalog.toolboxes.values())
        try:
            await self.scope.close()
        finally:
            if self._door is not None:
                await self._door.close()
            self.resources.shut()
            self.left = leftovers(self.runner, self.resources, toolboxes)
            await self.catalog.models.close()
            await self.store.close()
