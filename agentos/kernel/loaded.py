"""A conversation in memory: its slice of the World, the head of its log, its intake, and who waits for it."""

from __future__ import annotations

import asyncio

from agentos.clock import Timer
from agentos.events.intake import InnerCall, Item
from agentos.ids import LogId
from agentos.journal import Head, Times
from agentos.kernel.inner import Asked, InnerCalls
from agentos.kernel.outcome import RunOutcome
from agentos.persistence.base import WakeupRow
from agentos.world import Slice, View


class Loaded:
    """Live bookkeeping of one log; nothing of it is stored.

    flying: a unit of it is on its way to the store, and no pass may begin until it is known what became of it; again:
    intake came meanwhile. begun is for who waits for a new log's first unit. resumed: when it was taken over, a turn of it
    was open, or began. struck: where the log ended when a system raised last, which nobody is told of before it does again.
    """

    __slots__ = (
        "again",
        "alarms",
        "asks",
        "begun",
        "flying",
        "head",
        "inner",
        "intake",
        "keys",
        "log",
        "resumed",
        "slice",
        "struck",
        "timers",
        "times",
    )

    def __init__(self, slice_: Slice, head: Head, times: Times) -> None:
        self.log: LogId = slice_.log
        self.slice = slice_
        self.head = head
        self.times = times
        self.flying = self.again = self.resumed = False
        self.struck = 0
        self.begun: asyncio.Future[None] | None = None
        self.inner: InnerCalls | None = None
        self.intake: list[Item] = []
        self.keys: dict[int, str] = {}
        self.asks: dict[int, asyncio.Future[RunOutcome]] = {}
        self.alarms: dict[tuple[str, int, int], WakeupRow] = {}
        self.timers: dict[tuple[str, int, int], Timer] = {}

    def ask_inner(self, item: InnerCall) -> Asked:
        """The end of an inner call that is fed next."""
        if self.inner is None:
            self.inner = InnerCalls(self.log)
        return self.inner.ask(item)

    def tell_refused(self, view: View) -> None:
        """Inner calls that a pass took and did not store hear of it."""
        if self.inner is not None:
            self.inner.refused(view.taken)

    def key_of(self, item: Item) -> str | None:
        """The inbox key that an item came under; forgotten once asked."""
        return self.keys.pop(id(item), None) if self.keys else None


class Ticket:
    """Who waits for an input: for its storing, or for the end of the turn that takes it."""

    __slots__ = ("ended", "stored")

    def __init__(self, stored: asyncio.Future[int] | None, ended: asyncio.Future[RunOutcome] | None) -> None:
        self.stored = stored
        self.ended = ended

    def fail(self, error: Exception) -> None:
        for waiter in (self.stored, self.ended):
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)
