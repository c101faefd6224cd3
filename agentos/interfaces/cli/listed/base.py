"""How a command is listed. Its module is named, and imported when it is called."""

from __future__ import annotations

from typing import NamedTuple


class Listed(NamedTuple):
    """target is a module of agentos.interfaces.cli and a function in it, imported when the command is called."""

    name: str
    target: str
    help: str
    examples: tuple[str, ...]


class Group(NamedTuple):
    """Commands that stand behind one word."""

    name: str
    help: str
    commands: tuple[Listed, ...]
