"""The commands by name: where each stands, what it is for, and examples. Nothing is imported to list them."""

from __future__ import annotations

from agentos.interfaces.cli.listed.agents import AGENTS
from agentos.interfaces.cli.listed.base import Group, Listed
from agentos.interfaces.cli.listed.groups import GROUPS
from agentos.interfaces.cli.listed.history import HISTORY
from agentos.interfaces.cli.listed.looking import LOOKING
from agentos.interfaces.cli.listed.places import PLACES
from agentos.interfaces.cli.listed.stores import STORES
from agentos.interfaces.cli.listed.telling import TELLING

__all__ = ["COMMANDS", "EPILOGUE", "GROUPS", "Group", "Listed", "examples_of", "names"]

COMMANDS = (*AGENTS, *LOOKING, *TELLING, *HISTORY, *STORES, *PLACES)

EPILOGUE = """Examples:
  agentos init                                     make a project here
  agentos run -p 'count_words text="to be"'        ask its agent
  agentos ps                                       see all conversations
  agentos query 'select role, text from messages'  ask the store
  agentos demo .                                   see 200 conversations at work

Exit codes:
  0 ok, 1 failure, 2 usage, 3 configuration, 4 provider, 5 tool, 6 limit,
  7 refused or waiting for approval, 130 interrupted"""


def names(chain: tuple[str, ...] = ()) -> list[str]:
    """What may stand after these words."""
    for group in GROUPS:
        if chain == (group.name,):
            return [command.name for command in group.commands]
    return [entry.name for entry in (*COMMANDS, *GROUPS)]


def examples_of(*commands: Listed) -> str:
    return "Examples:\n" + "\n".join(f"  {line}" for command in commands for line in command.examples)
