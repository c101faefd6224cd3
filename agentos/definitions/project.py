"""`agentos.toml`: the toolboxes, agents and store of a folder and all below it.

store = "sqlite:///.agentos/agentos.db"     this is the default
default_agent = "lead"

[agents]
files = ["lead.yaml"]                       paths count from the folder of this file
directories = ["agents"]

[toolboxes.files]
kind = "script"                             path or paths: executables, or directories of them
path = "tools"
sharing = "pool(4)"                         or exclusive, read-write, stateless, per-conversation, per-agent
effects = {count = "pure"}
environment = ["NOTES_DIR"]                 variables that the scripts see beside PATH, HOME and the like

[toolboxes.notes]
kind = "python"                             path or paths: Python files
path = "notes.py"
sharing = "exclusive"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote

import msgspec
from pydantic import BaseModel, Field, field_validator, model_validator

from agentos.components import EffectClass, ToolboxSharing
from agentos.definitions.checking import checked
from agentos.definitions.files import agent_files, load_agents
from agentos.definitions.source import read_toml
from agentos.definitions.spec import AgentSpec, BoxName, Slug, Strict, ToolName
from agentos.errors import ConfigurationError
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.threads import ToolThreads

PROJECT_FILE = "agentos.toml"
DEFAULT_STORE = "sqlite:///.agentos/agentos.db"
_SHARING = re.compile(r"(pool)\(([1-9][0-9]{0,3})\)|(exclusive|read-write|stateless|per-conversation|per-agent)")


class ToolboxSpec(Strict):
    """One toolbox of a project. sharing None leaves it to the kind: pool(4) for scripts, stateless for Python."""

    kind: Literal["script", "python"]
    path: str | None = None
    paths: Sequence[str] = ()
    sharing: str | None = None
    effects: dict[ToolName, EffectClass] = Field(default_factory=dict)
    environment: Sequence[str] = ()
    prefix: str = ""
    cwd: str | None = None

    @field_validator("sharing")
    @classmethod
    def _is_sharing(cls, value: str | None) -> str | None:
        if value is not None and not _SHARING.fullmatch(value):
            raise ValueError(f"{value!r} is none of pool(N) and {', '.join(_words())}")
        return value

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if not self.all_paths:
            raise ValueError("path or paths is needed")
        if self.kind == "python" and (self.environment or self.prefix or self.cwd):
            raise ValueError("environment, prefix and cwd are for scripts")
        return self

    @property
    def all_paths(self) -> tuple[str, ...]:
        return (*((self.path,) if self.path is not None else ()), *self.paths)

    @property
    def shared(self) -> tuple[ToolboxSharing, int] | None:
        """How it is shared, and the size of a pool."""
        found = _SHARING.fullmatch(self.sharing or "")
        if found is None:
            return None
        return (ToolboxSharing.POOL, int(found[2])) if found[1] else (ToolboxSharing(found[3]), 0)


class AgentsSection(Strict):
    files: Sequence[str] = ()
    directories: Sequence[str] = ()


class ProjectFile(Strict):
    """What the file may say."""

    store: Annotated[str, Field(min_length=1)] = DEFAULT_STORE
    default_agent: Slug | None = None
    agents: AgentsSection = AgentsSection()
    toolboxes: dict[BoxName, ToolboxSpec] = Field(default_factory=dict)


_PARTS: dict[str, type[BaseModel]] = {"toolboxes": ToolboxSpec, "agents": AgentsSection}


class Project(msgspec.Struct, frozen=True):
    """A project that was found: its folder, and what its file says."""

    root: Path
    file: ProjectFile

    @property
    def store_url(self) -> str:
        """The store; a path below the project's folder is made whole, so that it is one store from every folder."""
        place = self.file.store.removeprefix("sqlite:///")
        if place == self.file.store or place.startswith("/"):
            return self.file.store
        return f"sqlite:///{quote(str(self.root))}/{place}"

    @property
    def default_agent(self) -> str | None:
        return self.file.default_agent

    def agents(self) -> dict[str, AgentSpec]:
        """All agents by slug. Raises ConfigurationError."""
        section = self.file.agents
        paths = [self.root / file for file in section.files]
        for directory in section.directories:
            paths.extend(agent_files(self.root / directory))
        return load_agents(dict.fromkeys(paths))

    def toolboxes(self, threads: ToolThreads | None = None) -> list[Toolbox]:
        """All toolboxes, made and not opened. Raises ConfigurationError."""
        return [make_toolbox(name, spec, self.root, threads) for name, spec in self.file.toolboxes.items()]


def load_project(start: Path) -> Project | None:
    """The project of a folder, looked for upward from there; None when there is none. Raises ConfigurationError."""
    folder = start.absolute()
    for root in (folder, *folder.parents):
        path = root / PROJECT_FILE
        if path.is_file():
            return Project(root, checked(ProjectFile, read_toml(path), _PARTS))
    return None


def project_store(start: Path) -> str:
    """The URL of the store of the project around a folder, or the default one below the current folder."""
    project = load_project(start)
    return DEFAULT_STORE if project is None else project.store_url


def make_toolbox(name: str, spec: ToolboxSpec, root: Path, threads: ToolThreads | None = None) -> Toolbox:
    """A toolbox, not opened; its paths count from root. Python files are executed. Raises ConfigurationError."""
    paths = [root / path for path in spec.all_paths]
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise ConfigurationError(f"toolbox {name}: {missing} does not exist")
    if spec.kind == "script":
        return _script(name, spec, root, paths)
    from agentos.toolboxes.python_file import load_python_toolbox

    sharing, size = spec.shared or (ToolboxSharing.STATELESS, 0)
    return load_python_toolbox(paths, name=name, sharing=sharing, size=size, threads=threads, effects=spec.effects)


def _script(name: str, spec: ToolboxSpec, root: Path, paths: Sequence[Path]) -> Toolbox:
    from agentos.toolboxes.script import ScriptToolbox

    sharing, size = spec.shared or (ToolboxSharing.POOL, 4)
    return ScriptToolbox(
        name,
        directories=[path for path in paths if path.is_dir()],
        files=[path for path in paths if not path.is_dir()],
        cwd=root / (spec.cwd or ""),
        sharing=sharing,
        size=size,
        environment=spec.environment,
        effects=spec.effects,
        prefix=spec.prefix,
    )


def _words() -> list[str]:
    return [sharing.value for sharing in ToolboxSharing if sharing is not ToolboxSharing.POOL]
