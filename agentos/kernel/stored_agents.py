"""Agents of forks that this process does not have: their definitions are taken from the store.

A variant was installed beside the agent that it varies, in the process that forked. The store has its prompts, model and
limits, and which tools it uses. What runs comes from the project as it stands: toolboxes are used by name, and a toolbox
of an agent's own only where the agent that is varied has the very same one. So nothing runs since a store says so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import ValidationError

from agentos import codec
from agentos.definitions import AgentSpec
from agentos.definitions.private_toolbox import Private
from agentos.errors import ConfigurationError, StoreDamaged, UnknownAgent
from agentos.events.entry import digest_of_body
from agentos.ids import LogId, Name, agent_id
from agentos.kernel.administration import Administration
from agentos.kernel.agents import Agent, agent_of
from agentos.kernel.catalog import Catalog
from agentos.kernel.installing import Installing
from agentos.persistence.base import Store

_log = logging.getLogger(__name__)


class StoredAgents:
    """Puts agents in force from their definitions in the store."""

    def __init__(self, store: Store, catalog: Catalog, administration: Administration, installing: Installing) -> None:
        self._store, self._catalog = store, catalog
        self._administration, self._installing = administration, installing

    async def take_if_missing(self, slug: Name) -> None:
        """For a fork that is loaded: one whose agent cannot be taken goes on with what its open turn pins, and this is told
        by a warning. Raises StoreUnavailable."""
        try:
            await self.take(slug)
        except (ConfigurationError, StoreDamaged) as error:
            _log.warning("a fork has an agent that begins no other turn here: %s", error)

    async def take(self, slug: Name) -> None:
        """Has an agent in force, unless it is already.

        Errors: UnknownAgent when the store has none, or it was removed; ConfigurationError for a toolbox that the project
        does not have; StoreDamaged, StoreUnavailable.
        """
        async with self._installing.lock:
            if slug not in self._catalog.agents:
                await self._installing.put_agent(self._agent(await self._stored(slug)))

    async def _stored(self, slug: Name) -> AgentSpec:
        """The definition that was in force last."""
        installed = await self._administration.installed(LogId(agent_id(slug)))
        if installed.definition is None:
            raise UnknownAgent(slug, list(self._catalog.agents))
        found = await self._store.definition(installed.definition)
        if found is None or digest_of_body(found[1]) != installed.definition:
            what = "is missing" if found is None else "has another digest"
            raise StoreDamaged(self._store.url, f"definition {installed.definition} of agent {slug} {what}")
        try:
            return AgentSpec.model_validate(codec.decode_json(found[1]))
        except ValidationError as error:
            what = f"{error.error_count()} keys that this program does not know"
            raise ConfigurationError(
                f"agent {slug}: its stored definition has {what}; install it from a file"
            ) from error

    def _agent(self, spec: AgentSpec) -> Agent:
        """With the folder and the toolboxes of the agent that it varies, as the project has that one."""
        varied = self._catalog.agents.get(Name(spec.slug.rpartition("-")[0]))
        own = [ref for ref in varied.toolboxes if isinstance(ref, Private)] if varied is not None else []
        said = {name: getattr(spec, name) for name in AgentSpec.model_fields}
        said["toolboxes"] = [_of_project(spec, ref, own) if isinstance(ref, Private) else ref for ref in spec.toolboxes]
        made = agent_of((varied or spec).model_copy(update=said), None)
        base = self._catalog.models.base.get(Name(varied.slug)) if varied is not None else None
        return Agent(made.spec, base, made.working_directory)


def _of_project(spec: AgentSpec, ref: Private, own: Sequence[Private]) -> Private:
    """The toolbox of the agent that is varied of which its file says the same. Raises ConfigurationError for none."""
    for known in own:
        if type(known) is type(ref) and known.model_dump_json() == ref.model_dump_json():
            return known
    why = f"its toolbox {ref.name!r} stands in the store alone, and nothing is run from there"
    raise ConfigurationError(f"agent {spec.slug}: {why}; name a file with this agent (--agent-file)")
