"""Another configuration for a recorded conversation: an agent, a prompt, tools, or the script of a model.

Nothing is opened and nothing is called: what toolboxes offer and what other agents say of themselves is read from the
store, as it was when the turn began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentos import codec
from agentos.components import AgentConfig, AgentContext, Narrowing, ToolboxConfig, ToolboxSharing, ToolSpec
from agentos.definitions import AgentSpec
from agentos.definitions.narrowing import narrowed
from agentos.definitions.resolve import resolve
from agentos.errors import ConfigurationError, StoreDamaged
from agentos.events.entry import Registry, decode_entry
from agentos.ids import Digest, Kind, LogId, Name, agent_id, hashed_id
from agentos.models.script import Script
from agentos.persistence.base import Store
from agentos.settings import Settings

replace = msgspec.structs.replace


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """What is put in the place of what was recorded; what is None stays.

    name says what it is, for people. tools go in the place of all that their toolboxes offered, by toolbox.
    """

    name: str
    agent: AgentSpec | None = None
    prompt: tuple[str, ...] | None = None
    tools: Mapping[Name, Sequence[ToolSpec]] | None = None
    script: Script | None = None


class Asked(msgspec.Struct, frozen=True):
    """With what a turn asked for its context: how deep its conversation stands, and how its task narrows its tools."""

    depth: int
    narrowings: tuple[Narrowing, ...] = ()


class Variation:
    """Turns the contexts of one store into those that a variant would have given."""

    def __init__(self, store: Store, variant: Variant) -> None:
        self._store, self.variant = store, variant
        self._registry = Registry()
        self._made: dict[Digest, AgentContext] = {}

    def __getitem__(self, digest: Digest) -> AgentContext:
        return self._made[digest]

    async def learn(self, digest: Digest, recorded: AgentContext, asked: Asked, at: int) -> AgentContext:
        """The context in the place of the one that a turn pinned at that time.

        Errors: ConfigurationError for a toolbox or an agent that the store does not tell of.
        """
        if digest not in self._made:
            self._made[digest] = await self._context(recorded, asked, at)
        return self._made[digest]

    async def _context(self, recorded: AgentContext, asked: Asked, at: int) -> AgentContext:
        variant = self.variant
        if variant.prompt is not None:
            return replace(recorded, prompt=variant.prompt)
        if variant.agent is None and variant.tools is None:
            return recorded
        before = await self._definition(recorded.definition)
        spec = variant.agent or before
        if spec is None:
            raise ConfigurationError(
                f"the store does not tell the definition of {recorded.slug} that its turns pinned; name an agent's file"
            )
        context = resolve(
            spec,
            toolboxes=await self._toolboxes(spec, recorded, at),
            agents=await self._agents(spec, at),
            settings=Settings(depth_max=recorded.depth_max),
            rules=recorded.rules,
            leaf=asked.depth >= recorded.depth_max,
        )
        kept_approval = before is None or recorded.approval is not before.approval
        return replace(
            narrowed(context, asked.narrowings),
            agent=recorded.agent,
            slug=recorded.slug,
            approval=recorded.approval if kept_approval else context.approval,
            hooks=recorded.hooks,
            definition=recorded.definition,
            revision=recorded.revision,
            toolboxes=recorded.toolboxes,
        )

    async def _toolboxes(self, spec: AgentSpec, recorded: AgentContext, at: int) -> dict[Name, Any]:
        """What each toolbox of the agent offered: the version that the turn pinned, else the one in force then."""
        pinned = {version.name: version.toolset for version in recorded.toolboxes}
        given = self.variant.tools or {}
        shelves: dict[Name, Any] = {}
        for use in spec.toolbox_uses:
            name = Name(use.name)
            if name in given:
                shelves[name] = _Shelf(name, given[name])
                continue
            digest = pinned.get(name) or await self._in_force(hashed_id(Kind.TOOLBOX, name), at)
            if digest is None:
                raise ConfigurationError(
                    f"agent {spec.slug}: the store does not tell what toolbox {name} offers; nothing is opened for a"
                    " replay: give its tools with --against TOOLS.json, as 'agentos tool list --json' prints them"
                )
            shelves[name] = _Shelf(name, await self._toolset(digest))
        return shelves

    async def _agents(self, spec: AgentSpec, at: int) -> dict[Name, AgentSpec]:
        """The agents that this one may ask, and itself, as they were."""
        found = {Name(spec.slug): spec}
        for use in spec.subagent_uses:
            digest = await self._in_force(agent_id(use.slug), at)
            other = await self._definition(digest) if digest else None
            if other is not None:
                found.setdefault(Name(use.slug), other)
        return found

    async def _in_force(self, log: str, at: int) -> Digest | None:
        """What the log of an agent or toolbox had in force at a time, or first, when it came later."""
        found: Digest | None = None
        for stored in await self._store.entries(log):
            entry = decode_entry(LogId(log), stored.head, {}, self._registry)
            if found is not None and entry.at > at:
                break
            for _, component in entry.changes:
                if isinstance(component, AgentConfig):
                    found = component.definition
                elif isinstance(component, ToolboxConfig):
                    found = component.toolset
        return found

    async def _definition(self, digest: Digest) -> AgentSpec | None:
        found = await self._store.definition(digest) if digest else None
        return AgentSpec.model_validate(codec.decode_json(found[1])) if found is not None else None

    async def _toolset(self, digest: Digest) -> Sequence[ToolSpec]:
        found = await self._store.definition(digest)
        if found is None:
            raise StoreDamaged(self._store.url, f"definition {digest} is missing")
        return codec.convert(codec.decode_json(found[1])["tools"], tuple[ToolSpec, ...])


class _Shelf:
    """A toolbox that only tells what it offers."""

    kind = Name("recorded")
    sharing, size = ToolboxSharing.STATELESS, 0

    def __init__(self, name: Name, tools: Sequence[ToolSpec]) -> None:
        self.name = name
        self._tools = [replace(tool, toolbox=name) for tool in tools]

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools
