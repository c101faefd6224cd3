"""Snapshots, and entry kinds of the logs of agents, toolboxes and the program."""

from __future__ import annotations

from typing import ClassVar

from agentos.events.kinds.base import EntryData


class Snapshot(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """Every loaded stored component of the log, as changes; a fold may begin here. Not compared by replay."""

    kind: ClassVar[str] = "snapshot"
    writer: ClassVar[str] = "journal"


class AgentInstalled(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In an agent's log: a definition comes into force."""

    kind: ClassVar[str] = "agent.installed"
    writer: ClassVar[str] = "kernel"


class AgentRemoved(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In an agent's log: it starts no more conversations."""

    kind: ClassVar[str] = "agent.removed"
    writer: ClassVar[str] = "kernel"


class ToolboxOpened(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it offers its tools, for the first time or again. Its ToolboxConfig names the toolset."""

    kind: ClassVar[str] = "toolbox.opened"
    writer: ClassVar[str] = "kernel"


class ToolboxChanged(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it offers another toolset, or the same made of other files."""

    kind: ClassVar[str] = "toolbox.changed"
    writer: ClassVar[str] = "kernel"


class ToolboxClosed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it was removed. The end of a process writes none."""

    kind: ClassVar[str] = "toolbox.closed"
    writer: ClassVar[str] = "kernel"


class SharesChanged(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In the program's log: an agent or a tenant has another weight where many wait. Its Shares are all that are in force."""

    kind: ClassVar[str] = "shares.changed"
    writer: ClassVar[str] = "kernel"
