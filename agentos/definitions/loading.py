"""All agents of a project and of files, in two phases, with every problem of every file in one report.

First the files are read, with those that their subagents name by a path, each once: after that all agents are known by
slug. Then the references are followed, so agents may name each other and themselves in any order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from agentos.definitions.checking import did_you_mean
from agentos.definitions.files import AgentFile, agent_files, read_agent
from agentos.definitions.limits import LIMITS
from agentos.definitions.problem import Problem, in_order, raise_errors
from agentos.definitions.project_file import ProjectFile
from agentos.definitions.source import Source
from agentos.definitions.spec import AgentSpec, SubagentUse
from agentos.definitions.wiring import Known, check_cycles, check_references, check_slug
from agentos.errors import ConfigurationError


class AgentHome(Protocol):
    """What is asked of a project."""

    @property
    def root(self) -> Path: ...

    @property
    def file(self) -> ProjectFile: ...

    @property
    def source(self) -> Source: ...

    @property
    def problems(self) -> tuple[Problem, ...]: ...


class Loaded(msgspec.Struct, frozen=True):
    """What was found. problems are sorted by file and place; an agent with an error in its own file is not among agents.

    named are the slugs of the files that were asked for by name, in that order.
    """

    agents: dict[str, AgentSpec]
    problems: tuple[Problem, ...]
    named: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.is_error)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if not problem.is_error)

    def check(self) -> None:
        """Raises one ConfigurationError with all errors, one a line; warnings are not looked at."""
        raise_errors(self.problems)


def load_all(project: AgentHome | None, files: Sequence[Path]) -> Loaded:
    """The agents of files and directories, and those of a project. Never raises for what files say.

    An agent of a file goes before one of the project with the same slug, with a warning.
    """
    shells = _Shells()
    for path in files:
        shells.take(path)
    if project is not None:
        shells.take_project(project)
    problems = [*shells.problems, *_wired(shells, project)]
    agents = {slug: file.spec for slug, file in shells.agents.items() if file.spec is not None}
    return Loaded(agents, in_order(problems), tuple(slug for slug in dict.fromkeys(shells.asked) if slug in agents))


def load_agents(paths: Iterable[Path]) -> dict[str, AgentSpec]:
    """Agents by slug, with those that they name by a path. References are not followed.

    Errors: ConfigurationError that tells all problems of all files.
    """
    shells = _Shells()
    for path in paths:
        shells.take(path)
    raise_errors(in_order(shells.problems))
    return {slug: file.spec for slug, file in shells.agents.items() if file.spec is not None}


def _wired(shells: _Shells, project: AgentHome | None) -> Iterable[Problem]:
    known = Known(
        toolboxes=None if project is None else list(project.file.toolboxes),
        slugs={file.slug for file in shells.files.values() if file.slug is not None},
        files=shells.files,
    )
    for file in shells.agents.values():
        if file.spec is not None:
            yield from check_references(file, file.spec, known)
    yield from check_cycles(shells.agents)
    default = project.file.default_agent if project is not None else None
    if project is not None and default is not None and default not in known.slugs:
        near = did_you_mean(default, sorted(known.slugs))
        yield project.source.problem(("default_agent",), f"default_agent: no agent {default!r}{near}")


class _Shells:
    """The first phase: files by their real path, agents by slug."""

    def __init__(self) -> None:
        self.files: dict[str, AgentFile] = {}
        self.agents: dict[str, AgentFile] = {}
        self.problems: list[Problem] = []
        self.asked: list[str] = []
        self._before: set[str] = set()  # real paths of what goes before the project
        self._full = False

    def take(self, path: Path) -> None:
        """A file that was asked for by name, or the files of a directory."""
        for one in self._expanded(path):
            file = self._follow(one)
            if file is not None and file.slug is not None:
                self.asked.append(file.slug)

    def take_project(self, project: AgentHome) -> None:
        """What a project names; a file that is not there is a problem of the project's own file."""
        self._before = set(self.files)
        self.problems.extend(project.problems)
        section = project.file.agents
        for key, names in (("files", section.files), ("directories", section.directories)):
            for number, name in enumerate(names):
                path = project.root / name
                if os.path.isdir(path) if key == "directories" else os.path.isfile(path):
                    for one in self._expanded(path):
                        self._follow(one)
                else:
                    kind = "directory of agents" if key == "directories" else "file"
                    text = f"agents.{key}[{number}]: {path}: no such {kind}"
                    self.problems.append(project.source.problem(("agents", key, number), text))

    def _expanded(self, path: Path) -> list[Path]:
        if not os.path.isdir(path):
            return [path]
        try:
            return agent_files(path)
        except ConfigurationError as error:
            self.problems.append(Problem(path, 0, 0, str(error).removeprefix(f"{path}: ")))
            return []

    def _follow(self, path: Path) -> AgentFile | None:
        """Reads a file, and breadth first those that it names; None when there are too many."""
        known = self.files.get(os.path.realpath(path))
        if known is not None:
            return known
        first = self._read(path)
        rest = deque([first] if first is not None else [])
        while rest:
            file = rest.popleft()
            uses = file.spec.subagent_uses if file.spec is not None else ()
            for number, use in enumerate(uses):
                rest.extend(self._child(file, number, use))
        return first

    def _child(self, file: AgentFile, number: int, use: SubagentUse) -> Iterator[AgentFile]:
        """The file that a subagent names by a path, if it is a new one."""
        if use.path is None:
            return
        target = file.path.parent / use.path
        known = self.files.get(os.path.realpath(target))
        if known is None and not os.path.isfile(target):
            text = f"subagents[{number}].path: {target}: no such file"
            self.problems.append(file.source.problem(("subagents", number, "path"), text))
            return
        other = known or self._read(target)
        if other is not None:
            self.problems.extend(check_slug(file, number, use, other))
            if known is None:
                yield other

    def _read(self, path: Path) -> AgentFile | None:
        if len(self.files) >= LIMITS.files_max:
            if not self._full:
                self.problems.append(Problem(path, 0, 0, f"more than {LIMITS.files_max:,} files of agents (files_max)"))
            self._full = True
            return None
        file = self.files[os.path.realpath(path)] = read_agent(path)
        self.problems.extend(file.problems)
        if file.spec is not None:
            self._name(file.spec.slug, file)
        return file

    def _name(self, slug: str, file: AgentFile) -> None:
        first = self.agents.setdefault(slug, file)
        if first is file:
            return
        goes_before = os.path.realpath(first.path) in self._before
        what = "goes before this one" if goes_before else "has this slug already"
        text = f"the agent {slug!r} of {first.path} {what}"
        self.problems.append(file.source.problem(("slug",), text, "warning" if goes_before else "error"))
