"""check: agents, their files and their tools, looked at without asking a model; every problem in one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from agentos.components import ToolboxStatus
from agentos.definitions import PROJECT_FILE, AgentSpec, Loaded, Problem, Project, load_all, load_project
from agentos.definitions.location import PROJECT_FILES
from agentos.definitions.project import read_project
from agentos.errors import ConfigurationError
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.output import counted, put, put_json
from agentos.interfaces.cli.workplace import reached, toolbox_state
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel


class Box(msgspec.Struct, frozen=True):
    """A toolbox as it is once it was opened."""

    name: str
    kind: str
    status: ToolboxStatus
    tools: int
    problem: str


class Tried(msgspec.Struct, frozen=True):
    """What opening the toolboxes and wiring the agents brought: tools by agent, and what is wrong beside the files."""

    boxes: list[Box]
    tools: dict[str, list[str]]
    problems: list[str]

    @property
    def bad(self) -> bool:
        return bool(self.problems) or any(box.status is ToolboxStatus.ERROR for box in self.boxes)


async def check(
    *files: Annotated[Path, Parameter(name="FILE")],
    no_tools: Flag = False,
    json: Flag = False,
) -> int:
    """Check agents and their tools, and tell every problem with its file, line and column. No model is asked.

    Without files: the project that is found from here upward. Toolboxes are opened, so scripts are asked to describe
    themselves and Python files of tools are executed. Exit code 3 when there is an error, or a toolbox that cannot be used.

    Parameters
    ----------
    files
        agent files, folders of them, the file of a project, or names of its agents
    no_tools
        look at the files alone; no toolbox is opened
    json
        print one JSON object
    """
    project, loaded = found(files)
    tried = None if no_tools else await tried_out(project, _without_errors(loaded))
    if json:
        put_json(_object(loaded, tried))
    else:
        _put(loaded, tried)
    return Exit.CONFIGURATION if loaded.errors or (tried is not None and tried.bad) else Exit.OK


def found(files: Sequence[Path]) -> tuple[Project | None, Loaded]:
    """The project and the agents that a command line means. An agent file may name what its project has; what is no path
    may be the name of one of its agents.

    Raises ConfigurationError when there is neither.
    """
    named = next((path for path in files if path.name in PROJECT_FILES), None)
    project = read_project(named) if named is not None else load_project(Path.cwd())
    if not files and project is None:
        raise ConfigurationError(f"no {PROJECT_FILE} was found from here upward; name the files to look at")
    files = [_file_of(path, project) for path in files]
    loaded = load_all(project, [path for path in files if path.name not in PROJECT_FILES])
    return project, loaded if named is not None or not files else _only(loaded, files)


def _file_of(path: Path, project: Project | None) -> Path:
    if path.exists() or project is None:
        return path
    agent = load_all(project, []).agents.get(str(path))
    return agent.path if agent is not None and agent.path is not None else path


def _only(loaded: Loaded, files: Sequence[Path]) -> Loaded:
    """Without the agents of the project that the files have nothing to do with, and their problems."""
    agents = reached(loaded.agents, loaded.named)
    paths = {*files, *(spec.path for spec in agents.values())}
    problems = tuple(problem for problem in loaded.problems if paths & {problem.path, problem.path.parent})
    return Loaded(agents, problems, loaded.named)


async def tried_out(project: Project | None, agents: dict[str, AgentSpec]) -> Tried:
    """Opens all toolboxes of these agents and wires the agents, in a kernel that keeps nothing."""
    tried = Tried([], {}, [])
    async with open_kernel("memory:") as kernel:
        for toolbox in project.toolboxes() if project is not None else ():
            try:
                await kernel.add_toolbox(toolbox)
            except ConfigurationError as error:
                tried.problems.append(str(error))
        for spec in agents.values():
            try:
                await kernel.install(spec)
            except ConfigurationError as error:
                tried.problems.append(str(error))
        for slug in agents:
            _wire(kernel, slug, tried)
        names = [*(project.file.toolboxes if project is not None else ()), *_private(agents)]
        tried.boxes.extend(box for box in (_box(kernel, name) for name in names) if box is not None)
    return tried


def _without_errors(loaded: Loaded) -> dict[str, AgentSpec]:
    """What is wrong in a file is told with its place; to try the agent as well would tell it twice."""
    wrong = {problem.path for problem in loaded.errors}
    return {slug: spec for slug, spec in loaded.agents.items() if spec.path not in wrong}


def _private(agents: dict[str, AgentSpec]) -> list[str]:
    return [name for spec in agents.values() for name, _ in spec.private_toolboxes]


def _wire(kernel: Kernel, slug: str, tried: Tried) -> None:
    """The tools that an agent has, or why it cannot be wired."""
    if slug not in kernel.catalog.agents:
        return
    try:
        tried.tools[slug] = [tool.name for tool in kernel.offered(slug)]
    except ConfigurationError as error:
        tried.problems.append(str(error))


def _box(kernel: Kernel, name: str) -> Box | None:
    known = toolbox_state(kernel, name)
    if known is None:
        return None
    config, state = known
    return Box(name, config.kind, state.status, state.tools, state.problem)


def _put(loaded: Loaded, tried: Tried | None) -> None:
    """Problems first, then a line for each agent."""
    for problem in loaded.problems:
        put(f"{problem.where}: {problem.severity}: {problem.text}")
    for text in tried.problems if tried is not None else ():
        put(f"error: {text}")
    for box in tried.boxes if tried is not None else ():
        if box.problem:
            severity = "error" if box.status is ToolboxStatus.ERROR else "warning"
            put(f"{severity}: toolbox {box.name} ({box.kind}): {box.problem}")
    for slug, spec in sorted(loaded.agents.items()):
        put(f"{slug}: {_announce(spec)}{_tools(slug, tried)}")


def _announce(spec: AgentSpec) -> str:
    return " ".join(spec.announce.split()) or "(no announce)"


def _tools(slug: str, tried: Tried | None) -> str:
    if tried is None:
        return ""
    return f" ({counted(len(tried.tools[slug]), 'tool')})" if slug in tried.tools else " (not usable)"


def _object(loaded: Loaded, tried: Tried | None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "ok": not loaded.errors and not (tried is not None and tried.bad),
        "problems": [_problem(problem) for problem in loaded.problems],
        "agents": {slug: {"announce": spec.announce, "file": str(spec.path)} for slug, spec in loaded.agents.items()},
    }
    if tried is not None:
        value["toolboxes"] = [msgspec.to_builtins(box) for box in tried.boxes]
        value["wiring"] = tried.problems
        for slug, names in tried.tools.items():
            value["agents"][slug]["tools"] = names
    return value


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": str(problem.path),
        "line": problem.line or None,
        "column": problem.column or None,
        "severity": problem.severity,
        "text": problem.text,
    }
