"""Times that conversations wait for which are this kernel's and not in memory: one timer for all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from agentos.clock import Clock, Timer
from agentos.events.intake import WakeReason
from agentos.ids import LogId

SHORT = frozenset({WakeReason.RETRY.value, WakeReason.GRACE.value})
"""Waits of seconds, for which no log leaves memory; all others are set by people, in hours or days."""

_STALE_MAX = 64


class Dormant:
    """Knows of each log that was let go the earliest time it waits for, and wakes it then.

    wake is told a log once its time has come; the log counts as dormant until it is in memory again (`discard`).
    """

    def __init__(self, clock: Clock, wake: Callable[[LogId], None]) -> None:
        self._clock, self._wake = clock, wake
        self._due: dict[LogId, int | None] = {}
        self._order: list[tuple[int, LogId]] = []
        self._timer: Timer | None = None
        self._timer_due = 0

    def __contains__(self, log: LogId) -> bool:
        return log in self._due

    def __len__(self) -> int:
        return len(self._due)

    def add(self, log: LogId, due_at: int | None) -> None:
        """A log that leaves memory with times set, of which this is the earliest that has not come yet, in microseconds."""
        self._due[log] = due_at
        if due_at is None:
            return
        heapq.heappush(self._order, (due_at, log))
        if len(self._order) > 2 * len(self._due) + _STALE_MAX:
            self._order = sorted((due, name) for name, due in self._due.items() if due is not None)
        self._set_timer()

    def discard(self, log: LogId) -> None:
        """It is in memory again, or no longer ours."""
        self._due.pop(log, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """For the earliest of all; one that is set for a later time is set anew."""
        while self._order and self._due.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)
        if not self._order:
            return
        due_at = self._order[0][0]
        if self._timer is not None:
            if self._timer_due <= due_at:
                return
            self._timer.cancel()
        self._timer_due = due_at
        self._timer = self._clock.call_later(max(0.0, (due_at - self._clock.now()) / 1e6), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.now()
        while self._order and self._order[0][0] <= now:
            due_at, log = heapq.heappop(self._order)
            if self._due.get(log) == due_at:
                self._wake(log)
        self._set_timer()
