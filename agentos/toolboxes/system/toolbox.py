"""The system toolbox: what an agent may know of the machine it runs on, and how far it may reach into it.

Each capability that the person in charge names is one tool. Most only tell; attach-file and list-directory see what a
file sandbox lets them see, which is nothing unless it says so; execute-command runs what a filter program allows, and
is refused without one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.components import Access, EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources.folders.file_sandbox import FileRefused, FileSandbox
from agentos.resources.folders.sandbox_rules import near
from agentos.resources.process.descendants import Keeper
from agentos.resources.process.threads import ToolThreads
from agentos.toolboxes.base import Doubt, Failed, ToolboxProblem
from agentos.toolboxes.script.files import openness
from agentos.toolboxes.system import facts
from agentos.toolboxes.system.command import CommandLimits, Commands
from agentos.toolboxes.system.files import attached, listing

_PATH: dict[str, Any] = {"type": "string", "description": "a path; a relative one counts from the working directory"}
_COMMAND: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string"}],
    "description": "the program and its arguments as a list, run without a shell; or a text for /bin/sh",
}
_TOLD: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "date": ("Tells the date and time, in UTC and here.", {}, []),
    "operating-system": ("Tells the operating system and the kind of machine.", {}, []),
    "env-vars": ("Lists environment variables; values of secrets are masked.", {}, []),
    "running-user": ("Tells the user that this process runs as.", {}, []),
    "hostname": ("Tells the name of the machine.", {}, []),
    "working-directory": ("Tells the folder that relative paths count from.", {}, []),
    "process-info": ("Tells of this process: its number, threads, time and memory.", {}, []),
    "uptime": ("Tells for how long the machine runs.", {}, []),
    "attach-file": ("Reads a file: a text as it is, other media by type and size.", {"path": _PATH}, ["path"]),
    "list-directory": ("Lists a folder: names, kinds and sizes.", {"path": _PATH}, []),
    "execute-command": (
        "Runs a command, if the filter in charge allows it; it is ended when it takes too long.",
        {"command": _COMMAND},
        ["command"],
    ),
}
CAPABILITIES = tuple(_TOLD)
SESSION_CAPABILITIES = ("list-sessions", "search-sessions", "read-session", "get-session-stats")
"""Capabilities of earlier systems that this version lacks."""


class SystemLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one system toolbox: of a file kept_bytes are kept, of a folder entries_max shown out of scan_max."""

    kept_bytes: int = 1024 * 1024
    entries_max: int = 500
    scan_max: int = 20_000
    threads_max: int = 4
    command: CommandLimits = CommandLimits()


class SystemToolbox:
    """One tool for each capability, named `<prefix><capability>` with `_` for `-`; prefix is `<name>_` by default.

    cwd is what relative paths count from, and where commands run. env_filter, a part of a name, says which variables are
    shown with their values. Raises ConfigurationError for a capability that is unknown or lacks what it needs.
    """

    kind: ClassVar[Name] = Name("system")

    def __init__(
        self,
        name: str,
        *,
        capabilities: Sequence[str],
        cwd: Path,
        description: str = "",
        env_filter: str | None = None,
        prefix: str | None = None,
        sandbox: FileSandbox | None = None,
        command_filter: Path | None = None,
        sharing: ToolboxSharing = ToolboxSharing.STATELESS,
        size: int = 0,
        limits: SystemLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self._cwd = Path(os.path.abspath(cwd))
        self._env_filter, self._limits, self._clock = env_filter, limits or SystemLimits(), clock or SystemClock()
        self._sandbox = sandbox or FileSandbox(base=self._cwd, name=f"toolbox {name}, which has no file sandbox,")
        wanted = _checked(name, capabilities, command_filter)
        self._commands = self._commands_of(wanted, command_filter)
        stem = f"{name}_" if prefix is None else prefix
        self._capabilities = {Name(stem + capability.replace("-", "_")): capability for capability in wanted}
        self._tools = tuple(
            self._spec(tool, capability, description) for tool, capability in sorted(self._capabilities.items())
        )
        self._threads: ToolThreads | None = None
        self._keeper: Keeper | None = None
        self._opened_s = 0.0

    @property
    def notes(self) -> Sequence[ToolboxProblem]:
        """Why others might put a program of their own in the place of the command filter."""
        if self._commands is None:
            return ()
        path = self._commands.filter_program
        return [ToolboxProblem(str(path), reason) for reason in openness(path)]

    async def open(self) -> None:
        """Raises ConfigurationError when the command filter is no program."""
        if self._commands is not None:
            self._commands.check(self.name)
            self._keeper = Keeper()
        self._opened_s = self._clock.monotonic()
        self._threads = ToolThreads(self._limits.threads_max)

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        capability = self._capabilities.get(tool)
        if capability is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if self._threads is None:
            return Failed(Name("closed"), f"toolbox {self.name} is not open")
        if capability == "execute-command":
            assert self._commands is not None, "checked when the toolbox was made"
            return await self._commands.run(arguments.get("command"), context.key)
        path = arguments.get("path", ".")
        if not isinstance(path, str):
            return Failed(Name("invalid"), "path is a text")
        try:
            return await self._threads.run(tool, self._work(capability, path))
        except FileRefused as error:
            return Failed(Name("refused"), str(error))
        except OSError as error:
            return Failed(Name("file"), f"{path!r} cannot be read: {error.strerror}")

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        keeper, self._keeper = self._keeper, None
        try:
            if threads is not None:
                await threads.close()
        finally:
            if keeper is not None:
                keeper.close()

    def _work(self, capability: str, path: str) -> Callable[[], object]:
        """What is done in a thread: some facts are asked of the network, and a disk may be slow."""
        limits = self._limits
        works: dict[str, Callable[[], object]] = {
            "date": lambda: facts.date(self._clock),
            "operating-system": facts.operating_system,
            "env-vars": lambda: facts.environment(self._env_filter, os.environ),
            "running-user": facts.running_user,
            "hostname": facts.hostname,
            "working-directory": lambda: str(self._cwd),
            "process-info": facts.process_info,
            "uptime": lambda: facts.uptime(self._clock.monotonic() - self._opened_s),
            "attach-file": functools.partial(attached, self._sandbox, path, limits.kept_bytes),
            "list-directory": functools.partial(listing, self._sandbox, path, limits.entries_max, limits.scan_max),
        }
        return works[capability]

    def _commands_of(self, wanted: Sequence[str], command_filter: Path | None) -> Commands | None:
        if "execute-command" not in wanted or command_filter is None:
            return None
        return Commands(self._cwd / command_filter, self._cwd, self._limits.command)

    def _spec(self, tool: Name, capability: str, description: str) -> ToolSpec:
        words, properties, required = _TOLD[capability]
        acts = capability == "execute-command"
        command = self._limits.command
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return ToolSpec(
            name=tool,
            description="\n".join(part for part in (description.strip(), words) if part),
            schema=schema | ({"required": required} if required else {}),
            effect=EffectClass.ONCE if acts else EffectClass.PURE,
            access=Access.WRITE if acts else Access.READ,
            toolbox=self.name,
            # The kernel's own limit comes after those of the command, so that it is these that end it.
            timeout_s=command.filter_s + command.command_s + 2 * command.process.kill_s if acts else None,
        )


def _checked(toolbox: str, capabilities: Sequence[str], command_filter: Path | None) -> list[str]:
    """The capabilities, each once. Raises ConfigurationError with one line for each problem."""
    wanted = list(dict.fromkeys(capabilities))
    problems = [_unknown(toolbox, capability) for capability in wanted if capability not in _TOLD]
    if "execute-command" in wanted and command_filter is None:
        problems.append(f"toolbox {toolbox}: execute-command needs a command filter; name its program, or leave it out")
    if problems:
        raise ConfigurationError("\n".join(problems))
    return wanted


def _unknown(toolbox: str, capability: str) -> str:
    if capability in SESSION_CAPABILITIES:
        return f"toolbox {toolbox}: the capability {capability} reads earlier sessions, which this version lacks"
    known = ", ".join(CAPABILITIES)
    return f"toolbox {toolbox}: unknown capability {capability!r}{near(capability, list(CAPABILITIES))}; known: {known}"
