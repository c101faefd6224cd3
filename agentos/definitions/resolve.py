"""From agents that name each other and their toolboxes to what a turn pins.

Two phases: first all agents are known by slug (shells), then each one's references are followed (wiring). So agents may
name each other and themselves in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agentos.components import AgentContext, Narrowing, ToolSpec
from agentos.definitions.checking import did_you_mean
from agentos.definitions.narrowing import fits, is_plain
from agentos.definitions.spec import AgentSpec, SessionPolicy, SubagentUse, ToolboxUse
from agentos.errors import ConfigurationError, UnknownToolbox
from agentos.ids import Digest, Name, agent_id
from agentos.settings import Settings
from agentos.toolboxes.base import Toolbox, unavailable_of

TASK_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with all that the other agent has to know for it."}
    },
    "required": ["task"],
    "additionalProperties": False,
}


def resolve(
    spec: AgentSpec,
    *,
    toolboxes: Mapping[Name, Toolbox],
    agents: Mapping[Name, AgentSpec],
    settings: Settings,
    rules: Digest = Digest(""),  # noqa: B008 - a text
    leaf: bool = False,
) -> AgentContext:
    """The context that a turn of this agent pins. A leaf may ask no other agents: it is as deep as agents may go.

    A toolbox in state error has no tools, and what is said of its tools is not looked at.
    Errors: ConfigurationError for a reference that leads nowhere, or two tools of one name; both name the agent.
    """
    tools = _Tools(spec)
    for use in spec.toolbox_uses:
        tools.take_toolbox(use, toolboxes)
    for subagent in spec.subagent_uses:
        tools.take_subagent(subagent, agents, toolboxes, leaf)
    return AgentContext(
        agent=agent_id(spec.slug),
        slug=Name(spec.slug),
        prompt=spec.prompt,
        model=spec.model_ref,
        limits=spec.limits,
        tools=tools.offered(),
        hidden=tools.hidden(),
        granted=tuple(sorted(tools.granted)),
        policy=spec.rules,
        approval=spec.approval,
        depth_max=settings.depth_max,
        rules=rules,
    )


def wire(
    agents: Mapping[Name, AgentSpec], *, toolboxes: Mapping[Name, Toolbox], settings: Settings
) -> dict[str, AgentContext]:
    """Resolves all agents. Raises ConfigurationError that tells the first problem of each, one a line."""
    contexts: dict[str, AgentContext] = {}
    problems: list[str] = []
    for slug, spec in agents.items():
        try:
            contexts[slug] = resolve(spec, toolboxes=toolboxes, agents=agents, settings=settings)
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return contexts


class _Tools:
    """The tools of one agent, each with the place it comes from. known tells that all its toolboxes say what they have."""

    def __init__(self, spec: AgentSpec) -> None:
        self.granted: set[Name] = set()
        self._spec = spec
        self._specs: dict[Name, ToolSpec] = {}
        self._exposed: set[Name] = set()
        self._places: dict[Name, str] = {}
        self._known = True

    def take_toolbox(self, use: ToolboxUse, toolboxes: Mapping[Name, Toolbox]) -> None:
        toolbox = toolboxes.get(Name(use.name))
        if toolbox is None:
            raise UnknownToolbox(use.name, list(toolboxes), self._place)
        if unavailable_of(toolbox):
            self._known = False
            return
        tools = {tool.name: tool for tool in toolbox.tools()}
        exposed = self._chosen(use.expose, list(tools), "expose", f"toolbox {use.name}")
        granted = exposed if use.grant is None else self._chosen(use.grant, list(tools), "grant", f"toolbox {use.name}")
        for name in sorted(exposed | granted):
            self._put(tools[name], f"toolbox {use.name}")
        self._exposed |= exposed
        self.granted |= granted

    def take_subagent(
        self, use: SubagentUse, agents: Mapping[Name, AgentSpec], toolboxes: Mapping[Name, Toolbox], leaf: bool
    ) -> None:
        other = agents.get(Name(use.slug))
        if other is None:
            known = ", ".join(sorted(agents)) or "none"
            near = did_you_mean(use.slug, list(agents))
            raise ConfigurationError(f"{self._place}: no subagent {use.slug!r} is installed{near}; installed: {known}")
        narrowing = self._narrowing(use, other, toolboxes)
        if leaf:
            return
        tool = ToolSpec(
            name=_tool_name(use),
            description=use.description or other.announce or f"Asks the agent {use.slug}.",
            schema=TASK_SCHEMA,
            subagent=Name(use.slug),
            reuse=use.session is SessionPolicy.REUSE,
            narrowing=narrowing,
            history=use.history_messages if use.input == "history" else 0,
        )
        self._put(tool, f"subagent {use.slug}")
        self._exposed.add(tool.name)
        self.granted.add(tool.name)

    def _narrowing(self, use: SubagentUse, other: AgentSpec, toolboxes: Mapping[Name, Toolbox]) -> Narrowing | None:
        """A plain name in it has to be that of a tool which the other agent has, where all its tools are known."""
        if use.expose is None and use.grant is None:
            return None
        names = _names_of(other, toolboxes)
        for key, patterns in (("expose", use.expose), ("grant", use.grant)):
            if names is not None:
                self._chosen(patterns, names, key, f"agent {use.slug}")
        return Narrowing(expose=_as_names(use.expose), grant=_as_names(use.grant))

    def offered(self) -> tuple[ToolSpec, ...]:
        self._check_effects()
        return tuple(self._specs[name] for name in sorted(self._exposed))

    def hidden(self) -> tuple[ToolSpec, ...]:
        return tuple(self._specs[name] for name in sorted(self.granted - self._exposed))

    @property
    def _place(self) -> str:
        return f"{self._spec.path}: agent {self._spec.slug}" if self._spec.path else f"agent {self._spec.slug}"

    def _put(self, tool: ToolSpec, place: str) -> None:
        if tool.name in self._places:
            first = self._places[tool.name]
            raise ConfigurationError(f"{self._place}: two tools are named {tool.name}: of {first} and of {place}")
        self._places[tool.name] = place
        effect = self._spec.effects.get(tool.name)
        self._specs[tool.name] = tool if effect is None else msgspec.structs.replace(tool, effect=effect)

    def _chosen(self, patterns: Sequence[str] | None, names: Sequence[Name], key: str, owner: str) -> set[Name]:
        """The tools that these patterns name, all when there are none. A plain name has to be that of a tool."""
        if patterns is None:
            return set(names)
        chosen: set[Name] = set()
        for pattern in patterns:
            found = {name for name in names if fits(pattern, name)}
            if not found and is_plain(pattern):
                near = did_you_mean(pattern, list(names))
                raise ConfigurationError(f"{self._place}: {key}: {owner} has no tool {pattern!r}{near}")
            chosen |= found
        return chosen

    def _check_effects(self) -> None:
        for name in self._spec.effects if self._known else ():
            if name not in self._specs:
                near = did_you_mean(name, list(self._specs))
                raise ConfigurationError(f"{self._place}: effects: this agent has no tool {name!r}{near}")


def _names_of(spec: AgentSpec, toolboxes: Mapping[Name, Toolbox]) -> list[Name] | None:
    """The names of all tools that an agent may have; None when a toolbox of it does not tell its own."""
    names = [_tool_name(use) for use in spec.subagent_uses]
    for use in spec.toolbox_uses:
        toolbox = toolboxes.get(Name(use.name))
        if toolbox is None or unavailable_of(toolbox):
            return None
        names.extend(tool.name for tool in toolbox.tools())
    return names


def _tool_name(use: SubagentUse) -> Name:
    return Name(use.tool or f"ask_{use.slug}")


def _as_names(patterns: Sequence[str] | None) -> tuple[Name, ...] | None:
    return None if patterns is None else tuple(Name(pattern) for pattern in patterns)
