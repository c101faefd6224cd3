"""What is installed: agents, open toolboxes, models and hooks, and the contexts that turns pin."""

from __future__ import annotations

from pathlib import Path

import msgspec

from agentos import codec
from agentos.clock import Clock
from agentos.components import (
    AgentConfig,
    AgentContext,
    AgentState,
    ModelRef,
    ToolboxBinding,
    ToolboxConfig,
    ToolboxState,
    ToolboxStatus,
)
from agentos.definitions import AgentSpec, resolve
from agentos.errors import ConfigurationError, StoreDamaged, UnknownAgent, UnknownToolbox
from agentos.events.entry import digest_of, digest_of_body
from agentos.ids import AgentId, Digest, Kind, Name, ToolboxId, agent_id, hashed_id
from agentos.models import make_model
from agentos.models.base import ModelClient
from agentos.ports import Approval, Hook
from agentos.resources import Slots
from agentos.settings import Settings
from agentos.toolboxes.base import Toolbox
from agentos.world import World


class Installed(msgspec.Struct, frozen=True):
    """The definition that an agent's log has in force, None when it was removed, and the count of them so far."""

    definition: Digest | None
    revision: int


class Catalog:
    """Names to live things. Contexts are resolved when first asked for, and again after any change."""

    def __init__(
        self, world: World, slots: Slots, clock: Clock, settings: Settings, rules: Digest, approval: Approval | None
    ) -> None:
        self._world, self._slots, self._clock, self._settings, self._rules = world, slots, clock, settings, rules
        self.approval = approval
        self.agents: dict[Name, AgentSpec] = {}
        self.toolboxes: dict[Name, Toolbox] = {}
        self.hooks: list[Hook] = []
        self.given_models: dict[Name, ModelClient] = {}
        self._base: dict[Name, Path | None] = {}
        self._models: dict[str, ModelClient] = {}
        self._current: dict[tuple[AgentId, bool], Digest] = {}
        self._contexts: dict[Digest, AgentContext] = {}
        self.stored: set[str] = set()

    def install(
        self, spec: AgentSpec, base: Path | None, model: ModelClient | None, stored: Installed | None
    ) -> Digest:
        """Puts a definition in force; the next turns of its agent pin it. stored is what its log says, to count on from."""
        slug = Name(spec.slug)
        digest = digest_of(spec.model_dump(mode="json"))
        self._base[slug] = base
        if model is not None:
            self.given_models[slug] = model
        self.rebind(slug, spec)
        id_ = agent_id(slug)
        before = stored if stored is not None else Installed(None, 0)
        revision = before.revision if before.definition == digest else before.revision + 1
        self._world.set(id_, AgentConfig(slug=slug, definition=digest))
        self._world.set(id_, AgentState(revision=revision))
        return digest

    def remove_agent(self, slug: Name) -> None:
        if self.agents.pop(slug, None) is None:
            raise UnknownAgent(slug, list(self.agents))
        self._current.clear()
        id_ = agent_id(slug)
        before = self._world.get(id_, AgentState)
        self._world.set(id_, AgentState(revision=before.revision if before is not None else 1, removed=True))

    def add_toolbox(self, toolbox: Toolbox) -> None:
        if toolbox.name in self.toolboxes:
            raise ConfigurationError(f"a toolbox named {toolbox.name!r} is open already")
        self.toolboxes[toolbox.name] = toolbox
        self._slots.add(toolbox.name, toolbox.sharing, toolbox.size)
        self._current.clear()
        id_ = hashed_id(Kind.TOOLBOX, toolbox.name)
        config = ToolboxConfig(name=toolbox.name, kind=toolbox.kind, sharing=toolbox.sharing, size=toolbox.size)
        self._world.set(id_, config)
        self._world.set(id_, ToolboxState(status=ToolboxStatus.READY, tools=len(toolbox.tools())))

    def remove_toolbox(self, name: Name) -> Toolbox:
        """Takes it out; running calls keep it until they end."""
        toolbox = self.toolboxes.pop(name, None)
        if toolbox is None:
            raise UnknownToolbox(name, list(self.toolboxes))
        self._current.clear()
        self._world.set(hashed_id(Kind.TOOLBOX, name), ToolboxState(status=ToolboxStatus.CLOSED))
        return toolbox

    def rebind(self, slug: Name, spec: AgentSpec) -> None:
        """Another set of toolboxes for an installed agent, from its next turn on."""
        self.agents[slug] = spec
        self._current.clear()
        agent = agent_id(slug)
        toolboxes = tuple(ToolboxId(hashed_id(Kind.TOOLBOX, use.name)) for use in spec.toolbox_uses)
        self._world.set(agent, ToolboxBinding(agent=agent, toolboxes=toolboxes))

    def spec(self, slug: str) -> AgentSpec:
        found = self.agents.get(Name(slug))
        if found is None:
            raise UnknownAgent(slug, list(self.agents))
        return found

    def current(self, agent: AgentId, depth: int) -> Digest:
        """The digest of the context that a turn beginning now pins. Raises UnknownAgent, ConfigurationError."""
        leaf = depth >= self._settings.depth_max
        digest = self._current.get((agent, leaf))
        if digest is None:
            digest = self._current[agent, leaf] = self._resolve(agent, leaf)
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

    def definition(self, digest: str) -> tuple[str, str, str]:
        """A context as a row of `definitions`."""
        return digest, "context", codec.encode_body(msgspec.to_builtins(self._contexts[Digest(digest)]))

    def model(self, slug: Name, ref: ModelRef) -> ModelClient:
        """The client that answers for an agent: the one given with it, else one made from its definition."""
        given = self.given_models.get(slug)
        if given is not None:
            return given
        key = codec.encode_body(msgspec.to_builtins(ref)) + str(self._base.get(slug))
        client = self._models.get(key)
        if client is None:
            client = self._models[key] = make_model(ref, self._clock, self._base.get(slug))
        return client

    async def close_models(self) -> None:
        for client in (*self._models.values(), *self.given_models.values()):
            await client.close()

    def _resolve(self, agent: AgentId, leaf: bool) -> Digest:
        spec = next((spec for slug, spec in self.agents.items() if agent_id(slug) == agent), None)
        if spec is None:
            config = self._world.get(agent, AgentConfig)
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
            context,
            approval=self.approval.mode if self.approval is not None else context.approval,
            hooks=tuple(hook.name for hook in self.hooks),
        )
        digest = digest_of(msgspec.to_builtins(context))
        self._contexts[digest] = context
        return digest
