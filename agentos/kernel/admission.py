"""Admission: how many turns are at work at once, and who waits for a place. A kernel without bounds of turns has none of it.

A turn has a place from its begin to its end, but while it is parked: what would have it go on waits then until it has one
again, while inputs, cancels and whatever else ends it or changes nothing of it pass. What waits is not in the log yet: it
stands there when it is taken, as it does without a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentos.components import ConversationState, ConversationStatus, Phase, TurnState
from agentos.events.intake import (
    Cancel,
    ControlItem,
    Delegate,
    Erase,
    Input,
    Item,
    Progress,
    ResourceNote,
    Resume,
    Start,
    Wake,
    WakeReason,
)
from agentos.ids import CONVERSATION, LogId
from agentos.kernel.limiting import Limiting
from agentos.kernel.loaded import Loaded
from agentos.resources.places import Places, PlaceStatistics
from agentos.world import View

PASSES = frozenset({Cancel, ControlItem, Delegate, Erase, Input, Progress, ResourceNote, Start})
"""What has no turn go on, beside the time at which it has to end."""


class Admission:
    """Gives places to turns. wake has the tick look at a conversation again."""

    def __init__(self, limiting: Limiting, loaded: Mapping[LogId, Loaded], wake: Callable[[Loaded], None]) -> None:
        self._limiting, self._loaded, self._wake = limiting, loaded, wake
        self._places: Places[LogId] = limiting.turns(self._granted)
        self._told: set[LogId] = set()
        """Those whose place has come, and whose pass has not."""
        self._kept: set[LogId] = set()
        """Those with something in their intake that waits for their place."""
        self._next: set[LogId] = set()
        """Those whose turn has ended while others waited, and that have inputs for one more."""

    @property
    def waiting(self) -> int:
        """How many turns wait for a place."""
        return self._places.waiting

    @property
    def line(self) -> list[LogId]:
        """Those that wait for a place, in the order in which they asked."""
        return [log for log in self._places if self._places.waits(log)]

    def waits(self, log: LogId) -> bool:
        return self._places.waits(log)

    def has_room(self, log: LogId) -> bool:
        """Whether a turn that begins now would not have to wait."""
        return self._places.has_room(log)

    def needs(self, log: LogId) -> bool:
        """Whether it has to stay in memory: it waits, or its place has come and it has not begun."""
        return log in self._told or self._places.waits(log)

    def holds(self, log: LogId) -> bool:
        return self._places.holds(log)

    def statistics(self) -> list[PlaceStatistics]:
        return self._places.statistics()

    def begins(self, view: View) -> bool:
        """Whether a turn may begin in this pass. Where one has just ended, those who wait come before the next."""
        free = self._limiting.within_running_call(view.log, view.find)
        if view.turned and not free and (self._places.waiting or not self._places.is_counted(view.log)):
            self._next.add(view.log)
            return False
        return self._places.take(view.log, free=free)

    def held_back(self, ready: dict[LogId, Loaded]) -> dict[LogId, list[Item]]:
        """Takes from the intake of turns without a place what would have them go on; see `give_again`. A turn that nobody
        has resumed yet has no pass at all before it has a place."""
        kept: dict[LogId, list[Item]] = {}
        for log, loaded in list(ready.items()):
            self._told.discard(log)
            self._kept.discard(log)
            items = [item for item in loaded.intake if goes_on(item)]
            if not items or self._may_go_on(loaded):
                continue
            if any(type(item) is Resume for item in items):
                del ready[log]
                continue
            kept[log] = items
            loaded.intake = [item for item in loaded.intake if not goes_on(item)]
        return kept

    def give_again(self, kept: Mapping[LogId, list[Item]]) -> None:
        """After the passes: what was held back is intake again, for the pass in which its turn has a place."""
        for log, items in kept.items():
            self._loaded[log].intake[:0] = items
        self._kept.update(kept)

    def passed(self, loaded: Loaded) -> None:
        """A pass is over, and its unit, if it made one, no longer on its way: a place that it has no use for is free."""
        log = loaded.log
        if loaded.flying or log in self._told:
            return
        if log in self._kept and not _works(loaded):
            self._kept.discard(log)
            self._wake(loaded)  # what would have had it go on is late now
        goes_again = log in self._next
        self._next.discard(log)
        if loaded.times.shown == "running":
            return
        if self._places.holds(log) or not self._is_awaited(loaded):
            self._places.leave(log)
        if goes_again and self._is_awaited(loaded) and self._places.take(log):
            self._granted(log)

    def take_running(self) -> None:
        """Bounds begin to hold while turns run: these count too."""
        for log, loaded in self._loaded.items():
            if loaded.times.shown == "running":
                self._places.take(log, free=self._limiting.within_running_call(log))

    def ask_bounds_again(self) -> None:
        """Bounds have changed: those who wait may fall under others."""
        self._places.ask_bounds_again()

    def gone(self, log: LogId) -> None:
        """It is not in memory any more."""
        self._told.discard(log)
        self._next.discard(log)
        self._kept.discard(log)
        self._places.leave(log)

    def _may_go_on(self, loaded: Loaded) -> bool:
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is None or not state.open_turn:
            return True
        if not _works(loaded) and not any(type(item) is Resume for item in loaded.intake):
            return True
        return self._places.take(loaded.log, free=self._limiting.within_running_call(loaded.log))

    def _is_awaited(self, loaded: Loaded) -> bool:
        """Whether one that stands in line still has something to do with a place."""
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is None:
            return False
        if state.open_turn:
            return any(goes_on(item) for item in loaded.intake)
        return bool(state.waiting) and state.status is not ConversationStatus.PAUSED

    def _granted(self, log: LogId) -> None:
        loaded = self._loaded.get(log)
        if loaded is not None:
            self._told.add(log)
            self._wake(loaded)


def _works(loaded: Loaded) -> bool:
    """Whether a turn is open that is not about to end: only such a one begins anything."""
    state = loaded.slice.get(CONVERSATION, ConversationState)
    turn = loaded.slice.get(state.open_turn, TurnState) if state is not None and state.open_turn else None
    return turn is not None and turn.phase is not Phase.SETTLING


def goes_on(item: Item) -> bool:
    if isinstance(item, Wake):
        return item.reason is not WakeReason.DEADLINE
    return type(item) not in PASSES
