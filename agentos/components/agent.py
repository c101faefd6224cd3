"""What is known of agents and toolboxes."""

from __future__ import annotations

from typing import ClassVar

from agentos.components.base import Component, Word
from agentos.ids import AgentId, Digest, Name, ToolboxId


class AgentConfig(Component, frozen=True, omit_defaults=True, kw_only=True):
    """An installed agent: its slug, and the digest of the definition in force."""

    component: ClassVar[str] = "agent_config"
    slug: Name
    definition: Digest


class AgentState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """revision counts installed definitions, from 1; removed agents start no conversation."""

    component: ClassVar[str] = "agent_state"
    revision: int = 1
    removed: bool = False


class AgentProblem(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Live: why what the agent's files say now is not in force, with file, line and column; empty when it is."""

    component: ClassVar[str] = "agent_problem"
    text: str = ""


class ToolboxSharing(Word):
    """How many calls a toolbox bears at once."""

    EXCLUSIVE = "exclusive"
    READ_WRITE = "read-write"
    POOL = "pool"
    STATELESS = "stateless"
    PER_CONVERSATION = "per-conversation"
    PER_AGENT = "per-agent"


class ToolboxConfig(Component, frozen=True, omit_defaults=True, kw_only=True):
    """A toolbox that was opened: its name, its kind (script, python, ...) and how it is shared; size is that of a pool.

    toolset is the digest of what it offers, and of what that is made of as far as it tells; revision counts toolsets,
    from 1. closed: it was removed.
    """

    component: ClassVar[str] = "toolbox_config"
    name: Name
    kind: Name
    sharing: ToolboxSharing
    size: int = 0
    toolset: Digest = Digest("")
    revision: int = 0
    closed: bool = False


class ToolboxStatus(Word):
    READY = "ready"
    ERROR = "error"
    CLOSED = "closed"


class ToolboxState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Live: whether calls can go to it; tools counts what it offers.

    problem says why it is in state error, or what of it could not be loaded while the rest goes on.
    """

    component: ClassVar[str] = "toolbox_state"
    status: ToolboxStatus
    tools: int = 0
    problem: str = ""


class ToolboxBinding(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Which toolboxes an agent's definition names; they need not be open yet."""

    component: ClassVar[str] = "toolbox_binding"
    agent: AgentId
    toolboxes: tuple[ToolboxId, ...] = ()
