"""Agents from files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from agentos.definitions.checking import checked
from agentos.definitions.source import read_yaml
from agentos.definitions.spec import AgentSpec, ModelUse, PolicyRule, SubagentUse, ToolboxUse
from agentos.errors import ConfigurationError

SUFFIXES = (".yaml", ".yml")
_PARTS: dict[str, type[BaseModel]] = {
    "toolboxes": ToolboxUse,
    "subagents": SubagentUse,
    "model": ModelUse,
    "policy": PolicyRule,
}


def load_agent(path: Path) -> AgentSpec:
    """One agent from one file. Raises ConfigurationError naming file, line and column of each problem."""
    spec = checked(AgentSpec, read_yaml(path), _PARTS)
    spec._path = path
    return spec


def load_agents(paths: Iterable[Path]) -> dict[str, AgentSpec]:
    """Agents by slug. Errors: those of `load_agent`, and ConfigurationError for one slug in two files."""
    agents: dict[str, AgentSpec] = {}
    for path in paths:
        spec = load_agent(path)
        if spec.slug in agents:
            raise ConfigurationError(f"{path}: the slug {spec.slug!r} is already that of {agents[spec.slug].path}")
        agents[spec.slug] = spec
    return agents


def agent_files(directory: Path) -> list[Path]:
    """The agent files directly inside a directory, sorted. Raises ConfigurationError."""
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory of agents")
    return sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES and path.is_file())
