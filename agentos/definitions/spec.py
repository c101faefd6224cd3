"""What an agent file may say: the keys, their types and their defaults.

A limit that is not given keeps the default of `components.TurnLimits`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Discriminator, Field, PrivateAttr, Tag, model_validator

from agentos.components import ApprovalMode, EffectClass, ModelRef, Rule, TurnLimits, Verdict
from agentos.definitions.private_toolbox import (
    Private,
    PrivateJsonRpc,
    PrivateLacking,
    PrivateLua,
    PrivatePython,
    PrivateScript,
    PrivateSqlite,
    PrivateSystem,
)
from agentos.definitions.toolbox_spec import (
    BoxName,
    Count,
    Positive,
    Seconds,
    Strict,
    Text,
    ToolboxSpec,
    ToolName,
    kind_of,
)

Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")]
"""A tool's name may have 64 characters, and `ask_` stands before the slug of a subagent."""

STEP_LIMIT_WORDS = ("max_turns", "maxTurns", "maxSteps", "max_steps", "max_tool_iterations", "max_iterations")
"""What earlier and other systems call step_limit."""


class ToolboxUse(Strict):
    """A toolbox of the project that an agent uses. The lists hold names of tools, or patterns with `*` and `?`."""

    name: BoxName
    expose: Sequence[ToolName] | None = None
    """The tools that the model sees; all by default."""
    grant: Sequence[ToolName] | None = None
    """The tools that a call may use; by default those that the model sees."""


class SessionPolicy(Enum):
    """new: each delegation is a conversation of its own; reuse: all those of one conversation go to the same one."""

    NEW = "new"
    REUSE = "reuse"


class SubagentUse(Strict):
    """An agent that this one may ask. expose and grant narrow what that one has in such a delegation, and add nothing."""

    slug: Slug
    path: Text | None = None
    """The file of that agent, counted from the folder of this file, for one that is not known otherwise."""
    session: SessionPolicy = SessionPolicy.NEW
    description: str | None = None
    """Replaces the announce of that agent in the words of the tool."""
    tool: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")] = None
    """The name of the tool; by default ask_ and the slug."""
    expose: Sequence[ToolName] | None = None
    """Patterns of the tools that its model sees; by default as grant."""
    grant: Sequence[ToolName] | None = None
    """Patterns of the tools that its calls may use, those by which it asks others too; by default as expose."""
    input: Literal["task", "history"] = "task"
    """What it gets: the task alone, or the last messages of this conversation before it."""
    history_messages: Annotated[int, Field(ge=1, le=1_000)] = 20
    """How many messages of the conversation it gets with input: history."""


class ModelUse(Strict):
    """Which model answers; see `agentos.models` for the kinds and their options."""

    kind: Text
    name: str = ""
    """What the provider calls it, or the file of a script."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What the kind understands beside; a secret stands here as a reference, as in api_key: env:OPENAI_API_KEY."""


class Retention(Strict):
    """How long the texts of a conversation stay, in seconds since its last entry."""

    keep_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Nothing of it is erased before."""
    erase_after_s: Seconds | None = None
    """It is erased then, with the conversations below it."""

    @model_validator(mode="after")
    def _keeps_before_it_erases(self) -> Self:
        if self.keep_s is not None and self.erase_after_s is not None and self.keep_s > self.erase_after_s:
            raise ValueError(f"keep_s ({self.keep_s:g}) is beyond erase_after_s ({self.erase_after_s:g})")
        return self


class PolicyRule(Strict):
    """tool is a name, or a pattern with `*` and `?`."""

    tool: ToolName
    verdict: Literal["allow", "ask", "deny"]


def _form(value: object) -> str:
    return "text" if isinstance(value, str) else "mapping"


def _toolbox_form(value: object) -> str:
    if isinstance(value, str):
        return "a text"
    named = isinstance(value, ToolboxSpec) or (isinstance(value, dict) and "kind" in value)
    return (kind_of(value) or "a mapping") if named else "a mapping"


# A text stands for a mapping with one key. The tags keep errors to the form that was written.
PrivateToolbox = (
    PrivateScript | PrivatePython | PrivateSqlite | PrivateSystem | PrivateJsonRpc | PrivateLua | PrivateLacking
)
ToolboxRef = Annotated[
    Annotated[BoxName, Tag("a text")]
    | Annotated[ToolboxUse, Tag("a mapping")]
    | Annotated[PrivateScript, Tag("script")]
    | Annotated[PrivatePython, Tag("python")]
    | Annotated[PrivateSqlite, Tag("sqlite")]
    | Annotated[PrivateSystem, Tag("system")]
    | Annotated[PrivateJsonRpc, Tag("jsonrpc")]
    | Annotated[PrivateLacking, Tag("mcp")]
    | Annotated[PrivateLacking, Tag("openapi")]
    | Annotated[PrivateLacking, Tag("postgrest")]
    | Annotated[PrivateLacking, Tag("developer")]
    | Annotated[PrivateLua, Tag("lua")]
    | Annotated[PrivateLacking, Tag("skills")],
    Discriminator(_toolbox_form),
]
SubagentRef = Annotated[Annotated[Slug, Tag("text")] | Annotated[SubagentUse, Tag("mapping")], Discriminator(_form)]
ModelChoice = Annotated[Annotated[str, Tag("text")] | Annotated[ModelUse, Tag("mapping")], Discriminator(_form)]
Prompt = Annotated[Annotated[str, Tag("text")] | Annotated[Sequence[str], Tag("mapping")], Discriminator(_form)]


def _is_none(value: object) -> bool:
    return value is None


class AgentSpec(Strict):
    """One agent."""

    schema_url: Annotated[str | None, Field(validation_alias="$schema", exclude=True)] = None
    """The schema that an editor checks this file with."""
    slug: Slug
    """How others call it: letters, digits, _ and -, at most 60."""
    announce: str = ""
    """What it does, in words for people and for the agents that may ask it."""
    system_prompt: Prompt = ()
    """A text, or a list of parts."""
    model: ModelChoice = "direct"
    """A kind, or kind:name as in openai:gpt-4.1, or a mapping with kind, name and options."""
    toolboxes: Sequence[ToolboxRef] = ()
    """Toolboxes of the project by name, and toolboxes of its own: mappings with a kind."""
    subagents: Sequence[SubagentRef] = ()
    """The agents that it may ask, each a tool."""

    step_limit: Annotated[Count | None, Field(validation_alias=AliasChoices("step_limit", *STEP_LIMIT_WORDS))] = None
    """Model calls of one turn; 0 means no bound."""
    call_limit: Count | None = None
    """Tool calls of one turn; 0 means no bound."""
    unknown_tool_limit: Positive | None = None
    """Calls in a row that name no tool, after which the turn fails."""
    turn_s: Seconds | None = None
    """Seconds that a turn may take."""
    tool_s: Seconds | None = None
    """Seconds that a call may take."""
    model_s: Seconds | None = None
    """Seconds that a model call may take."""
    approval_s: Seconds | None = None
    """Seconds that a call waits for a person."""
    doubt_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Seconds that a call which a crash left in doubt waits for a person who knows what became of it."""
    cancel_grace_s: Seconds | None = None
    """Seconds that a cancelled call has to end by itself."""
    context_tokens: Positive | None = None
    """Tokens that a request to the model may have."""
    window_messages: Positive | None = None
    """Messages of the conversation that a turn begins with; of more, the older turns are left out, down to half."""
    result_chars: Annotated[int, Field(ge=200)] | None = None
    """Characters of a result that the model sees."""
    history_chars: Positive | None = None
    """Characters of the conversation so far that a subagent with input: history gets."""
    model_attempts: Positive | None = None
    """How often one model call is tried."""
    retry_base_s: Seconds | None = None
    """Seconds before the second try; they double from try to try."""
    retry_cap_s: Seconds | None = None
    """Seconds between two tries at most."""

    inner_calls: Positive | None = None
    """Calls that one call may have open within itself."""
    inner_depth: Positive | None = None
    """How deep calls may stand within calls."""

    turns_at_once: Annotated[Positive | None, Field(exclude_if=_is_none)] = None
    """Turns of this agent that may be at work at once, over all its conversations."""
    calls_at_once: Annotated[Positive | None, Field(exclude_if=_is_none)] = None
    """Tool calls of this agent that may run at once, over all its conversations."""

    policy: Sequence[PolicyRule] = ()
    """Which tools may run: any deny wins, then any ask; what no rule names is allowed."""
    approval: ApprovalMode = ApprovalMode.DENY
    """What becomes of a call that a rule has ask for a person."""
    effects: dict[ToolName, EffectClass] = Field(default_factory=dict)
    """The effect class of single tools: pure, idempotent or once."""
    retention: Annotated[Retention | None, Field(exclude_if=_is_none)] = None
    """How long its conversations are kept, and when they are erased."""

    _path: Path | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path | None:
        """The file that it was read from."""
        return self._path

    @property
    def prompt(self) -> tuple[str, ...]:
        return (self.system_prompt,) if isinstance(self.system_prompt, str) else tuple(self.system_prompt)

    @property
    def model_ref(self) -> ModelRef:
        if isinstance(self.model, ModelUse):
            return ModelRef(kind=self.model.kind, name=self.model.name, options=self.model.options)
        kind, *name = re.split("[:/]", self.model, maxsplit=1)
        return ModelRef(kind=kind, name="".join(name))

    @property
    def toolbox_uses(self) -> tuple[ToolboxUse, ...]:
        """All toolboxes by the names that they have in the kernel."""
        return tuple(self._use(ref) for ref in self.toolboxes)

    @property
    def private_toolboxes(self) -> tuple[tuple[str, PrivateToolbox], ...]:
        """The toolboxes of its own, each with the name that it has in the kernel."""
        return tuple((self.private_name(ref.name), ref) for ref in self.toolboxes if isinstance(ref, Private))

    def private_name(self, name: str) -> str:
        return f"{self.slug}/{name}"

    @property
    def subagent_uses(self) -> tuple[SubagentUse, ...]:
        return tuple(SubagentUse(slug=use) if isinstance(use, str) else use for use in self.subagents)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(Rule(tool=rule.tool, verdict=Verdict(rule.verdict)) for rule in self.policy)

    @property
    def limits(self) -> TurnLimits:
        given = {name: getattr(self, key) for name, key in _LIMITS.items() if getattr(self, key) is not None}
        for name in ("step_limit", "call_limit"):
            if given.get(name) == 0:
                given[name] = None
        return TurnLimits(**given)

    def bound(self, toolbox: str, expose: Sequence[str] | None = None, grant: Sequence[str] | None = None) -> AgentSpec:
        """The same agent with one more toolbox, or with other tools of one that it has."""
        use = ToolboxUse(name=toolbox, expose=expose, grant=grant)
        return self.unbound(toolbox)._with((*self.unbound(toolbox).toolboxes, use))

    def unbound(self, toolbox: str) -> AgentSpec:
        """The same agent without a toolbox."""
        return self._with(tuple(ref for ref in self.toolboxes if self._use(ref).name != toolbox))

    def _use(self, ref: ToolboxRef) -> ToolboxUse:
        if isinstance(ref, str):
            return ToolboxUse(name=ref)
        if isinstance(ref, Private):
            return ToolboxUse(name=self.private_name(ref.name), expose=ref.expose, grant=ref.grant)
        return ref

    def _with(self, toolboxes: Sequence[ToolboxRef]) -> AgentSpec:
        return self.model_copy(update={"toolboxes": toolboxes})


_LIMITS = {
    limit: limit.removesuffix("_max")
    for limit in TurnLimits.__struct_fields__
    if limit.removesuffix("_max") in AgentSpec.model_fields
}
"""From the name of a limit to the key that sets it."""
