"""`agentos.toml`: the toolboxes, agents and store of a folder and all below it.

store = "sqlite:///.agentos/agentos.db"     this is the default
default_agent = "lead"
keys = ["secrets.json"]                     key files, for references such as key:main; no values stand here

[agents]
files = ["lead.yaml"]                       paths count from the folder of this file
directories = ["agents"]

[toolboxes.files]
kind = "script"                             or python, sqlite, system: `toolbox_spec` has the keys of each
path = "tools"                              path or paths: executables, or directories of them
sharing = "pool(4)"                         or exclusive, read-write, stateless, per-conversation, per-agent
effects = {count = "pure"}
environment = ["NOTES_DIR"]                 variables that the scripts see beside PATH, HOME and the like

[aliases.summarize]                         agentos run --alias summarize
description = "Sums up what stands on stdin."
template = "Sum up this text: {{content}}"
input = "stdin"                             or file

[settings]
depth_max = 4                               any of `agentos.settings`

Where there is none, `agents-exe.cfg.json` is taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agentos.definitions.agents_exe.config import cfg_source
from agentos.definitions.boxes import make_toolbox
from agentos.definitions.checking import check
from agentos.definitions.loading import load_all
from agentos.definitions.location import DEFAULT_STORE, FOREIGN_PROJECT_FILE, find_project, store_below
from agentos.definitions.problem import Problem, raise_errors
from agentos.definitions.project_file import PROJECT_PARTS, ProjectFile
from agentos.definitions.reading import read_source
from agentos.definitions.source import Keys, Source
from agentos.definitions.spec import AgentSpec
from agentos.definitions.toolbox_spec import LackingSpec
from agentos.settings import Settings
from agentos.toolboxes.base import Toolbox


class Project(msgspec.Struct, frozen=True):
    """A project that was found: its folder, what its file says, and where that stands."""

    root: Path
    file: ProjectFile
    source: Source
    problems: tuple[Problem, ...] = ()
    """Warnings alone: a file with an error is no project."""

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def store_url(self) -> str:
        """The store; a path below the project's folder is made whole, so that it is one store from every folder."""
        return store_below(self.root, self.file.store)

    @property
    def default_agent(self) -> str | None:
        return self.file.default_agent

    @property
    def key_files(self) -> tuple[Path, ...]:
        return tuple(self.root / name for name in self.file.keys)

    @property
    def settings(self) -> Settings:
        return msgspec.convert(self.file.settings, Settings)

    def agents(self) -> dict[str, AgentSpec]:
        """All agents by slug. Raises ConfigurationError that tells all problems of all files."""
        loaded = load_all(self, ())
        loaded.check()
        return loaded.agents

    def toolboxes(self) -> list[Toolbox]:
        """All toolboxes, made and not opened; what is wrong with one is what it then says, see `make_toolbox`."""
        return [make_toolbox(name, spec, self.root) for name, spec in self.file.toolboxes.items()]

    def origins(self) -> list[tuple[str, Any, str]]:
        """What holds, each with its dotted key, and where it is said: FILE:LINE, or default."""
        given = list(_leaves(self.source.value or {}, ()))
        found = [(_dotted(keys), self._shown(keys, value), self._origin(keys)) for keys, value in given]
        said = {key for key, _, _ in found}
        return found + [(key, value, "default") for key, value in _defaults() if key not in said]

    def _shown(self, keys: Keys, value: Any) -> Any:
        """Of a toolbox whose kind is not in this version nobody knows which keys are secret."""
        toolbox = self.file.toolboxes.get(str(keys[1])) if keys[0] == "toolboxes" and len(keys) > 2 else None
        unknown = isinstance(toolbox, LackingSpec) and keys[2] not in LackingSpec.model_fields
        return "(not shown)" if unknown else value

    def _origin(self, keys: Keys) -> str:
        return f"{self.path}:{self.source.place(keys).line}"


def load_project(start: Path) -> Project | None:
    """The project of a folder, looked for upward from there; None when there is none. Raises ConfigurationError."""
    path = find_project(start)
    return None if path is None else read_project(path)


def read_project(path: Path) -> Project:
    """A project by its file. Raises ConfigurationError naming file, line and column of each problem."""
    source = cfg_source(path) if path.name == FOREIGN_PROJECT_FILE else read_source(path)
    if source.value is None:
        raise_errors(source.problems)
    file, problems = check(ProjectFile, source, PROJECT_PARTS)
    raise_errors((*source.problems, *problems))
    assert file is not None, "without an error there is a project"
    lacking = _lacking(file, source)
    return Project(path.parent, file, source, (*source.problems, *lacking))


def _lacking(file: ProjectFile, source: Source) -> Iterator[Problem]:
    for name, spec in file.toolboxes.items():
        if isinstance(spec, LackingSpec) and spec.unavailable is None:
            text = f"toolboxes of kind {spec.kind!r} are not in this version; this one has no tools"
            yield source.problem(("toolboxes", name), text, "warning")


def _leaves(value: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    """What stands in mappings, down to the first that is none."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*keys, key))
    elif keys:
        yield keys, value


def _defaults() -> Iterator[tuple[str, Any]]:
    yield from {"store": DEFAULT_STORE, "default_agent": None, "keys": []}.items()
    yield from {"agents.files": [], "agents.directories": []}.items()
    settings = Settings()
    yield from ((f"settings.{name}", getattr(settings, name)) for name in Settings.__struct_fields__)


def _dotted(keys: Keys) -> str:
    return ".".join(str(key) for key in keys)
