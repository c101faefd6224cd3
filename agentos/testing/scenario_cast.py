"""Who plays in a scenario: agents, toolboxes, small tools and what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from agentos.components import Access, EffectClass, Pattern, ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.definitions.toolbox_spec import BoxName, Count, Positive, Seconds, SharedToolbox, Strict, ToolName
from agentos.errors import ConfigurationError
from agentos.models.script import script_of


class Short(Strict):
    """A mapping of which one key may be written alone: `start: clerk` is `start: {agent: clerk}`."""

    short: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: object) -> object:
        if value is None or value == "":
            return {}
        if isinstance(value, Mapping):
            return value
        if not cls.short:
            raise ValueError("nothing stands behind this step")
        return {cls.short: value}


class Action(Short):
    """One thing that a tool does, alone in its mapping.

    append: writes its text to the effect file, and syncs it. count: says how many times it was called. hold: waits until
    a step releases it. wait_s: waits on the clock. meet: waits until so many calls are inside. fail: ends with this text.
    borrow: has this resource from here on until the tool ends. call: makes an inner call of this tool with its own text.
    """

    short: ClassVar[str] = "act"
    act: Literal["append", "count", "hold"] | None = None
    wait_s: Seconds | None = None
    meet: Positive | None = None
    fail: str | None = None
    borrow: BoxName | None = None
    call: ToolName | None = None

    @model_validator(mode="after")
    def _one(self) -> Action:
        if len(self.model_fields_set) != 1:
            raise ValueError("an action is one of append, count, hold, wait_s, meet, fail, borrow and call")
        return self


class Tool(Short):
    """A tool does its actions in order. probe: it can tell after a crash whether it wrote to the effect file."""

    short: ClassVar[str] = "does"
    does: Sequence[Action] = ()
    effect: EffectClass = EffectClass.ONCE
    access: Access = Access.WRITE
    timeout_s: Seconds | None = None
    probe: bool = False

    @field_validator("does", mode="before")
    @classmethod
    def _as_list(cls, does: object) -> object:
        return does if isinstance(does, list) else [does]


class Lent(Short):
    """A resource of the program that tools borrow, and how it may be used; size is how many handles a pool has."""

    short: ClassVar[str] = "pattern"
    pattern: Pattern = Pattern.EXCLUSIVE
    size: Positive = 1


class Box(Strict):
    """A toolbox, and how it is shared."""

    sharing: ToolboxSharing = ToolboxSharing.STATELESS
    size: Count = 0
    tools: dict[ToolName, Tool]


def _form_of(value: object) -> str:
    has_kind = "kind" in value if isinstance(value, Mapping) else not isinstance(value, Box)
    return "a toolbox of a kind" if has_kind else "a toolbox of small tools"


AnyBox = Annotated[
    Annotated[Box, Tag("a toolbox of small tools")] | Annotated[SharedToolbox, Tag("a toolbox of a kind")],
    Discriminator(_form_of),
]
"""A toolbox of small tools, or one of a kind as in `agentos.toml`, whose paths count from the folder of the run."""


class Agent(AgentSpec):
    """An agent as in an agent file, and what its scripted model answers (see `agentos.models.script`).

    copies: so many agents of this sort, named SLUG-001 and so on.
    """

    script: Annotated[list[Any] | None, Field(exclude=True)] = None
    copies: Annotated[Positive | None, Field(exclude=True)] = None

    @field_validator("script")
    @classmethod
    def _check_script(cls, script: list[Any] | None) -> list[Any] | None:
        try:
            script_of(script or [])
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return script
