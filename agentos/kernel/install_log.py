"""What is put in force and taken out is told to the logs of agents and toolboxes, also when the store is not there now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from agentos.clock import Clock
from agentos.components import AgentConfig, AgentState, ToolboxConfig
from agentos.errors import StoreUnavailable
from agentos.events.kinds import AgentInstalled, AgentRemoved, EntryData
from agentos.ids import Kind, LogId, Name, agent_id, hashed_id
from agentos.kernel.administration import Administration
from agentos.kernel.catalog import Catalog
from agentos.kernel.unknown_commits import STORE_RETRY_S
from agentos.world import World

_log = logging.getLogger(__name__)


class InstallLog:
    """What is told is written with the next `write`, or in a moment after `write_soon`."""

    def __init__(self, catalog: Catalog, administration: Administration, world: World, clock: Clock) -> None:
        self._catalog, self._administration, self._world, self._clock = catalog, administration, world, clock
        self._writers: set[asyncio.Task[None]] = set()

    def tell_agent(self, slug: Name) -> None:
        id_ = agent_id(slug)
        config, state = self._world.get(id_, AgentConfig), self._world.get(id_, AgentState)
        assert config is not None and state is not None, "an installed agent is in the World"
        rows = (self._catalog.body(config.definition),)
        self._administration.later(LogId(id_), Kind.AGENT, AgentInstalled(), (config, state), rows)

    def tell_removed(self, slug: Name, state: AgentState) -> None:
        self._administration.later(LogId(agent_id(slug)), Kind.AGENT, AgentRemoved(), (state,))

    def tell_toolbox(self, name: Name, data: EntryData) -> None:
        config = self._world.get(hashed_id(Kind.TOOLBOX, name), ToolboxConfig)
        assert config is not None, "a toolbox that was opened is in the World"
        rows = () if config.closed else (self._catalog.body(config.toolset),)
        self._administration.later(toolbox_log(name), Kind.TOOLBOX, data, (config,), rows)

    async def write(self) -> None:
        """What is in force is told in the end, also when the store is not there now. Raises StoreUnavailable."""
        try:
            await self._administration.write()
        except StoreUnavailable:
            self.write_soon()
            raise

    def write_soon(self) -> None:
        if all(task.done() for task in self._writers):
            spawn(self._writers, self._write_patiently())

    async def _write_patiently(self) -> None:
        """However long the store is out of reach; nobody waits for it."""
        while True:
            try:
                return await self._administration.write()
            except StoreUnavailable:
                await self._clock.sleep(STORE_RETRY_S)

    async def wait_recorded(self, limit_s: float) -> None:
        """Until the logs have all that was told them, or the limit is over."""
        if self._writers:
            await asyncio.wait(self._writers, timeout=limit_s)

    async def close(self) -> None:
        """Nothing waits for the store any more."""
        for task in self._writers:
            task.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)


def toolbox_log(name: Name) -> LogId:
    return LogId(hashed_id(Kind.TOOLBOX, name))


def spawn(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Does it in the background; the task stands in tasks until it has ended."""
    task = asyncio.get_running_loop().create_task(logged(work))
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def logged(work: Coroutine[Any, Any, None]) -> None:
    """What it raises is told by the log of this process alone: what was put in force stays so."""
    try:
        await work
    except Exception as error:
        _log.warning("a change of what is installed was not finished: %s: %s", type(error).__name__, error)
