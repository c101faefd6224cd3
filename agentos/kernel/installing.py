"""Puts agents and toolboxes in force and takes them out, while turns run: one change after the other.

What an agent's file holds of toolboxes is the agent's own: it is opened in a scope below the agent's, stays open as long
as the file says the same of it, and closes with the agent. What is taken out closes once the calls that run have ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from agentos.clock import Clock
from agentos.components import AgentState, CallConfig, ToolboxConfig
from agentos.definitions import AgentSpec, ToolboxUse
from agentos.definitions.boxes import own_toolboxes
from agentos.effects import Runner
from agentos.errors import ConfigurationError
from agentos.events.effects import Probe, RunCall
from agentos.events.kinds import ToolboxChanged, ToolboxClosed, ToolboxOpened
from agentos.ids import LogId, Name, agent_id
from agentos.kernel.accounts import Accounts
from agentos.kernel.administration import Administration
from agentos.kernel.agents import Agent, bound
from agentos.kernel.catalog import Catalog
from agentos.kernel.install_log import InstallLog, logged, spawn, toolbox_log
from agentos.resources import Resources, Scope
from agentos.resources.account import Account, borne_by
from agentos.resources.scope import Level
from agentos.toolboxes.base import Reloadable, Toolbox, resources_of, unavailable_of
from agentos.world import World

_log = logging.getLogger(__name__)


class _Own(msgspec.Struct, frozen=True):
    """A toolbox that an agent's file holds: what the file says of it, and where it counts from."""

    said: str
    toolbox: Toolbox


class Installing:
    """What is in force in one kernel changes here alone; whoever calls what waits holds `lock`."""

    def __init__(
        self,
        catalog: Catalog,
        administration: Administration,
        world: World,
        program: Scope,
        runner: Runner,
        clock: Clock,
        resources: Resources,
    ) -> None:
        self._catalog, self._administration, self._world = catalog, administration, world
        self._program, self._runner, self._resources = program, runner, resources
        self.log = InstallLog(catalog, administration, world, clock)
        self.lock = asyncio.Lock()
        self.accounts: Accounts | None = None
        """Where what resources take is bounded."""
        self._own: dict[Name, dict[Name, _Own]] = {}
        self._scopes: dict[Name, Scope] = {}
        self._bound: dict[Name, dict[str, ToolboxUse | None]] = {}
        self._ends: set[asyncio.Task[None]] = set()

    # Agents

    async def put_agent(self, agent: Agent, with_: Mapping[Name, AgentSpec] | None = None) -> None:
        """Puts a definition in force, with the toolboxes that it holds.

        with_: only when all that it names is there, where these agents count as if they were installed.
        Errors: ConfigurationError; what was in force stays so then, and is not touched.
        """
        made = await self._open_own(agent)
        try:
            if with_ is not None:
                self._try_out(agent, made, with_)
            stored = await self._administration.installed(LogId(agent_id(agent.slug)))
            counted = {name: await self._administration.installed(toolbox_log(name)) for name in made}
        except BaseException:
            await _close_all([own.toolbox for own in made.values()])
            raise
        before, kept = self._own.get(agent.slug, {}), agent.own
        dropped = [name for name in before if name not in kept]
        ends = [self._out(name) for name in before if name in made or name in dropped]
        for name in dropped:
            self._catalog.remove_toolbox(name)
        for name, own in made.items():
            self._catalog.toolboxes.pop(name, None)  # one that is replaced is not told as closed
            self._catalog.add_toolbox(own.toolbox, counted[name])
        self._catalog.install(agent.spec, agent.base, agent.model, stored)
        self._own[agent.slug] = {name: made.get(name) or before[name] for name in kept}
        try:
            for end in ends:
                await logged(self._end(*end))
        finally:
            for own in made.values():
                self._hold(self._program.child(Level.AGENT, agent.slug), own.toolbox)
        self.log.tell_agent(agent.slug)
        for name in made:
            self.log.tell_toolbox(name, ToolboxChanged() if name in before else ToolboxOpened())
        for name in dropped:
            self.log.tell_toolbox(name, ToolboxClosed())
        await self.log.write()

    def rebind(self, slug: Name, toolbox: str, use: ToolboxUse | None) -> None:
        """Lets an installed agent use an open toolbox, or not any more; its log is told in a moment."""
        self._catalog.rebind(slug, bound(self._catalog.spec(slug), toolbox, use))
        self._bound.setdefault(slug, {})[toolbox] = use
        self.log.tell_agent(slug)
        self.log.write_soon()

    def rebound(self, spec: AgentSpec) -> AgentSpec:
        """A definition with what was bound and unbound since the agent was installed."""
        for toolbox, use in self._bound.get(Name(spec.slug), {}).items():
            spec = bound(spec, toolbox, use)
        return spec

    def forget_bound(self, slug: Name) -> None:
        self._bound.pop(slug, None)

    async def take_agent(self, slug: Name) -> None:
        """Its open turns end as they are. Raises UnknownAgent."""
        self._catalog.remove_agent(slug)
        self.forget_bound(slug)
        state = self._world.get(agent_id(slug), AgentState)
        assert state is not None, "an installed agent is in the World"
        own = self._own.pop(slug, {})
        for name in own:
            self._catalog.remove_toolbox(name)
        for end in [self._out(name) for name in own]:
            await logged(self._end(*end))
        scope = self._program.find(Level.AGENT, slug)
        if scope is not None:
            await close_unused(scope)
        self.log.tell_removed(slug, state)
        for name in own:
            self.log.tell_toolbox(name, ToolboxClosed())
        await self.log.write()

    # Toolboxes

    async def put_toolbox(self, toolbox: Toolbox) -> None:
        """Opens a toolbox and shares it. Raises ConfigurationError; StoreUnavailable, and then it is not there."""
        with borne_by(self._account(toolbox.name)):
            await toolbox.open()
        try:
            self._catalog.add_toolbox(toolbox, await self._administration.installed(toolbox_log(toolbox.name)))
        except BaseException:
            await toolbox.close()
            raise
        self._hold(self._program, toolbox)
        try:
            self.log.tell_toolbox(toolbox.name, ToolboxOpened())
            await self._administration.write()
        except BaseException:
            self._administration.forget(toolbox_log(toolbox.name))
            self._catalog.remove_toolbox(toolbox.name)
            await self._end(*self._out(toolbox.name))
            raise

    async def reload_toolbox(self, toolbox: Toolbox) -> ToolboxConfig:
        """Has a toolbox read its files again, and takes up what it offers then, for the next turns; its log is told in a
        moment.

        Errors: whatever the toolbox raises; what it had stays.
        """
        assert isinstance(toolbox, Reloadable), "others are never asked to"
        stored = await self._administration.installed(toolbox_log(toolbox.name))
        with borne_by(self._account(toolbox.name)):
            await toolbox.reload()
        config = self._catalog.take_toolset(toolbox, stored)
        self.log.tell_toolbox(toolbox.name, ToolboxChanged())
        self.log.write_soon()
        return config

    async def take_toolbox(self, name: Name) -> None:
        """Raises UnknownToolbox; ReleaseFailed when it does not close."""
        self._catalog.remove_toolbox(name)
        end = self._out(name)
        for owned in self._own.values():
            owned.pop(name, None)
        self.log.tell_toolbox(name, ToolboxClosed())
        try:
            await self.log.write()
        finally:
            await self._end(*end)

    def _account(self, name: Name, agent: Name | None = None) -> Account | None:
        """On which stands what a toolbox makes as it is opened or read again; agent: whose own it is."""
        if self.accounts is None:
            return None
        scope = self._scopes.get(name)
        return self.accounts.of_scope(scope) if scope is not None else self.accounts.of_toolbox(name, agent)

    def scope_of(self, name: Name) -> Scope | None:
        """The scope of an open toolbox."""
        return self._scopes.get(name)

    async def close(self) -> None:
        """Nothing waits any more; the scope of the program closes what is open."""
        await self.log.close()
        for task in self._ends:
            task.cancel()
        await asyncio.gather(*self._ends, return_exceptions=True)

    async def _open_own(self, agent: Agent) -> dict[Name, _Own]:
        """The toolboxes of an agent's file that are new, or of which it says something else now; open."""
        said, parts = agent.own, agent.spec.private_toolboxes
        before = self._own.get(agent.slug, {})
        new = [
            name
            for name, one in said.items()
            if name not in before or before[name].said != one or unavailable_of(before[name].toolbox)
        ]
        taken = next((name for name in new if name in self._catalog.toolboxes and name not in before), None)
        if taken is not None:
            raise ConfigurationError(f"agent {agent.slug}: a toolbox named {taken!r} is open already")
        if not new:
            return {}
        opened: list[Toolbox] = []
        try:
            only = agent.spec.model_copy(update={"toolboxes": [part for name, part in parts if Name(name) in new]})
            for toolbox in own_toolboxes(only, agent.working_directory):
                with borne_by(self._account(toolbox.name, agent.slug)):
                    await toolbox.open()
                opened.append(toolbox)
        except BaseException:
            await _close_all(opened)
            raise
        return {toolbox.name: _Own(said[toolbox.name], toolbox) for toolbox in opened}

    def _try_out(self, agent: Agent, made: Mapping[Name, _Own], with_: Mapping[Name, AgentSpec]) -> None:
        """Raises ConfigurationError for a toolbox that cannot be used and could before, or a name that leads nowhere."""
        before = self._own.get(agent.slug, {})
        for name, own in made.items():
            reason = unavailable_of(own.toolbox)
            if reason and not (name in before and unavailable_of(before[name].toolbox)):
                raise ConfigurationError(f"{agent.spec.path or agent.slug}: toolbox {name}: {reason}")
        self._catalog.try_out(agent.spec, {name: own.toolbox for name, own in made.items()}, with_)

    def _hold(self, parent: Scope, toolbox: Toolbox) -> None:
        """A scope of its own. One of that name may still be waiting for the calls of its predecessor, or about to end."""
        name, number = str(toolbox.name), 1
        taken = {scope.path[-1] for scope in parent.children if scope.level is Level.TOOLBOX}
        while name in taken:
            number += 1
            name = f"{toolbox.name}#{number}"
        scope = self._scopes[toolbox.name] = parent.child(Level.TOOLBOX, name)
        scope.push("toolbox", toolbox.close)
        for shared in resources_of(toolbox):
            self._resources.adopt(scope, shared)

    def _out(self, name: Name) -> tuple[Scope, list[asyncio.Task[None]]]:
        """The scope of a toolbox that is no longer in force, and the calls that still use it."""
        users = [task for effect, task in self._runner.running() if self._toolbox_of(effect) == name]
        return self._scopes.pop(name), users

    def _toolbox_of(self, effect: object) -> Name | None:
        if not isinstance(effect, (RunCall, Probe)):
            return None
        slice_ = self._world.slice(effect.log)
        config = slice_.get(effect.call, CallConfig) if slice_ is not None else None
        return config.toolbox if config is not None else None

    async def _end(self, scope: Scope, users: Sequence[asyncio.Task[None]]) -> None:
        """Closes it, in the background when calls still run there."""
        if users:
            spawn(self._ends, self._close_after(users, scope))
        else:
            await scope.close()

    async def _close_after(self, users: Sequence[asyncio.Task[None]], scope: Scope) -> None:
        await asyncio.wait(users)
        await scope.close()
        agent = scope.parent
        if agent is not None and agent.level is Level.AGENT and Name(agent.path[-1]) not in self._catalog.agents:
            await close_unused(agent)


async def close_unused(scope: Scope) -> None:
    """Closes a scope in which nothing is open any more. What an agent had of its own goes with the last scope inside."""
    if not scope.children and (scope.level is Level.AGENT or not scope.open):
        await scope.close()


async def _close_all(toolboxes: Sequence[Toolbox]) -> None:
    for toolbox in reversed(toolboxes):
        try:
            await toolbox.close()
        except Exception as error:
            _log.warning("toolbox %s did not close: %s: %s", toolbox.name, type(error).__name__, error)
