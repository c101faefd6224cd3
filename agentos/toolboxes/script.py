"""Executables as tools: each describes itself with `EXE describe` and works with `EXE run ARGS` (see script_form).

A script sees PATH, HOME and the like, the variables that the toolbox names, and the ids of its call; no key of a
provider. A call that is cancelled or runs out of time ends with all its processes, and `results.partial_of` the
cancellation gives what had been printed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from agentos.components import EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.toolboxes.base import Doubt, Failed
from agentos.toolboxes.descendants import MARK, Keeper
from agentos.toolboxes.output import Output
from agentos.toolboxes.process import Command, Ended, ProcessLimits, run_process
from agentos.toolboxes.results import bytes_text
from agentos.toolboxes.script_form import ScriptForm, form_of, invocation_of, schema_of

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER")
"""Variables that every script sees, with those that begin with LC_."""

STDERR_CHARS = 4_000
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")


class DescribeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of reading the descriptions: for each script, and how many are asked at once."""

    wait_s: float = 10.0
    output_bytes: int = 256 * 1024
    parallel_max: int = 8


class ScriptProblem(msgspec.Struct, frozen=True):
    """A script that is no tool, and why; the others are."""

    path: Path
    reason: str


class _Script(msgspec.Struct, frozen=True):
    path: Path
    form: ScriptForm
    spec: ToolSpec


class ScriptToolbox:
    """A toolbox of the executables in directories (each one directly inside) and of single files.

    cwd is where scripts run; relative paths count from it. environment names further variables to pass on. effects
    overrides the effect class of single tools; prefix stands before every slug.
    """

    kind: ClassVar[Name] = Name("script")

    def __init__(
        self,
        name: str,
        *,
        directories: Sequence[Path] = (),
        files: Sequence[Path] = (),
        cwd: Path,
        sharing: ToolboxSharing = ToolboxSharing.POOL,
        size: int = 4,
        environment: Sequence[str] = (),
        effects: Mapping[str, EffectClass] | None = None,
        prefix: str = "",
        limits: ProcessLimits | None = None,
        describe_limits: DescribeLimits | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self.problems: tuple[ScriptProblem, ...] = ()
        self._cwd = _absolute(cwd, name)
        self._directories = [self._cwd / directory for directory in directories]
        self._files = [self._cwd / file for file in files]
        self._environment, self._effects, self._prefix = tuple(environment), dict(effects or {}), prefix
        self._limits, self._describe = limits or ProcessLimits(), describe_limits or DescribeLimits()
        self._scripts: dict[Name, _Script] = {}
        self._keeper: Keeper | None = None

    async def open(self) -> None:
        """Asks every script to describe itself; `problems` lists those that could not."""
        paths = [*_executables(self._directories, self.name), *self._files]
        self._keeper = Keeper()
        try:
            turns = asyncio.Semaphore(self._describe.parallel_max)
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._ask(path, turns)) for path in dict.fromkeys(paths)]
            self._take([task.result() for task in asked])
        except BaseException:
            await self.close()
            raise

    def tools(self) -> Sequence[ToolSpec]:
        return [script.spec for _, script in sorted(self._scripts.items())]

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        script = self._scripts.get(tool)
        if script is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        try:
            run = invocation_of(script.form, arguments)
        except ValueError as error:
            return Failed(Name("invalid"), str(error))
        command = Command(
            argv=[str(script.path), "run", *run.argv],
            environment={**self._inherited(), **run.environment, **_ids(context)},
            cwd=str(self._cwd),
            mark=context.key,
            stdin=None if run.stdin is None else run.stdin.encode(),
        )
        try:
            ended = await run_process(command, self._limits)
        except OSError as error:
            reason = _reason(error, script.path, self._cwd)
            return Failed(Name("start"), f"{script.path} could not be started: {reason}")
        return _result(script, ended)

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        self._scripts = {}
        if self._keeper is not None:
            self._keeper.close()

    def _inherited(self) -> dict[str, str]:
        names = [*INHERITED, *self._environment, *(name for name in os.environ if name.startswith("LC_"))]
        # A script in Python prints UTF-8 whatever the locale is.
        return {"PYTHONIOENCODING": "utf-8"} | {name: os.environ[name] for name in names if name in os.environ}

    async def _ask(self, path: Path, turns: asyncio.Semaphore) -> _Script | ScriptProblem:
        """What one script says of itself, or why it is no tool."""
        mark = f"describe:{self.name}:{path}"
        command = Command(
            argv=[str(path), "describe"], environment={**self._inherited(), MARK: mark}, cwd=str(self._cwd), mark=mark
        )
        limits = msgspec.structs.replace(self._limits, memory_bytes=2 * self._describe.output_bytes, grace_s=0.2)
        try:
            async with turns, asyncio.timeout(self._describe.wait_s):
                ended = await run_process(command, limits)
            return self._described(path, ended)
        except TimeoutError:
            return ScriptProblem(path, f"describe did not end within {self._describe.wait_s:g} s")
        except OSError as error:
            return ScriptProblem(path, _reason(error, path, self._cwd))
        except ValueError as error:
            return ScriptProblem(path, str(error))

    def _described(self, path: Path, ended: Ended) -> _Script:
        if ended.code != 0:
            raise ValueError(f"describe ended with {_code(ended.code)}: {ended.err.end(400).strip()}")
        if ended.out.total > self._describe.output_bytes:
            raise ValueError(f"describe printed {ended.out.total:,} bytes, over {self._describe.output_bytes:,}")
        form = form_of(ended.out.data())
        spec = ToolSpec(
            name=Name(self._prefix + form.slug),
            description=form.description,
            schema=schema_of(form),
            effect=self._effects.get(form.slug, form.effect),
            access=form.access,
            toolbox=self.name,
        )
        return _Script(path, form, spec)

    def _take(self, asked: Sequence[_Script | ScriptProblem]) -> None:
        problems = [item for item in asked if isinstance(item, ScriptProblem)]
        scripts: dict[Name, _Script] = {}
        for item in asked:
            if isinstance(item, ScriptProblem):
                continue
            first = scripts.setdefault(item.spec.name, item)
            if first is not item:
                problems.append(ScriptProblem(item.path, f"slug {item.form.slug!r} is already that of {first.path}"))
        unknown = self._effects.keys() - {script.form.slug for script in scripts.values()}
        if unknown and not problems:
            raise ConfigurationError(f"toolbox {self.name}: effects names no tool {min(unknown)!r}")
        self._scripts, self.problems = scripts, tuple(problems)


def _absolute(cwd: Path, toolbox: str) -> Path:
    try:
        return Path(os.path.abspath(cwd))
    except FileNotFoundError as error:
        raise ConfigurationError(f"toolbox {toolbox}: the current folder is gone, so {cwd} names no place") from error


def _executables(directories: Sequence[Path], toolbox: str) -> list[Path]:
    """The executable files and links directly inside each directory, sorted; hidden ones are none."""
    found: list[Path] = []
    for directory in directories:
        try:
            inside = sorted(directory.iterdir())
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise ConfigurationError(f"toolbox {toolbox}: directory {directory} cannot be read: {reason}") from error
        found.extend(path for path in inside if _is_executable(path))
    return found


def _is_executable(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_file() and os.access(path, os.X_OK)


def _ids(context: CallContext) -> dict[str, str]:
    return {
        "AGENT_SESSION_ID": context.conversation,
        "AGENT_CONVERSATION_ID": context.conversation,
        "AGENT_TURN_ID": context.turn,
        "AGENT_AGENT_ID": context.agent,
        "AGENT_CALL_ID": context.call,
        MARK: context.key,
    }


def _result(script: _Script, ended: Ended) -> object:
    if ended.code != 0:
        return Failed(Name("exit"), _failure(script.path, ended))
    if ended.out.total == 0:
        empty = script.form.empty_result
        return empty.contents if empty is not None and empty.tag == "AddMessage" else ""
    media_type = script.form.media_type
    if media_type is None or media_type.startswith(_TEXT_TYPES):
        return ended.out.take_text()
    return f"{media_type} {bytes_text(ended.out.data(), ended.out.total)}"


def _failure(path: Path, ended: Ended) -> str:
    lines = [f"{path} ended with {_code(ended.code)}"]
    for title, output in (("stderr", ended.err), ("stdout", ended.out)):
        if output.total:
            lines.append(f"{title}:\n{_end(output)}")
    return "\n".join(lines)


def _end(output: Output) -> str:
    return output.end(STDERR_CHARS).rstrip()


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _reason(error: OSError, path: Path, cwd: Path) -> str:
    """Why a process could not be started, where the system's own word may mean two things."""
    if not cwd.is_dir():
        return f"the folder it runs in is gone: {cwd}"
    if path.is_dir():
        return "it is a directory"
    if error.errno == errno.ENOENT and path.exists():
        return "the interpreter named in its first line does not exist"
    if error.errno == errno.ENOEXEC:
        return "it is no program, and its first line names no interpreter"
    if error.errno == errno.E2BIG:
        return "its arguments are longer than the system allows; let it take long text by stdin"
    return os.strerror(error.errno or 0)
