"""Which part of a long conversation a turn begins with: the projection that `window_messages` bounds."""

from __future__ import annotations

from agentos.components import ContextWindow
from agentos.events.entry import Change
from agentos.ids import CONVERSATION
from agentos.world import View


def moved(view: View, turn: int, inputs: int, messages_max: int | None) -> tuple[Change, ...]:
    """The change that moves the window when the turn would begin with more messages than that, its inputs counted.

    It moves to the start of a later turn, so that calls stay with their results, and so far that at most half of
    messages_max stay: what a provider caches of the requests before is then good for many turns. Where no earlier turn
    is short enough, the window begins with the present one.
    """
    told = view.transcript
    if messages_max is None or told.count + inputs <= messages_max:
        return ()
    first = told.turn_within(messages_max // 2 - inputs) or turn
    return ((CONVERSATION, ContextWindow(first_turn=first)),)
