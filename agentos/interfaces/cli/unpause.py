"""unpause: lets a conversation go on that was paused, by a person or by an import."""

from __future__ import annotations

from agentos.events.intake import Control
from agentos.interfaces.cli.controlling import controlled
from agentos.interfaces.cli.invocation import Flag, Here


async def unpause(conversation: str, /, *, json: Flag = False, here: Here) -> int:
    """Let a paused conversation go on: inputs that wait are taken again, and the open turn of an imported one goes on.

    Look at what it would do before, with 'agentos show ID' and 'agentos lineage ID': calls that were open may run.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    json
        print one JSON object
    """
    return await controlled(here, conversation, Control.UNPAUSE, json=json)
