"""replay and verify: is what is stored what was decided, and is it what was written?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.history import Divergence, Identical, Replayed, replay_all, replay_log, verify_store
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Here
from agentos.interfaces.cli.output import put, put_json
from agentos.kernel.reading import Reading, reading


async def replay(
    conversation: str | None = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
    here: Here,
) -> int:
    """Decide a conversation, or all, again from what was recorded, and compare entry by entry. Nothing is called.

    Prints `identical`, or the first entry that would be decided otherwise, with both sides. Exit code 0 or 1.
    """
    raise NotImplementedError
