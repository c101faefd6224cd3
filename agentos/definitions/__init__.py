"""From files to a checked graph of agents: what an agent may say, `agentos.toml`, and what a turn pins of it all."""

from agentos.definitions.files import agent_files, load_agent, load_agents
from agentos.definitions.project import (
    DEFAULT_STORE,
    PROJECT_FILE,
    Project,
    ToolboxSpec,
    load_project,
    make_toolbox,
    project_store,
)
from agentos.definitions.resolve import resolve, wire
from agentos.definitions.spec import AgentSpec, ModelUse, PolicyRule, SessionPolicy, SubagentUse, ToolboxUse

__all__ = [
    "DEFAULT_STORE",
    "PROJECT_FILE",
    "AgentSpec",
    "ModelUse",
    "PolicyRule",
    "Project",
    "SessionPolicy",
    "SubagentUse",
    "ToolboxSpec",
    "ToolboxUse",
    "agent_files",
    "load_agent",
    "load_agents",
    "load_project",
    "make_toolbox",
    "project_store",
    "resolve",
    "wire",
]
