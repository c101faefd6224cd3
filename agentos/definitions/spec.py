"""What an agent file may say: the keys, their types and their defaults.

A limit that is not given keeps the default of `components.TurnLimits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag

from agentos.components import ApprovalMode, EffectClass, ModelRef, Rule, TurnLimits, Verdict

Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")]
"""A tool's name may have 64 characters, and `ask_` stands before the slug of a subagent."""
BoxName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/@+-]{1,128}$")]
ToolName = Annotated[str, Field(min_length=1, max_length=128)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
"""0 means no bound."""
Positive = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolboxUse(Strict):
    """A toolbox that an agent uses. The lists hold names of tools, or patterns with `*` and `?`.

    expose: the tools that the model sees, all by default. grant: those that a call may use, by default the same.
    """

    name: BoxName
    expose: Sequence[ToolName] | None = None
    grant: Sequence[ToolName] | None = None


class SessionPolicy(Enum):
    """new: each delegation is a conversation of its own; reuse: all those of one conversation go to the same one."""

    NEW = "new"
    REUSE = "reuse"


class SubagentUse(Strict):
    """An agent that this one may ask. description replaces its announce in the words of the tool."""

    slug: Slug
    session: SessionPolicy = SessionPolicy.NEW
    description: str | None = None


class ModelUse(Strict):
    """Which model answers; see `agentos.models` for the kinds and their options."""

    kind: Annotated[str, Field(min_length=1)]
    name: str = ""
    options: dict[str, Any] = Field(default_factory=dict)


class PolicyRule(Strict):
    """tool is a name, or a pattern with `*` and `?`."""

    tool: ToolName
    verdict: Literal["allow", "ask", "deny"]


def _form(value: object) -> str:
    return "text" if isinstance(value, str) else "mapping"


# A text stands for a mapping with one key. The tags keep errors to the form that was written.
ToolboxRef = Annotated[Annotated[BoxName, Tag("text")] | Annotated[ToolboxUse, Tag("mapping")], Discriminator(_form)]
SubagentRef = Annotated[Annotated[Slug, Tag("text")] | Annotated[SubagentUse, Tag("mapping")], Discriminator(_form)]
ModelChoice = Annotated[Annotated[str, Tag("text")] | Annotated[ModelUse, Tag("mapping")], Discriminator(_form)]
Prompt = Annotated[Annotated[str, Tag("text")] | Annotated[Sequence[str], Tag("mapping")], Discriminator(_form)]


class AgentSpec(Strict):
    """One agent. system_prompt may be a list of parts; model is a kind, or `kind:name`, or a mapping.

    step_limit and call_limit: 0 means no bound. approval says what becomes of a call that a rule has ask for a person.
    effects overrides the effect class of single tools.
    """

    schema_url: Annotated[str | None, Field(validation_alias="$schema", exclude=True)] = None
    slug: Slug
    announce: str = ""
    system_prompt: Prompt = ()
    model: ModelChoice = "direct"
    toolboxes: Sequence[ToolboxRef] = ()
    subagents: Sequence[SubagentRef] = ()

    step_limit: Annotated[
        Count | None,
        Field(validation_alias=AliasChoices("step_limit", "max_turns", "maxSteps", "max_tool_iterations")),
    ] = None
    call_limit: Count | None = None
    unknown_tool_limit: Positive | None = None
    turn_s: Seconds | None = None
    tool_s: Seconds | None = None
    model_s: Seconds | None = None
    approval_s: Seconds | None = None
    cancel_grace_s: Seconds | None = None
    context_tokens: Positive | None = None
    result_chars: Annotated[int, Field(ge=200)] | None = None
    model_attempts: Positive | None = None
    retry_base_s: Seconds | None = None
    retry_cap_s: Seconds | None = None

    policy: Sequence[PolicyRule] = ()
    approval: ApprovalMode = ApprovalMode.DENY
    effects: dict[ToolName, EffectClass] = Field(default_factory=dict)

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
        kind, _, name = self.model.partition(":")
        return ModelRef(kind=kind, name=name)

    @property
    def toolbox_uses(self) -> tuple[ToolboxUse, ...]:
        return tuple(ToolboxUse(name=use) if isinstance(use, str) else use for use in self.toolboxes)

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
        return self._with(tuple(use for use in self.toolbox_uses if use.name != toolbox))

    def _with(self, toolboxes: Sequence[ToolboxRef]) -> AgentSpec:
        return self.model_copy(update={"toolboxes": toolboxes})


_LIMITS = {
    key: {"model_attempts_max": "model_attempts"}.get(key, key)
    for key in TurnLimits.__struct_fields__
    if {"model_attempts_max": "model_attempts"}.get(key, key) in AgentSpec.model_fields
}
"""From the name of a limit to the key that sets it."""
