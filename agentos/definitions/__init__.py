"""From files to a checked graph of agents: what an agent may say, `agentos.toml`, and what a turn pins of it all.

Importing the package loads none of its parts, so that a command that only reads a store does not pay for the checks.
No public name is that of a module in it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "DEFAULT_STORE",
    "PROJECT_FILE",
    "AgentSpec",
    "Loaded",
    "ModelUse",
    "PolicyRule",
    "Problem",
    "Project",
    "SessionPolicy",
    "Source",
    "SubagentUse",
    "ToolboxSpec",
    "ToolboxUse",
    "agent_files",
    "cycles",
    "load_agent",
    "load_agents",
    "load_all",
    "load_project",
    "make_toolbox",
    "own_toolboxes",
    "project_store",
    "read_source",
    "wire",
]

if TYPE_CHECKING:
    from agentos.definitions.boxes import make_toolbox, own_toolboxes
    from agentos.definitions.circles import cycles
    from agentos.definitions.files import agent_files, load_agent
    from agentos.definitions.loading import Loaded, load_agents, load_all
    from agentos.definitions.location import DEFAULT_STORE, PROJECT_FILE, project_store
    from agentos.definitions.problem import Problem
    from agentos.definitions.project import Project, load_project
    from agentos.definitions.reading import read_source
    from agentos.definitions.resolve import wire
    from agentos.definitions.source import Source
    from agentos.definitions.spec import AgentSpec, ModelUse, PolicyRule, SessionPolicy, SubagentUse, ToolboxUse
    from agentos.definitions.toolbox_spec import ToolboxSpec
else:
    # Hidden from the type checker, which would take any name for a good one beside a __getattr__.
    _HOMES = {
        "DEFAULT_STORE": "location",
        "PROJECT_FILE": "location",
        "AgentSpec": "spec",
        "Loaded": "loading",
        "ModelUse": "spec",
        "PolicyRule": "spec",
        "Problem": "problem",
        "Project": "project",
        "SessionPolicy": "spec",
        "Source": "source",
        "SubagentUse": "spec",
        "ToolboxSpec": "toolbox_spec",
        "ToolboxUse": "spec",
        "agent_files": "files",
        "cycles": "circles",
        "load_agent": "files",
        "load_agents": "loading",
        "load_all": "loading",
        "load_project": "project",
        "make_toolbox": "boxes",
        "own_toolboxes": "boxes",
        "project_store": "location",
        "read_source": "reading",
        "wire": "resolve",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return __all__
