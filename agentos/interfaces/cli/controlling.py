"""What pause and unpause have in common: the word goes to the kernel that has the conversation, else into its inbox."""

from __future__ import annotations

import uuid

from agentos.events.intake import Control, ControlItem
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.output import put_json, say
from agentos.interfaces.cli.running import given_to_owner, how_taken
from agentos.kernel.reading import reading

_DONE = {Control.PAUSE: "paused", Control.UNPAUSE: "unpaused", Control.CLOSE: "closed"}


async def controlled(here: Invocation, conversation: str, control: Control, *, json: bool) -> int:
    """Finds the conversation, and has it paused or unpaused; says who took the word."""
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        taken = await given_to_owner(store, log, lambda kernel: kernel.control(log, control))
        if taken is None:
            await store.post(log, f"control:{uuid.uuid4().hex}", ControlItem(control=control))
    taken_by = taken.pid if taken is not None else None
    if json:
        put_json({"conversation": log, "posted": True, "taken_by": taken_by})
    else:
        done = _DONE[control] if taken_by is not None else f"{control.value} is under way"
        say(f"{log}: {done}; {how_taken(taken_by)}")
    return Exit.OK
