"""Agents that differ from an installed one in a model or a prompt, or that a fork brings along: installed beside it.

A variant has a name of its own, which says whose it is and what it is made of; its definition is in the store like any
other. So the turns that follow in the fork pin it too, and the agent that others use stays as it is.
"""

from __future__ import annotations

import os

from agentos import codec
from agentos.definitions import AgentSpec
from agentos.definitions.spec import ModelUse
from agentos.events.entry import digest_of_body
from agentos.ids import Name
from agentos.kernel.agents import Agent, agent_of, read_agent
from agentos.kernel.catalog import Catalog
from agentos.kernel.installing import Installing
from agentos.models.base import ModelClient

DIGITS = 8
"""Of the digest of its definition, how many end the name of a variant."""
SLUG_CHARS_MAX = 60

Whole = AgentSpec | str | os.PathLike[str]
"""A definition, the slug of an installed agent, or a file."""


class Variants:
    """What was installed for forks in one kernel."""

    def __init__(self, catalog: Catalog, installing: Installing) -> None:
        self._catalog, self._installing = catalog, installing
        self._clients: list[ModelClient] = []

    async def slug_of(
        self, slug: Name, agent: Whole | None, model: ModelClient | str | None, prompt: str | None
    ) -> Name:
        """The agent to go on with in the place of slug: the same when nothing is varied, else one that is installed now.

        Errors: UnknownAgent; ConfigurationError, also for a model that cannot be made.
        """
        if agent is None and model is None and prompt is None:
            return slug
        base = self._whole(slug, agent)
        spec = _varied(base, model if isinstance(model, str) else None, prompt)
        client = self._client(base, model)
        if not isinstance(model, str | None) or not self._is_installed(spec):
            spec = self._named(spec, base.slug, client if model is client else None)
        async with self._installing.lock:
            if not self._is_installed(spec):
                await self._installing.put_agent(self._agent(spec, base, client))
        self._catalog.models.of(Name(spec.slug), spec.model_ref)
        return Name(spec.slug)

    def _whole(self, slug: Name, agent: Whole | None) -> AgentSpec:
        """The definition that is varied."""
        if agent is None:
            return self._catalog.spec(slug)
        if isinstance(agent, str) and Name(agent) in self._catalog.agents:
            return self._catalog.spec(agent)
        return read_agent(agent)[0]

    def _client(self, base: AgentSpec, model: ModelClient | str | None) -> ModelClient | None:
        """The client that answers: a given one, else that of the agent, unless its model is another one now."""
        if model is None:
            return self._catalog.models.given.get(Name(base.slug))
        return None if isinstance(model, str) else model

    def _is_installed(self, spec: AgentSpec) -> bool:
        there = self._catalog.agents.get(Name(spec.slug))
        return there is not None and _body(there) == _body(spec)

    def _named(self, spec: AgentSpec, slug: str, client: ModelClient | None) -> AgentSpec:
        """The same under a name of its own, unless the agent is not installed yet and its model is that of its file."""
        if client is None and Name(slug) not in self._catalog.agents:
            return spec
        parts = _body(spec)
        if client is not None:
            if client not in self._clients:
                self._clients.append(client)
            parts += f"\0client {self._clients.index(client)}"
        ending = f"-{digest_of_body(parts)[:DIGITS]}"
        return spec.model_copy(update={"slug": f"{slug[: SLUG_CHARS_MAX - len(ending)]}{ending}"})

    def _agent(self, spec: AgentSpec, base: AgentSpec, client: ModelClient | None) -> Agent:
        made = agent_of(spec, None, client)
        there = self._catalog.models.base.get(Name(base.slug))
        return Agent(spec, there, made.working_directory, client) if made.base is None else made


def _varied(spec: AgentSpec, model: str | None, prompt: str | None) -> AgentSpec:
    """Another model of the same kind is asked with the same options: where it is, and how it is paid."""
    if prompt is not None:
        spec = spec.model_copy(update={"system_prompt": prompt})
    if model is None:
        return spec
    before = spec.model_ref
    changed = spec.model_copy(update={"model": model})
    after = changed.model_ref
    if after.kind == before.kind and before.options:
        return spec.model_copy(update={"model": ModelUse(kind=after.kind, name=after.name, options=before.options)})
    return changed


def _body(spec: AgentSpec) -> str:
    return codec.encode_body(spec.model_dump(mode="json"))
