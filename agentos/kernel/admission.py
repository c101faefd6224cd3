"""Admission: how many turns are at work at once, and who waits for a place. A kernel without bounds of turns has none of it.

A turn has a place from its begin to its end, but while it is parked: what would have it go on waits then until it has one
again, while inputs, cancels and whatever else ends or changes nothing of it pass. What waits is told nothing: it stands in
the log when it is taken, as it would without a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentos.components import ConversationState, ConversationStatus
from agentos.events.intake import (
    Answer,
    Cancel,
    ChildEnded,
    Erase,
    HookReport,
    Item,
    Probed,
    Resolve,
    Resume,
    Wake,
    WakeReason,
)
from agentos.ids import CONVERSATION, LogId
from agentos.kernel.limiting import Limiting
from agentos.kernel.loaded import Loaded
from agentos.resources.places import Places, PlaceStatistics
from agentos.world import View

GOES_ON = (ChildEnded, Answer, HookReport, Probed, Resolve, Resume)
"""What has a parked turn go on, beside times that it waited for."""
ENDS = (Cancel, Erase)


class Admission:
    """Gives places to turns. wake has the tick look at a conversation again."""

    def __init__(self, limiting: Limiting, loaded: Mapping[LogId, Loaded], wake: Callable[[Loaded], None]) -> None:
        self._limiting, self._loaded, self._wake = limiting, loaded, wake
        self._places: Places[LogId] = limiting.turns(self._granted)
        self._told: set[LogId] = set()
        """Those whose place has come, and whose pass has not."""
        self._next: set[LogId] = set()
        """Those whose turn has ended while others waited, and that have inputs for one more."""

    @property
    def waiting(self) -> int:
        """How many turns wait for a place."""
        return self._places.waiting

    def waits(self, log: LogId) -> bool:
        return self._places.waits(log)

    def holds(self, log: LogId) -> bool:
        return self._places.holds(log)

    def statistics(self) -> list[PlaceStatistics]:
        return self._places.statistics()

    def begins(self, view: View) -> bool:
        """Whether a turn may begin in this pass. Where one has just ended, those who wait come before the next."""
        if self._limiting.within_running_call(view.log):
            return True
        if view.turned and self._places.waiting:
            self._next.add(view.log)
            return False
        return self._places.take(view.log)

    def held_back(self, ready: dict[LogId, Loaded]) -> dict[LogId, list[Item]]:
        """Takes from the intake of turns without a place what would have them go on; see `give_again`. A turn that nobody
        has resumed yet has no pass at all before it has a place."""
        kept: dict[LogId, list[Item]] = {}
        for log, loaded in list(ready.items()):
            self._told.discard(log)
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

    def passed(self, loaded: Loaded) -> None:
        """A pass is over, and its unit, if it made one, no longer on its way: a place that it has no use for is free."""
        log = loaded.log
        if loaded.flying or log in self._told:
            return
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
            if loaded.times.shown == "running" and not self._limiting.within_running_call(log):
                self._places.take(log)

    def gone(self, log: LogId) -> None:
        """It is not in memory any more."""
        self._told.discard(log)
        self._next.discard(log)
        self._places.leave(log)

    def _may_go_on(self, loaded: Loaded) -> bool:
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is None or not state.open_turn or any(_ends(item) for item in loaded.intake):
            return True
        return self._limiting.within_running_call(loaded.log) or self._places.take(loaded.log)

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


def goes_on(item: Item) -> bool:
    if isinstance(item, Wake):
        return item.reason in (WakeReason.RETRY, WakeReason.APPROVAL, WakeReason.DOUBT)
    return isinstance(item, GOES_ON)


def _ends(item: Item) -> bool:
    return isinstance(item, ENDS) or (isinstance(item, Wake) and item.reason is WakeReason.DEADLINE)
