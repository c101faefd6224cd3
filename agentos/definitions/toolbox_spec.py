"""What may be said of a toolbox, kind by kind: in `agentos.toml` for all agents. `private_toolbox` is for one agent alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from agentos.components import EffectClass, ToolboxSharing
from agentos.definitions.source import cut

BoxName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/@+-]{1,128}$")]

ToolName = Annotated[str, Field(min_length=1, max_length=128)]

Text = Annotated[str, Field(min_length=1)]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Count = Annotated[int, Field(ge=0)]
"""0 means no bound."""

Positive = Annotated[int, Field(ge=1)]

_SHARING = re.compile(r"(pool)\(([1-9][0-9]{0,3})\)|(exclusive|read-write|stateless|per-conversation|per-agent)")


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolboxSpec(Strict):
    """What all kinds have."""

    kind: str
    base: Literal["file", "working-directory"] = "file"
    """What relative paths count from: the folder of this file, or the one that agentos was started in."""
    sharing: str | None = None
    """How many calls it bears at once: exclusive, read-write, pool(N), stateless, per-conversation or per-agent."""
    unavailable: Text | None = None
    """Why it cannot be used: it is then there without tools, and says this. The import of other systems' files sets it."""

    @field_validator("sharing")
    @classmethod
    def _is_sharing(cls, value: str | None) -> str | None:
        if value is not None and not _SHARING.fullmatch(value):
            words = [sharing.value for sharing in ToolboxSharing if sharing is not ToolboxSharing.POOL]
            raise ValueError(f"{cut(value)!r} is none of pool(N) and {', '.join(words)}")
        return value

    @property
    def shared(self) -> tuple[ToolboxSharing, int] | None:
        """How it is shared, and the size of a pool; None leaves it to the kind."""
        found = _SHARING.fullmatch(self.sharing or "")
        if found is None:
            return None
        return (ToolboxSharing.POOL, int(found[2])) if found[1] else (ToolboxSharing(found[3]), 0)


class _Files(ToolboxSpec):
    path: Text | None = None
    """A file, or a directory of them."""
    paths: Sequence[Text] = ()
    """Several files and directories."""
    effects: dict[ToolName, EffectClass] = Field(default_factory=dict)
    """The effect class of single tools, in place of what they say of themselves: pure, idempotent or once."""

    @model_validator(mode="after")
    def _has_paths(self) -> Self:
        if not self.all_paths:
            raise ValueError("path or paths is needed")
        return self

    @property
    def all_paths(self) -> tuple[str, ...]:
        return (*((self.path,) if self.path is not None else ()), *self.paths)


class ScriptSpec(_Files):
    """Executables that describe themselves, or directories of them. Shared as pool(4) unless told otherwise."""

    kind: Literal["script"] = "script"
    filter: Text | None = None
    """Takes of a directory only the files whose names hold this text."""
    environment: Sequence[Text] = ()
    """Variables that the scripts see beside PATH, HOME and the like."""
    prefix: str = ""
    """Stands before the name of each tool."""
    cwd: Text | None = None
    """Where the scripts run, counted as paths are."""


class PythonSpec(_Files):
    """Python files with functions marked with @tool. Stateless unless told otherwise."""

    kind: Literal["python"] = "python"


class SqliteSpec(ToolboxSpec):
    """One SQLite database, and a tool that asks it."""

    kind: Literal["sqlite"] = "sqlite"
    path: Text
    access: Literal["read-only", "read-write"] = "read-only"
    description: str = ""
    """What the database holds, in words for the model."""
    tool: ToolName | None = None
    """The name of the tool; by default that of the toolbox with _query behind it."""
    read_tool: ToolName | None = None
    """The name of a second tool of a read-write database that only reads; its calls run beside each other."""
    rows_max: Positive | None = None
    """The rows that one answer shows."""
    result_chars: Positive | None = None
    """The characters that one answer may have."""
    time_s: Seconds | None = None
    """Seconds that one statement may run."""


class SystemSpec(ToolboxSpec):
    """What the machine can tell or do, one tool for each capability."""

    kind: Literal["system"] = "system"
    capabilities: Sequence[Text]
    """What it offers: date, hostname, list-directory and others; `agentos.toolboxes.system` has them all."""
    description: str = ""
    env_filter: str | None = None
    """Of env-vars, shows only variables whose names hold this text."""
    sandbox: dict[str, Any] | None = None
    """Which files it may touch: fsbPredicate, fsbMaxFileSize, fsbName, as agents-exe has them. None without it."""
    command_filter: Text | None = None
    """A program that is asked about each command before it runs."""
    prefix: str | None = None
    """Stands before the name of each tool; by default the name of the toolbox and a low line."""

    @field_validator("capabilities")
    @classmethod
    def _has_some(cls, value: Sequence[str], info: ValidationInfo) -> Sequence[str]:
        if not value and not info.data.get("unavailable"):
            raise ValueError("at least one capability is needed")
        return value


class LuaSpec(ToolboxSpec):
    """Scripts in Lua, in processes of their own. One script of a conversation at a time unless told otherwise."""

    kind: Literal["lua"] = "lua"
    tools: Sequence[ToolName] = ()
    """The tools that scripts may call, of those that the agent may use: names, or patterns with `*` and `?`."""
    state: Literal["conversation", "call"] = "conversation"
    """Whether global variables stay for the next script of a conversation, or each script begins anew."""
    description: str = ""
    """What scripts are for here, in words for the model."""
    tool: ToolName | None = None
    """The name of the tool; by default that of the toolbox with _run behind it."""
    memory_mb: Positive | None = None
    """What the memory of a script may take, in units of 1,048,576 bytes."""
    time_s: Seconds | None = None
    """Seconds that a script may run, without what it waits for tools."""


class JsonRpcSpec(ToolboxSpec):
    """A program that stays and offers tools over JSON-RPC 2.0, a message a line. Stateless unless told otherwise: one
    process serves all agents, many calls at the same time."""

    kind: Literal["jsonrpc"] = "jsonrpc"
    command: Annotated[Sequence[Text], Field(min_length=1)]
    """The program and its arguments. One without a stroke is looked for on PATH, another counts from cwd."""
    environment: Sequence[Text] = ()
    """Variables that it sees beside PATH, HOME and the like."""
    cwd: Text | None = None
    """Where it runs, counted as paths are; by default what paths count from."""
    effects: dict[ToolName, EffectClass] = Field(default_factory=dict)
    """The effect class of single tools, in place of what it says of them: pure, idempotent or once."""
    prefix: str = ""
    """Stands before the name of each tool."""
    start_s: Seconds | None = None
    """Seconds from its start until it has described its tools."""
    describe_s: Seconds | None = None
    """Seconds that one description may take."""
    call_s: Seconds | None = None
    """Seconds that a call may take of a tool that does not say it itself."""
    close_s: Seconds | None = None
    """Seconds to end by itself once its stdin is closed."""
    silent_s: Seconds | None = None
    """Seconds that it may say nothing at all while calls wait. When the oldest of these was given up, it is asked health."""
    health: Text | None = None
    """The method that it is asked then, without parameters; by default it is asked to describe itself."""
    health_s: Seconds | None = None
    """Seconds to say anything, an error too, when it is asked that; else it hangs, is killed, and is started anew."""


LackingKind = Literal["mcp", "openapi", "postgrest", "developer", "skills"]


class LackingSpec(ToolboxSpec):
    """A kind that is not in this version: it loads as a toolbox that says so, and keeps its keys as they are.

    They are not among the data that a store keeps of an agent: nobody has looked which of them are secret.
    """

    model_config = ConfigDict(extra="allow")
    kind: LackingKind

    @model_serializer(mode="wrap")
    def _without_others(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in type(self).model_fields}


LACKING_KINDS: tuple[str, ...] = get_args(LackingKind)
"""Kinds that later versions bring."""

SHARED_MODELS: dict[str, type[ToolboxSpec]] = {
    "script": ScriptSpec,
    "python": PythonSpec,
    "sqlite": SqliteSpec,
    "system": SystemSpec,
    "jsonrpc": JsonRpcSpec,
    "lua": LuaSpec,
    **dict.fromkeys(LACKING_KINDS, LackingSpec),
}
"""The model of each kind in `agentos.toml`."""


def kind_of(value: object) -> str | None:
    """The kind that a toolbox says it is of, as the tag of its model; None where it says none."""
    kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", "script")
    return kind if kind is None or isinstance(kind, str) else "a kind that is no text"


SharedToolbox = Annotated[
    Annotated[ScriptSpec, Tag("script")]
    | Annotated[PythonSpec, Tag("python")]
    | Annotated[SqliteSpec, Tag("sqlite")]
    | Annotated[SystemSpec, Tag("system")]
    | Annotated[JsonRpcSpec, Tag("jsonrpc")]
    | Annotated[LackingSpec, Tag("mcp")]
    | Annotated[LackingSpec, Tag("openapi")]
    | Annotated[LackingSpec, Tag("postgrest")]
    | Annotated[LackingSpec, Tag("developer")]
    | Annotated[LuaSpec, Tag("lua")]
    | Annotated[LackingSpec, Tag("skills")],
    Discriminator(kind_of),
]
"""A toolbox of a project, by its kind."""
