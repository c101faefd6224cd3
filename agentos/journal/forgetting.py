"""What leaves memory when a turn begins or ends: the store has it. The last settled turn stays until the next begins."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentos.components import ConversationState
from agentos.events.entry import Draft
from agentos.events.kinds import TurnFinished, TurnStarted
from agentos.ids import CONVERSATION

Bodies = dict[tuple[int, int], Any]
"""Private values by the seq of their entry and their number in it."""


def leaving(entities: Collection[int], drafts: Sequence[Draft], open_turn: int) -> set[int]:
    """The entities of a log that are settled once these drafts are stored; open_turn is the one after them, 0 for none."""
    gone: set[int] = set()
    for draft in drafts:
        kind = type(draft.data)
        if kind is TurnStarted:
            gone.update(entity for entity in entities if CONVERSATION < entity < draft.turn)
        elif kind is TurnFinished:
            newer = open_turn or sys.maxsize
            gone.update(entity for entity in entities if draft.turn < entity < newer)
    return gone


def staying(bodies: Mapping[tuple[int, int], Any], state: ConversationState) -> Bodies:
    """What is still read when a turn has ended: inputs and notes that wait, and what a turn reads that began in the same
    unit."""
    if not state.waiting and not state.open_turn and not state.resolutions:
        return {}
    newer = state.open_turn or sys.maxsize
    waiting = {waiting.seq for waiting in state.waiting} | set(state.resolutions)
    return {key: body for key, body in bodies.items() if key[0] in waiting or key[0] > newer}
