"""pause: lets the open turn of a conversation end, and begins no other."""

from __future__ import annotations

from agentos.events.intake import Control
from agentos.interfaces.cli.controlling import controlled
from agentos.interfaces.cli.invocation import Flag, Here


async def pause(conversation: str, /, *, json: Flag = False, here: Here) -> int:
    """Pause a conversation: its open turn goes on to its end, and no other begins until 'agentos unpause'.

    Inputs are taken, and wait.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    json
        print one JSON object
    """
    return await controlled(here, conversation, Control.PAUSE, json=json)
