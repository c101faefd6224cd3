"""The toolboxes that a command works with when no kernel is needed: those of the project, and those of its agents alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentos.definitions import PROJECT_FILE, load_agents, load_project
from agentos.definitions.boxes import own_toolboxes
from agentos.errors import ConfigurationError


def project_toolboxes(files: Sequence[Path]) -> list[Any]:
    """Made, not opened. files name agents beside those of the project. Raises ConfigurationError."""
    project = load_project(Path.cwd())
    if project is None and not files:
        raise ConfigurationError(
            f"no tools: no {PROJECT_FILE} was found from here upward; "
            "'agentos init' makes a project, --agent-file names an agent, and a path names a script"
        )
    agents = {**(project.agents() if project is not None else {}), **load_agents(files)}
    shared = project.toolboxes() if project is not None else []
    return [*shared, *(box for spec in agents.values() for box in own_toolboxes(spec, Path.cwd()))]
