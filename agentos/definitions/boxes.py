"""Makes toolboxes from what files say of them. Nothing that is wrong with one of them takes the others.

A toolbox that cannot be made, for a file that is not there or a kind that this version lacks, is there all the same, as
one that has no tools and says why: agent files come from elsewhere, and name what is not on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from agentos.components import ToolboxSharing
from agentos.definitions.spec import AgentSpec
from agentos.definitions.toolbox_spec import (
    JsonRpcSpec,
    LackingSpec,
    LuaSpec,
    PythonSpec,
    ScriptSpec,
    SqliteSpec,
    SystemSpec,
    ToolboxSpec,
)
from agentos.errors import ConfigurationError
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.unavailable import UnavailableToolbox


def make_toolbox(name: str, spec: ToolboxSpec, root: Path, *, working_directory: Path | None = None) -> Toolbox:
    """A toolbox, not opened. Python files are executed; never raises for what is wrong with a toolbox.

    root: what its paths count from, unless it says working-directory; that is the current one where none is given.
    """
    base = root if spec.base == "file" else working_directory or Path()
    try:
        return _made(name, spec, _whole(base))
    except ConfigurationError as error:
        return UnavailableToolbox(name, spec.kind, str(error).removeprefix(f"toolbox {name}: "))


def own_toolboxes(spec: AgentSpec, working_directory: Path | None = None) -> list[Toolbox]:
    """The toolboxes that stand in an agent's own file, made and not opened, under the names that the agent uses."""
    folder = spec.path.resolve().parent if spec.path is not None else working_directory or Path()
    return [
        make_toolbox(name, toolbox, folder, working_directory=working_directory)
        for name, toolbox in spec.private_toolboxes
    ]


def _made(name: str, spec: ToolboxSpec, base: Path) -> Toolbox:
    if spec.unavailable is not None:
        raise ConfigurationError(spec.unavailable)
    if isinstance(spec, LackingSpec):
        raise ConfigurationError(f"toolbox kind {spec.kind!r} is not in this version of agentos")
    for model, make in _MAKERS.items():
        if isinstance(spec, model):
            return make(name, spec, base)
    raise AssertionError(f"no maker for {type(spec).__name__}")


def _script(name: str, spec: ScriptSpec, base: Path) -> Toolbox:
    from agentos.toolboxes.script import ScriptToolbox

    sharing, size = spec.shared or (ToolboxSharing.POOL, 4)
    paths = [_there(base, path) for path in spec.all_paths]
    return ScriptToolbox(
        name,
        directories=[path for path in paths if path.is_dir()],
        files=[path for path in paths if not path.is_dir()],
        cwd=_there(base, spec.cwd or ""),
        sharing=sharing,
        size=size,
        environment=spec.environment,
        effects=spec.effects,
        prefix=spec.prefix,
        filter=spec.filter or "",
    )


def _python(name: str, spec: PythonSpec, base: Path) -> Toolbox:
    from agentos.toolboxes.python_file import load_python_toolbox

    sharing, size = spec.shared or (ToolboxSharing.STATELESS, 0)
    paths = [_there(base, path) for path in spec.all_paths]
    return load_python_toolbox(paths, name=name, sharing=sharing, size=size, effects=spec.effects)


def _sqlite(name: str, spec: SqliteSpec, base: Path) -> Toolbox:
    from agentos.resources.kinds.sqlite_connection.link import SqliteLimits
    from agentos.toolboxes.sqlite import SqliteToolbox

    path = base / spec.path
    _there(base, spec.path if spec.access == "read-only" else str(path.parent))
    given = {key: getattr(spec, key) for key in ("rows_max", "result_chars", "time_s")}
    limits = {key: value for key, value in given.items() if value is not None}
    return SqliteToolbox(
        name,
        path=path,
        access=spec.access,
        description=spec.description,
        tool=spec.tool or f"{_short(name)}_query",
        read_tool=spec.read_tool,
        limits=msgspec.convert(limits, SqliteLimits),
        **_sharing(spec),
    )


def _system(name: str, spec: SystemSpec, base: Path) -> Toolbox:
    from agentos.resources.folders.file_sandbox import FileSandbox
    from agentos.toolboxes.system import SystemToolbox

    return SystemToolbox(
        name,
        capabilities=spec.capabilities,
        cwd=base,
        description=spec.description,
        env_filter=spec.env_filter,
        prefix=f"{_short(name)}_" if spec.prefix is None else spec.prefix,
        sandbox=None if spec.sandbox is None else FileSandbox.from_data(spec.sandbox, base),
        command_filter=None if spec.command_filter is None else _there(base, spec.command_filter),
        **_sharing(spec),
    )


def _lua(name: str, spec: LuaSpec, base: Path) -> Toolbox:
    from agentos.resources.kinds.lua import LuaLimits
    from agentos.toolboxes.lua import LuaToolbox

    memory_bytes = None if spec.memory_mb is None else spec.memory_mb * 1024 * 1024
    given = {"memory_bytes": memory_bytes, "time_s": spec.time_s}
    limits = {key: value for key, value in given.items() if value is not None}
    return LuaToolbox(
        name,
        tools=spec.tools,
        state=spec.state,
        description=spec.description,
        tool=spec.tool or f"{_short(name)}_run",
        limits=msgspec.convert(limits, LuaLimits),
        **_sharing(spec),
    )


def _jsonrpc(name: str, spec: JsonRpcSpec, base: Path) -> Toolbox:
    from agentos.resources.kinds.jsonrpc import ExchangeLimits, JsonRpcLimits, SilenceLimits
    from agentos.resources.kinds.process import KeptLimits
    from agentos.toolboxes.jsonrpc import JsonRpcToolbox

    process = {key: getattr(spec, key) for key in ("start_s", "close_s") if getattr(spec, key) is not None}
    silence = {key: getattr(spec, key) for key in ("silent_s", "health_s") if getattr(spec, key) is not None}
    given = {key: getattr(spec, key) for key in ("describe_s", "call_s") if getattr(spec, key) is not None}
    return JsonRpcToolbox(
        name,
        command=spec.command,
        cwd=_there(base, spec.cwd or ""),
        environment=spec.environment,
        effects=spec.effects,
        prefix=spec.prefix,
        limits=JsonRpcLimits(
            process=msgspec.convert(process, KeptLimits),
            exchange=ExchangeLimits(silence=msgspec.convert(silence, SilenceLimits)),
        ),
        health=spec.health,
        **given,
        **_sharing(spec),
    )


def _short(name: str) -> str:
    """A name for tools: providers take no stroke in one, and the slug before it says nothing to the agent itself."""
    return name.rpartition("/")[2]


def _sharing(spec: ToolboxSpec) -> dict[str, Any]:
    """What it says of sharing, if anything."""
    return {} if spec.shared is None else {"sharing": spec.shared[0], "size": spec.shared[1]}


def _whole(base: Path) -> Path:
    try:
        return base.absolute()
    except FileNotFoundError as error:
        raise ConfigurationError(f"the current folder is gone, so {base} names no place") from error


def _there(base: Path, path: str) -> Path:
    """The path, made whole. Raises ConfigurationError when there is nothing."""
    whole = base / path
    if not os.path.exists(whole):  # unlike Path.exists it takes names that no file can have
        raise ConfigurationError(f"{whole} does not exist")
    return whole


_MAKERS: dict[type[ToolboxSpec], Callable[[str, Any, Path], Toolbox]] = {
    ScriptSpec: _script,
    PythonSpec: _python,
    SqliteSpec: _sqlite,
    SystemSpec: _system,
    JsonRpcSpec: _jsonrpc,
    LuaSpec: _lua,
}
