"""Times that turns wait for: stored as wake-ups, kept as timers, void once their turn has ended."""

from __future__ import annotations

from collections.abc import Callable

from agentos.clock import Clock
from agentos.events.intake import Item, Wake, WakeReason
from agentos.events.kinds import CallResolved, TurnFinished
from agentos.ids import LogId
from agentos.journal import Sealed
from agentos.kernel.loaded import Loaded
from agentos.persistence.base import Unit, WakeupRow
from agentos.world import View

Feed = Callable[[LogId, tuple[str, int, int], Item], None]
"""Gives a wake-up to its log if that is loaded and still waits for this time."""


class Alarms:
    """The timers of loaded conversations."""

    def __init__(self, clock: Clock, feed: Feed) -> None:
        self._clock, self._feed = clock, feed

    def complete(self, sealed: Sealed, view: View, loaded: Loaded) -> None:
        """Says in the unit which stored wake-ups it makes void."""
        unit = sealed.unit
        ended = {draft.turn for draft in sealed.drafts if type(draft.data) is TurnFinished}
        if ended and unit.wakeups:
            # A turn that began and ended in this unit waits for no time; its rows would stay for ever.
            unit.wakeups = [row for row in unit.wakeups if row.turn not in ended]
        if not loaded.alarms:
            return
        if ended:
            unit.woken = list(loaded.alarms.values())
            return
        fired = [(item.reason.value, item.turn, item.call) for item in view.taken if type(item) is Wake]
        fired += [
            (WakeReason.DOUBT.value, draft.turn, draft.call)
            for draft in sealed.drafts
            if type(draft.data) is CallResolved
        ]
        unit.woken = [loaded.alarms[key] for key in fired if key in loaded.alarms]

    def set(self, loaded: Loaded, unit: Unit) -> None:
        """After the unit is stored: void timers stop, new ones start."""
        for row in unit.woken:
            key = (row.reason, row.turn, row.call)
            loaded.alarms.pop(key, None)
            timer = loaded.timers.pop(key, None)
            if timer is not None:
                timer.cancel()
        for row in unit.wakeups:
            self.arm(loaded, row)

    def arm(self, loaded: Loaded, row: WakeupRow) -> None:
        """Feeds the wake-up when its time has come, unless it is void by then."""
        key = (row.reason, row.turn, row.call)
        loaded.alarms[key] = row
        if (before := loaded.timers.pop(key, None)) is not None:
            before.cancel()
        item = Wake(reason=WakeReason(row.reason), turn=row.turn, call=row.call)
        delay_s = max(0.0, (row.due_at - self._clock.now()) / 1e6)
        loaded.timers[key] = self._clock.call_later(delay_s, lambda: self._ring(loaded, key, item))

    def arm_again(self, loaded: Loaded, row: WakeupRow) -> None:
        """As `arm`, for a log that was away: a time that has come meanwhile is told at once."""
        self.arm(loaded, row)
        if row.due_at <= self._clock.now():
            key = (row.reason, row.turn, row.call)
            loaded.timers[key].cancel()
            self._ring(loaded, key, Wake(reason=WakeReason(row.reason), turn=row.turn, call=row.call))

    def _ring(self, loaded: Loaded, key: tuple[str, int, int], item: Wake) -> None:
        """What nobody waits for any more stays set until its turn ends, and rings no more."""
        loaded.timers.pop(key, None)
        self._feed(loaded.log, key, item)
