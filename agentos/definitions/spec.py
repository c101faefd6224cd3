"""What an agent file and a toolbox of `agentos.toml` may say: the keys, their types and their defaults.

A limit that is not given keeps the default of `components.TurnLimits`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PrivateAttr, Tag

from agentos.components import ApprovalMode, EffectClass, ModelRef, Rule, ToolboxSharing, Verdict

SLUG_CHARS_MAX = 60
"""A tool's name may have 64 characters, and `ask_` stands before the slug."""

Slug = Annotated[str, Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{SLUG_CHARS_MAX - 1}}}$")]
ToolName = Annotated[str, Field(min_length=1, max_length=128)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
"""0 means no bound."""
Positive = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToolboxUse(Strict):
    """A toolbox that an agent uses. Patterns with `*` and `?`, or names.

    expose: the tools that the model sees, all by default. grant: the tools that a call may use, by default those exposed.
    """

    name: Slug
    expose: Sequence[ToolName] | None = None
    grant: Sequence[ToolName] | None = None


class SessionPolicy(Enum):
    """new: each delegation is a conversation of its own; reuse: all of one conversation go to the same one."""

    NEW = "new"
    REUSE = "reuse"


class SubagentUse(Strict):
    """An agent that this one may ask. description replaces its announce in the tool's words."""

    slug: Slug
    session: SessionPolicy = SessionPolicy.NEW
    description: str | None = None


class ModelUse(Strict):
    kind: str = Field(min_length=1)
    name: str = ""
    options: dict[str, Any] = {}


class PolicyRule(Strict):
    """tool is a name with `*` and `?`."""

    tool: ToolName
    verdict: Literal["allow", "ask", "deny"]


def _short_or_long(short: str, long: type[Strict]) -> Any:
    """A text stands for a mapping with that one key; errors then speak of what was written."""
    return Annotated[
        Annotated[str, Tag(short)] | Annotated[long, Tag("mapping")],  # type: ignore[valid-type]
        Discriminator(lambda value: short if isinstance(value, str) else "mapping"),
    ]


class AgentSpec(Strict):
    """One agent. system_prompt may be a list of parts; model is a kind, `kind:name`, or a mapping."""

    schema_url: str | None = Field(default=None, validation_alias="$schema", exclude=True)
    slug: Slug
    announce: str = ""
    system_prompt: str | Sequence[str] = ()
    model: str | ModelUse = "direct"
    toolboxes: Sequence[str | ToolboxUse] = ()
    subagents: Sequence[str | SubagentUse] = ()

    step_limit: Count | None = Field(
        default=None, validation_alias=AliasChoices("step_limit", "max_turns", "maxSteps", "max_tool_iterations")
    )
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
    effects: dict[ToolName, EffectClass] = {}

    _path: Path | None = PrivateAttr(default=None)
