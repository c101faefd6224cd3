"""Who waits for an input to be stored, or for the end of the turn that takes it; nobody is ever left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentos.components import TurnConfig
from agentos.errors import ConversationClosed, ConversationErased, KernelClosed
from agentos.events.entry import Draft
from agentos.events.intake import Erase, Input, Item, Start
from agentos.kernel.loaded import Loaded, Ticket
from agentos.kernel.outcome import RunOutcome, outcome_of
from agentos.resources.finishing import unheard
from agentos.world import View


def beginning_of(loaded: Loaded) -> asyncio.Future[None]:
    """What all share who wait until the first unit of a new log is stored, each behind a shield."""
    if loaded.begun is None:
        loaded.begun = asyncio.get_running_loop().create_future()
        loaded.begun.add_done_callback(unheard)
    return loaded.begun


class Waiters:
    """The tickets of inputs on their way; the asks of stored ones stand with their conversation."""

    def __init__(self) -> None:
        self.tickets: dict[int, Ticket] = {}

    def begun(self, loaded: Loaded, error: Exception | None = None) -> None:
        """The first unit of a new log is stored; or it is not, and who waits begins it again if it is wanted still."""
        waiter, loaded.begun = loaded.begun, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def input_stored(self, loaded: Loaded, seq: int, draft: Draft) -> None:
        fed = draft.fed
        ticket = self.tickets.pop(fed.ticket, None) if type(fed) is Input and fed.ticket else None
        if ticket is None:
            return
        if ticket.stored is not None and not ticket.stored.done():
            ticket.stored.set_result(seq)
        if ticket.ended is not None:
            loaded.asks[seq] = ticket.ended

    def erased(self, seq: int, draft: Draft) -> None:
        """The receipt of an erase is stored at this seq."""
        fed = draft.fed
        ticket = self.tickets.pop(fed.ticket, None) if type(fed) is Erase and fed.ticket else None
        if ticket is not None and ticket.stored is not None and not ticket.stored.done():
            ticket.stored.set_result(seq)

    def turn_finished(self, loaded: Loaded, view: View, turn: int) -> None:
        outcome = None
        for seq in view.get(turn, TurnConfig).inputs if loaded.asks else ():
            waiter = loaded.asks.pop(seq, None)
            if waiter is not None and not waiter.done():
                outcome = outcome or outcome_of(view, turn)
                waiter.set_result(outcome)

    def tell(self, item: Item, error: Exception) -> bool:
        """Whether somebody waits for this item, and now knows that it is not stored."""
        ticket = self.tickets.pop(item.ticket, None) if isinstance(item, _TICKETED) and item.ticket else None
        if ticket is None:
            return False
        ticket.fail(error)
        return True

    def is_told(self, loaded: Loaded, item: Item) -> bool:
        """Whether somebody knows already that this item is not stored; then it must not be, later."""
        if isinstance(item, _TICKETED):
            return bool(item.ticket) and item.ticket not in self.tickets
        return type(item) is Start and loaded.begun is None

    def dropped(self, view: View) -> None:
        """An input that a pass took and did not store came too late for its conversation."""
        state = view.conversation
        erased_at = state.erased_at if state is not None else None
        for item in view.taken:
            self.tell(item, ConversationErased(view.log, erased_at) if erased_at else ConversationClosed(view.log))

    def fail(self, loaded: Loaded, items: Sequence[Item], error: Exception) -> None:
        """Everybody who waits for these items, or for a turn of the conversation."""
        for item in items:
            self.tell(item, error)
        self.begun(loaded, error)
        fail_asks(loaded, error)

    def close(self, loaded: Sequence[Loaded]) -> None:
        for ticket in self.tickets.values():
            ticket.fail(KernelClosed())
        self.tickets.clear()
        for conversation in loaded:
            self.begun(conversation, KernelClosed())
            fail_asks(conversation, KernelClosed())


_TICKETED = (Input, Erase)
"""The items that somebody may wait for."""


def fail_asks(loaded: Loaded, error: Exception) -> None:
    for waiter in loaded.asks.values():
        _fail(waiter, error)
    loaded.asks.clear()


def _fail(waiter: asyncio.Future[RunOutcome], error: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(error)
