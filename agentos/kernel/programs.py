"""The agents and toolboxes of one kernel, as people put them in force, look at them and take them out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentos.components import ToolSpec
from agentos.definitions import AgentSpec, ToolboxUse
from agentos.errors import ConfigurationError
from agentos.ids import Name, agent_id
from agentos.kernel.agents import agent_of, read_agent
from agentos.kernel.catalog import Catalog
from agentos.kernel.following import Following
from agentos.kernel.installing import Installing
from agentos.kernel.polling import Polling
from agentos.models.base import ModelClient
from agentos.toolboxes.base import Renewable, Toolbox


class Programs:
    """Changes one thing after the other, and has the files of all that is in force followed."""

    def __init__(self, catalog: Catalog, installing: Installing, following: Following, polling: Polling) -> None:
        self._catalog, self._installing = catalog, installing
        self._following, self._polling = following, polling

    async def install(
        self,
        spec: AgentSpec | str | os.PathLike[str],
        model: ModelClient | None,
        working_directory: Path | None,
    ) -> Name:
        """Raises ConfigurationError."""
        spec, path, seen = read_agent(spec)
        agent = agent_of(spec, working_directory, model)
        async with self._installing.lock:
            self._installing.forget_bound(agent.slug)
            await self._installing.put_agent(agent)
            self._following.follow(agent, path, seen)
        self._polling.watch_files()
        if spec.retention is not None and spec.retention.erase_after_s is not None:
            self._polling.sweep()
        return agent.slug

    async def add_toolbox(self, toolbox: Toolbox) -> Name:
        """Raises ConfigurationError."""
        async with self._installing.lock:
            await self._installing.put_toolbox(toolbox)
        self._polling.watch_files()
        return toolbox.name

    def bind(self, agent: str, toolbox: str, expose: Sequence[str] | None, grant: Sequence[str] | None) -> None:
        self._installing.rebind(Name(agent), toolbox, ToolboxUse(name=toolbox, expose=expose, grant=grant))

    def unbind(self, agent: str, toolbox: str) -> None:
        self._installing.rebind(Name(agent), toolbox, None)

    async def remove(self, name: Name) -> None:
        """An agent, or else a toolbox. Raises UnknownToolbox, ReleaseFailed."""
        async with self._installing.lock:
            if name in self._catalog.agents:
                await self._installing.take_agent(name)
                self._following.forget(name)
            else:
                await self._installing.take_toolbox(name)

    async def renew_toolbox(self, name: Name) -> int:
        """Has an open toolbox begin anew what it keeps alive of its own, and takes up what it offers then. Says how many
        things there were. Raises StoreUnavailable."""
        toolbox: object = self._catalog.toolboxes.get(name)
        if not isinstance(toolbox, Renewable):
            return 0
        count = await toolbox.renew()
        async with self._installing.lock:
            reloadable = self._catalog.reloadable.get(name)
            if reloadable is not None and reloadable.changed():
                await self._installing.reload_toolbox(reloadable)
        return count

    def check(self) -> None:
        """Resolves every agent. Raises ConfigurationError with the first problem of each, a line each."""
        problems: list[ConfigurationError] = []
        for slug in self._catalog.agents:
            try:
                self.offered(slug)
            except ConfigurationError as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise ConfigurationError("\n".join(map(str, problems)))

    def offered(self, agent: str) -> tuple[ToolSpec, ...]:
        """By name. Raises UnknownAgent, ConfigurationError."""
        spec = self._catalog.spec(agent)
        context = self._catalog.pinned(self._catalog.current(agent_id(agent), 0))
        self._catalog.models.of(Name(spec.slug), spec.model_ref)
        return context.tools
