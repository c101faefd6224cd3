"""unpause: lets a conversation go on that was paused, by a person or by an import."""

from __future__ import annotations

import uuid

from agentos.events.intake import Control, ControlItem
from agentos.interfaces.cli.commands import HOW_TAKEN
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, say
from agentos.kernel.reading import reading


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
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        posted = await store.post(log, f"control:{uuid.uuid4().hex}", ControlItem(control=Control.UNPAUSE))
    if json:
        put_json({"conversation": log, "posted": posted})
    else:
        say(f"{log}: unpaused; {HOW_TAKEN}")
    return Exit.OK
