"""An agent that is to be put in force: what its file says, and what the paths in it count from."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agentos.definitions import AgentSpec, ToolboxUse, load_agent
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.models import check_secrets
from agentos.models.base import ModelClient

Look = tuple[int, int, int] | None
"""What tells one state of a file from another: time of change in ns, size in bytes, inode; None when it is not there."""


class Agent(msgspec.Struct, frozen=True):
    """A definition with what it does not say itself.

    base is the folder that its model's relative paths count from; working_directory that of its toolboxes which say so.
    model answers in place of the one that the definition names.
    """

    spec: AgentSpec
    base: Path | None
    working_directory: Path
    model: ModelClient | None = None

    @property
    def slug(self) -> Name:
        return Name(self.spec.slug)

    @property
    def own(self) -> dict[Name, str]:
        """By name, all that would make another of a toolbox of its own: what is said, and what paths count from.

        Errors: ConfigurationError when two have one name.
        """
        folders = f"{self.spec.path.parent if self.spec.path else ''}\0{self.working_directory}"
        parts = self.spec.private_toolboxes
        own = {Name(name): f"{part.model_dump_json()}\0{folders}" for name, part in parts}
        if len(own) < len(parts):
            raise ConfigurationError(f"{self.spec.path or self.slug}: two toolboxes of this agent have one name")
        return own


def agent_of(spec: AgentSpec, working_directory: Path | None, model: ModelClient | None = None) -> Agent:
    """An agent whose relative paths count from the folder of its file, if it has one.

    Errors: ConfigurationError for one that holds a secret where a reference to it belongs: it would be stored.
    """
    check_secrets(spec.model_ref)
    base = spec.path.resolve().parent if spec.path is not None else None
    return Agent(spec, base, working_directory or _here(), model)


def bound(spec: AgentSpec, toolbox: str, use: ToolboxUse | None) -> AgentSpec:
    """The same definition with a toolbox used so, or not at all."""
    return spec.unbound(toolbox) if use is None else spec.bound(toolbox, use.expose, use.grant)


def read_agent(spec: AgentSpec | str | os.PathLike[str]) -> tuple[AgentSpec, Path | None, Look]:
    """What an agent's file says, the file to follow, and how it looked before it was read. Raises ConfigurationError.

    A spec that was changed after it was read is not that of its file any more, which is then not followed.
    """
    if not isinstance(spec, AgentSpec):
        path = Path(spec)
        seen = look_at(path)
        return load_agent(path), path, seen
    if spec.path is None:
        return spec, None, None
    seen = look_at(spec.path)
    try:
        same = load_agent(spec.path).model_dump() == spec.model_dump()
    except ConfigurationError:
        same = False
    return spec, spec.path if same else None, seen


def look_at(path: Path) -> Look:
    """How a file looks now; it is not opened."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _here() -> Path:
    """The folder that this process is in; one that is gone names no place, and whoever needs it says so."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path()
