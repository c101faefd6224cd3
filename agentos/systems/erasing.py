"""Erasing: a conversation at rest is closed for good, and its private values go with the unit that says so."""

from __future__ import annotations

from agentos.components import ConversationStatus
from agentos.events.entry import Draft
from agentos.events.intake import Erase
from agentos.events.kinds import PayloadErased
from agentos.ids import CONVERSATION
from agentos.systems.ending import replace
from agentos.world import Decision, View


def admit_erasure(view: View, item: Erase) -> Decision:
    """The receipt, as the first entry of its unit. Inputs and notes that wait go with the rest.

    An item that counted what stood up to another seq is dropped, and whoever sent it counts again; so is one that finds a
    turn open, and one that comes second.
    """
    state = view.conversation
    if state is None or state.open_turn or state.erased_at is not None or view.next - 1 != item.upto:
        return Decision(dropped=(item,))
    after = replace(state, status=ConversationStatus.CLOSED, waiting=(), resolutions=(), erased_at=view.now)
    receipt = PayloadErased(upto=item.upto, bodies=item.bodies, reason=item.reason)
    return Decision((Draft(data=receipt, changes=((CONVERSATION, after),), fed=item, by=item.by),))


def is_erased(view: View) -> bool:
    """Whether nothing that is private may be stored in the conversation any more."""
    state = view.conversation
    return state is not None and state.erased_at is not None
