"""What is installed: agents, open toolboxes, models and hooks, and the contexts that turns pin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

import msgspec

from agentos import codec
from agentos.clock import Clock
from agentos.components import (
    AgentConfig,
    AgentContext,
    AgentState,
    Narrowing,
    ToolboxBinding,
    ToolboxConfig,
    ToolboxState,
    ToolboxStatus,
    ToolboxVersion,
)
from agentos.definitions import AgentSpec
from agentos.definitions.narrowing import narrowed
from agentos.definitions.resolve import resolve
from agentos.errors import ConfigurationError, StoreDamaged, UnknownAgent, UnknownToolbox
from agentos.events.entry import digest_of, digest_of_body
from agentos.ids import AgentId, Digest, Kind, Name, ToolboxId, agent_id, hashed_id
from agentos.kernel.administration import Definition, Installed
from agentos.kernel.clients import Clients
from agentos.kernel.toolsets import state_of, toolset_of
from agentos.models.base import ModelClient
from agentos.ports import Approval, Hook
from agentos.resources import Slots
from agentos.settings import Settings
from agentos.toolboxes.base import Reloadable, Toolbox
from agentos.world import World

_Asked = tuple[AgentId, bool, tuple[Narrowing, ...]]
"""Of which agent a context is, whether it is as deep as agents may go, and how it is narrowed."""


class ReloadableToolbox(Toolbox, Reloadable, Protocol):
    """A toolbox whose files may change."""


class Catalog:
    """Names to live things. Contexts are resolved when first asked for, and again after any change.

    epoch grows with each change. reloadable are those of the toolboxes whose files may change. _bodies has what contexts
    name by digest: definitions of agents, and toolsets.
    """

    def __init__(
        self,
        world: World,
        slots: Slots,
        clock: Clock,
        settings: Settings,
        rules: Digest,
        approval: Approval | None,
        keys: Sequence[Path] = (),
        base_url: str | None = None,
    ) -> None:
        self._world, self._slots, self._settings, self._rules = world, slots, settings, rules
        self.models = Clients(clock, keys, base_url)
        self.approval = approval
        self.agents: dict[Name, AgentSpec] = {}
        self.toolboxes: dict[Name, Toolbox] = {}
        self.reloadable: dict[Name, ReloadableToolbox] = {}
        self.hooks: list[Hook] = []
        self._current: dict[_Asked, Digest] = {}
        self._last: dict[_Asked, Digest] = {}
        self._held: set[AgentId] = set()
        self._contexts: dict[Digest, AgentContext] = {}
        self._bodies: dict[Digest, tuple[str, str]] = {}
        self.stored: set[str] = set()
        self.epoch = 0
        self.taken: Callable[[AgentSpec], None] | None = None
        """Hears of each definition that comes into force."""

    def install(self, spec: AgentSpec, base: Path | None, model: ModelClient | None, stored: Installed) -> Digest:
        """Puts a definition in force; the next turns of its agent pin it. stored is what its log says, to count on from."""
        slug, id_ = Name(spec.slug), agent_id(spec.slug)
        self.models.base[slug] = base
        if model is not None or slug not in self.agents:
            self.models.give(slug, model)
        body = codec.encode_body(spec.model_dump(mode="json"))
        digest = digest_of_body(body)
        self._bodies[digest] = ("agent", body)
        revision = _counted(digest, stored, self._here(id_))
        self._take(slug, spec)
        if self.taken is not None:
            self.taken(spec)
        self._world.set(id_, AgentConfig(slug=slug, definition=digest))
        self._world.set(id_, AgentState(revision=revision))
        return digest

    def remove_agent(self, slug: Name) -> None:
        if self.agents.pop(slug, None) is None:
            raise UnknownAgent(slug, list(self.agents))
        id_ = agent_id(slug)
        self._changed()
        self._held.discard(id_)
        self._last = {asked: digest for asked, digest in self._last.items() if asked[0] != id_}
        before = self._world.get(id_, AgentState)
        self._world.set(id_, AgentState(revision=before.revision if before is not None else 1, removed=True))

    def rebind(self, slug: Name, spec: AgentSpec) -> Digest:
        """Another set of toolboxes for an installed agent, from its next turn on."""
        return self.install(spec, self.models.base.get(slug), None, Installed(None, 0))

    def add_toolbox(self, toolbox: Toolbox, stored: Installed) -> ToolboxConfig:
        """Lets agents use an open toolbox. stored is what its log says, to count on from.

        Errors: ConfigurationError when one of this name is open.
        """
        if toolbox.name in self.toolboxes:
            raise ConfigurationError(f"a toolbox named {toolbox.name!r} is open already")
        self.toolboxes[toolbox.name] = toolbox
        self.reloadable.pop(toolbox.name, None)
        if isinstance(toolbox, Reloadable):
            self.reloadable[toolbox.name] = cast(ReloadableToolbox, toolbox)
        self._slots.add(toolbox.name, toolbox.sharing, toolbox.size)
        return self.take_toolset(toolbox, stored)

    def take_toolset(self, toolbox: Toolbox, stored: Installed) -> ToolboxConfig:
        """What an open toolbox offers now, for the next turns of the agents that use it."""
        self._changed()
        id_ = hashed_id(Kind.TOOLBOX, toolbox.name)
        body = codec.encode_body(toolset_of(toolbox))
        digest = digest_of_body(body)
        self._bodies[digest] = ("toolset", body)
        config = ToolboxConfig(
            name=toolbox.name,
            kind=toolbox.kind,
            sharing=toolbox.sharing,
            size=toolbox.size,
            toolset=digest,
            revision=_counted(digest, stored, self._here(id_)),
        )
        self._world.set(id_, config)
        self._world.set(id_, state_of(toolbox))
        return config

    def remove_toolbox(self, name: Name) -> ToolboxConfig:
        """Takes it out; running calls keep it until they end."""
        if self.toolboxes.pop(name, None) is None:
            raise UnknownToolbox(name, list(self.toolboxes))
        self.reloadable.pop(name, None)
        self._changed()
        self._slots.remove(name)
        id_ = hashed_id(Kind.TOOLBOX, name)
        config = self._world.get(id_, ToolboxConfig)
        assert config is not None, "an open toolbox is in the World"
        closed = msgspec.structs.replace(config, closed=True)
        self._world.set(id_, closed)
        self._world.set(id_, ToolboxState(status=ToolboxStatus.CLOSED))
        return closed

    def try_out(
        self, spec: AgentSpec, toolboxes: Mapping[Name, Toolbox], others: Mapping[Name, AgentSpec] | None = None
    ) -> None:
        """Whether a definition would do, with these toolboxes and agents beside those that are there.

        Errors: ConfigurationError.
        """
        agents = {**self.agents, **(others or {}), Name(spec.slug): spec}
        resolve(spec, toolboxes={**self.toolboxes, **toolboxes}, agents=agents, settings=self._settings)

    def definition_of(self, slug: Name) -> Digest:
        """The digest of the definition in force. Raises UnknownAgent."""
        config = self._world.get(agent_id(slug), AgentConfig)
        if config is None:
            raise UnknownAgent(slug, list(self.agents))
        return config.definition

    def hold(self, agent: AgentId) -> None:
        """Keeps the last contexts of an agent in force until it can be resolved again."""
        self._held.add(agent)

    def spec(self, slug: str) -> AgentSpec:
        found = self.agents.get(Name(slug))
        if found is None:
            raise UnknownAgent(slug, list(self.agents))
        return found

    def current(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        """The digest of the context that a turn beginning now pins. Raises UnknownAgent, ConfigurationError."""
        asked = (agent, depth >= self._settings.depth_max, narrowings)
        digest = self._current.get(asked)
        if digest is None:
            digest = self._current[asked] = self._last[asked] = self._resolve_or_hold(asked)
        return digest

    def pinned(self, digest: Digest) -> AgentContext:
        return self._contexts[digest]

    def knows(self, digest: Digest) -> bool:
        return digest in self._contexts

    def learn(self, digest: Digest, body: str) -> None:
        """A context read back from the store."""
        if digest_of_body(body) != digest:
            raise StoreDamaged("definitions", f"the body of {digest} has another digest")
        self._contexts[digest] = codec.convert(codec.decode_json(body), AgentContext)
        self.stored.add(digest)

    def definitions(self, digest: str) -> list[Definition]:
        """A context and what it names, as rows of `definitions`, without those that are stored."""
        context = self._contexts[Digest(digest)]
        named = (context.definition, *(toolbox.toolset for toolbox in context.toolboxes))
        rows = [self.body(part) for part in named if part in self._bodies and part not in self.stored]
        return [(digest, "context", codec.encode_body(msgspec.to_builtins(context))), *rows]

    def body(self, digest: Digest) -> Definition:
        """A definition of an agent, or a toolset, as a row of `definitions`."""
        return (digest, *self._bodies[digest])

    def are_stored(self, context: Digest) -> None:
        """The store has what `definitions` gave."""
        found = self._contexts[context]
        self.stored.update((context, found.definition, *(toolbox.toolset for toolbox in found.toolboxes)))

    def _resolve_or_hold(self, asked: _Asked) -> Digest:
        """What was last in force, for an agent that an edit has left without one of its tools."""
        try:
            digest = self._resolve(*asked)
        except ConfigurationError:
            if asked[0] in self._held and asked in self._last:
                return self._last[asked]
            raise
        self._held.discard(asked[0])
        return digest

    def _resolve(self, agent: AgentId, leaf: bool, narrowings: tuple[Narrowing, ...]) -> Digest:
        config, state = self._world.get(agent, AgentConfig), self._world.get(agent, AgentState)
        spec = self.agents.get(config.slug) if config is not None else None
        if spec is None or config is None or state is None:
            raise UnknownAgent(config.slug if config is not None else agent, list(self.agents))
        context = resolve(
            spec,
            toolboxes=self.toolboxes,
            agents=self.agents,
            settings=self._settings,
            rules=self._rules,
            leaf=leaf,
        )
        context = msgspec.structs.replace(
            narrowed(context, narrowings),
            approval=self.approval.mode if self.approval is not None else context.approval,
            hooks=tuple(hook.name for hook in self.hooks),
            definition=config.definition,
            revision=state.revision,
            toolboxes=self._versions(spec),
        )
        digest = digest_of(msgspec.to_builtins(context))
        self._contexts[digest] = context
        return digest

    def _versions(self, spec: AgentSpec) -> tuple[ToolboxVersion, ...]:
        configs = [self._world.get(hashed_id(Kind.TOOLBOX, use.name), ToolboxConfig) for use in spec.toolbox_uses]
        found = {c.name: ToolboxVersion(name=c.name, toolset=c.toolset, revision=c.revision) for c in configs if c}
        return tuple(found[name] for name in sorted(found))

    def _take(self, slug: Name, spec: AgentSpec) -> None:
        self.agents[slug] = spec
        self._held.discard(agent_id(slug))
        self._changed()
        agent = agent_id(slug)
        toolboxes = tuple(ToolboxId(hashed_id(Kind.TOOLBOX, use.name)) for use in spec.toolbox_uses)
        self._world.set(agent, ToolboxBinding(agent=agent, toolboxes=toolboxes))

    def _here(self, id_: str) -> Installed:
        """The version of an agent or a toolbox that this kernel has, or had last."""
        agent, state = self._world.get(id_, AgentConfig), self._world.get(id_, AgentState)
        if agent is not None and state is not None:
            return Installed(None if state.removed else agent.definition, state.revision)
        toolbox = self._world.get(id_, ToolboxConfig)
        if toolbox is not None:
            return Installed(None if toolbox.closed else toolbox.toolset, toolbox.revision)
        return Installed(None, 0)

    def _changed(self) -> None:
        self.epoch += 1
        self._current.clear()


def _counted(digest: Digest, stored: Installed, here: Installed) -> int:
    """The number of a version: the one before is that of the log, or of this kernel where that counts further."""
    before = here if here.revision >= stored.revision else stored
    return before.revision if before.definition == digest else before.revision + 1
