"""Toolboxes within an agent file, of that agent alone: each kind with its name there, and which tools are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from agentos.definitions.toolbox_spec import (
    LACKING_KINDS,
    JsonRpcSpec,
    LackingSpec,
    LuaSpec,
    PythonSpec,
    ScriptSpec,
    SqliteSpec,
    Strict,
    SystemSpec,
    ToolboxSpec,
    ToolName,
)

PrivateName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/@+-]{1,67}$")]
"""The slug of its agent and a stroke stand before it, in a name of at most 128 characters."""


class Private(Strict):
    """What a toolbox within an agent file says beside: in the kernel it is named SLUG/NAME, and the agent's alone."""

    name: PrivateName
    expose: Sequence[ToolName] | None = None
    """The tools that the model sees: names, or patterns with `*` and `?`; all by default."""
    grant: Sequence[ToolName] | None = None
    """The tools that a call may use; by default those that the model sees."""


class PrivateScript(Private, ScriptSpec):
    kind: Literal["script"]


class PrivatePython(Private, PythonSpec):
    kind: Literal["python"]


class PrivateSqlite(Private, SqliteSpec):
    kind: Literal["sqlite"]


class PrivateSystem(Private, SystemSpec):
    kind: Literal["system"]


class PrivateLua(Private, LuaSpec):
    kind: Literal["lua"]


class PrivateJsonRpc(Private, JsonRpcSpec):
    kind: Literal["jsonrpc"]


class PrivateLacking(Private, LackingSpec):
    pass


PRIVATE_MODELS: dict[str, type[ToolboxSpec]] = {
    "script": PrivateScript,
    "python": PrivatePython,
    "sqlite": PrivateSqlite,
    "system": PrivateSystem,
    "jsonrpc": PrivateJsonRpc,
    "lua": PrivateLua,
    **dict.fromkeys(LACKING_KINDS, PrivateLacking),
}
"""The model of each kind in an agent file."""
