"""Executables as tools: each describes itself with `EXE describe` and works with `EXE run ARGS` (see form).

A script sees PATH, HOME and the like, the variables that the toolbox names, and the ids of its call; no key of a
provider. A call that is cancelled or runs out of time ends with all its processes, and `partial_of` the
cancellation gives what had been printed.

Files that change while the toolbox is open are read again by `reload`: a new or edited script is asked anew, one that is
gone or broken leaves with its tool, and the others keep theirs. A call that runs goes on with the file it began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from agentos.components import EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources.process.command import Command, ProcessLimits, inherited
from agentos.resources.process.descendants import MARK, Keeper
from agentos.resources.process.process import run_process
from agentos.resources.process.reasons import reason_of
from agentos.resources.threaded import waiting_as, who_waits
from agentos.toolboxes.base import Doubt, Failed, ToolboxProblem
from agentos.toolboxes.script.asking import Asked, DescribeLimits, ask
from agentos.toolboxes.script.files import Found, ScriptFiles, Stamp
from agentos.toolboxes.script.form import Invocation, ScriptForm, invocation_of, schema_of
from agentos.toolboxes.script.portal import Portal, PortalLimits
from agentos.toolboxes.script.progress import LastLine
from agentos.toolboxes.script.result import result_of

__all__ = ["DescribeLimits", "ScriptToolbox"]


class _Script(msgspec.Struct, frozen=True):
    path: Path
    form: ScriptForm
    spec: ToolSpec


class ScriptToolbox:
    """A toolbox of the executables in directories (each one directly inside) and of single files.

    cwd is where scripts run; relative paths count from it. filter: of the files in directories, those whose name contains
    it. environment names further variables to pass on. effects overrides the effect class of single tools; prefix stands
    before every slug. problems are the scripts that are left out; notes are about scripts that work.
    """

    kind: ClassVar[Name] = Name("script")

    def __init__(
        self,
        name: str,
        *,
        directories: Sequence[Path] = (),
        files: Sequence[Path] = (),
        cwd: Path,
        filter: str = "",
        sharing: ToolboxSharing = ToolboxSharing.POOL,
        size: int = 4,
        environment: Sequence[str] = (),
        effects: Mapping[str, EffectClass] | None = None,
        prefix: str = "",
        limits: ProcessLimits | None = None,
        describe_limits: DescribeLimits | None = None,
        portal_limits: PortalLimits | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self.problems: tuple[ToolboxProblem, ...] = ()
        self.notes: tuple[ToolboxProblem, ...] = ()
        self._cwd = _absolute(cwd, name)
        self._files = ScriptFiles(
            [self._cwd / path for path in directories], [self._cwd / path for path in files], filter
        )
        self._environment, self._effects, self._prefix = tuple(environment), dict(effects or {}), prefix
        self._limits, self._describe = limits or ProcessLimits(), describe_limits or DescribeLimits()
        self._stamps: dict[str, Stamp | None] = {}
        self._asked: dict[Path, Asked] = {}
        self._scripts: dict[Name, _Script] = {}
        self._portal = Portal(portal_limits)
        self._keeper: Keeper | None = None
        self._reading = asyncio.Lock()

    async def open(self) -> None:
        """Asks every script to describe itself. Raises ConfigurationError when effects names a tool that none is."""
        self._keeper = Keeper()
        try:
            await self.reload()
            unknown = self._unknown_effects()
            if unknown and len(self.problems) == len(unknown):  # else the tool may be one that is left out
                raise ConfigurationError(f"toolbox {self.name}: effects names no tool {unknown[0]!r}")
        except BaseException:
            await self.close()
            raise

    def tools(self) -> Sequence[ToolSpec]:
        return [script.spec for _, script in sorted(self._scripts.items())]

    @property
    def content(self) -> str:
        """The digest of the files behind the tools, which changes with what they do."""
        files = (f"{name} {self._asked[script.path].content}" for name, script in sorted(self._scripts.items()))
        return hashlib.sha256("\n".join(files).encode()).hexdigest()

    def described(self) -> list[tuple[Name, Path, ScriptForm]]:
        """Every tool with its file and what that says of itself, sorted by name."""
        return [(name, script.path, script.form) for name, script in sorted(self._scripts.items())]

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        script = self._scripts.get(tool)
        if script is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        try:
            run = invocation_of(script.form, arguments)
        except ValueError as error:
            return Failed(Name("invalid"), str(error))
        try:
            return await self._run(script, run, context)
        except OSError as error:
            reason = reason_of(error, script.path, self._cwd)
            return Failed(Name("start"), f"{script.path} could not be started: {reason}")

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    def changed(self) -> bool:
        return self._files.changed(self._stamps)

    async def reload(self) -> None:
        """Asks the scripts that are new or edited, and takes the answers of the others as they were."""
        async with self._reading:
            found = self._files.find()
            known = {path: asked for path, asked in self._asked.items() if self._is_same(path, found)}
            turns = asyncio.Semaphore(self._describe.parallel_max)
            async with asyncio.TaskGroup() as group:
                new = [group.create_task(self._ask(path, turns)) for path in found.scripts if path not in known]
            known |= {task.result().path: task.result() for task in new}
            self._stamps, self._asked = found.stamps, {path: known[path] for path in found.scripts}
            self._take(found.problems)

    async def close(self) -> None:
        self._scripts, self._asked, self._stamps = {}, {}, {}
        try:
            await self._portal.close()
        finally:
            if self._keeper is not None:
                self._keeper.close()

    async def _run(self, script: _Script, run: Invocation, context: CallContext) -> object:
        ask = waiting_as(who_waits(), context.call)
        portal = self._portal.lend(ask) if script.form.portal else contextlib.nullcontext(dict[str, str]())
        async with portal as variables:
            command = Command(
                argv=[str(script.path), "run", *run.argv],
                environment={**inherited(self._environment), **run.environment, **_ids(context), **variables},
                cwd=str(self._cwd),
                mark=context.key,
                stdin=None if run.stdin is None else run.stdin.encode(),
            )
            with contextlib.closing(LastLine(context.progress, self._limits.progress_s)) as line:
                ended = await run_process(command, self._limits, line if script.form.progress else None)
        return result_of(script.path, script.form, ended)

    def _is_same(self, path: Path, found: Found) -> bool:
        stamp = found.stamps.get(str(path))
        return stamp is not None and stamp == self._stamps.get(str(path))

    async def _ask(self, path: Path, turns: asyncio.Semaphore) -> Asked:
        async with turns:
            return await ask(
                path,
                cwd=self._cwd,
                environment=inherited(self._environment),
                mark=f"describe:{self.name}:{path}",
                limits=self._limits,
                describe=self._describe,
            )

    def _take(self, problems: Sequence[ToolboxProblem]) -> None:
        """The tools of all scripts that are one, the first of each name, and what is to be said of them."""
        left_out = list(problems)
        scripts: dict[Name, _Script] = {}
        for path, asked in self._asked.items():
            if asked.form is None:
                left_out.append(ToolboxProblem(str(path), asked.problem))
                continue
            script = _Script(path, asked.form, self._spec(asked.form))
            first = scripts.setdefault(script.spec.name, script)
            if first is not script:
                reason = f"slug {asked.form.slug!r} is already that of {first.path}"
                left_out.append(ToolboxProblem(str(path), reason))
        self._scripts = scripts
        unknown = [ToolboxProblem(f"effects.{slug}", "there is no such tool") for slug in self._unknown_effects()]
        self.problems = (*left_out, *unknown)
        kept = {script.path for script in scripts.values()}
        works = [asked for path, asked in self._asked.items() if path in kept]
        self.notes = tuple(ToolboxProblem(str(asked.path), note) for asked in works for note in asked.notes)

    def _spec(self, form: ScriptForm) -> ToolSpec:
        return ToolSpec(
            name=Name(self._prefix + form.slug),
            description=form.description,
            schema=schema_of(form),
            effect=self._effects.get(form.slug, form.effect),
            access=form.access,
            toolbox=self.name,
        )

    def _unknown_effects(self) -> list[str]:
        return sorted(self._effects.keys() - {script.form.slug for script in self._scripts.values()})


def _absolute(cwd: Path, toolbox: str) -> Path:
    try:
        return Path(os.path.abspath(cwd))
    except FileNotFoundError as error:
        raise ConfigurationError(f"toolbox {toolbox}: the current folder is gone, so {cwd} names no place") from error


def _ids(context: CallContext) -> dict[str, str]:
    return {
        "AGENT_SESSION_ID": context.conversation,
        "AGENT_CONVERSATION_ID": context.conversation,
        "AGENT_TURN_ID": context.turn,
        "AGENT_AGENT_ID": context.agent,
        "AGENT_CALL_ID": context.call_id,
        MARK: context.key,
    }
