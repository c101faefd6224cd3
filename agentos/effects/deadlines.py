"""Limits on running effects. A timer for each effect would cost more than many an effect; here each limit has one."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from agentos.clock import Clock, Timer

CROWDED = 256


class Limited(Protocol):
    """Something that runs, until it is done.

    expires_at: when its time is over, by the monotonic clock in seconds; None while it has no limit, or stands still.
    """

    done: bool
    expires_at: float | None

    def cancel(self, why: str) -> None: ...


class Deadlines:
    """Cancels what runs longer than its limit, as `timeout`. Those of one limit end in the order in which they began.

    One whose time stood still has a timer of its own from then on: it happens where a person was waited for.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, deque[tuple[float, Limited]]] = {}
        self._timers: dict[float, Timer] = {}
        self._own: dict[Limited, Timer] = {}

    def add(self, running: Limited, limit_s: float) -> None:
        line = self._lines.get(limit_s)
        if line is None:
            line = self._lines[limit_s] = deque()
        while line and line[0][1].done:
            line.popleft()
        if len(line) > CROWDED and len(line) > 4 * sum(not other.done for _, other in line):
            line = self._lines[limit_s] = deque(pair for pair in line if not pair[1].done)
        running.expires_at = at = self._clock.monotonic() + limit_s
        line.append((at, running))
        if limit_s not in self._timers:
            self._timers[limit_s] = self._clock.call_later(limit_s, lambda: self._due(limit_s))

    def stand_still(self, running: Limited) -> float | None:
        """Its time does not go on from now. Gives what is left of it, in seconds; None when it has no limit."""
        at, running.expires_at = running.expires_at, None
        timer = self._own.pop(running, None)
        if timer is not None:
            timer.cancel()
        return None if at is None else max(0.0, at - self._clock.monotonic())

    def go_on(self, running: Limited, left_s: float) -> None:
        """Its time goes on, with so many seconds left of it."""
        running.expires_at = self._clock.monotonic() + left_s
        self._own[running] = self._clock.call_later(left_s, lambda: self._expire(running))

    def close(self) -> None:
        for timer in (*self._timers.values(), *self._own.values()):
            timer.cancel()
        self._timers.clear()
        self._own.clear()
        self._lines.clear()

    def _expire(self, running: Limited) -> None:
        del self._own[running]
        if not running.done:
            running.cancel("timeout")

    def _due(self, limit_s: float) -> None:
        del self._timers[limit_s]
        line, now = self._lines[limit_s], self._clock.monotonic()
        while line and (line[0][1].done or line[0][0] <= now):
            at, running = line.popleft()
            if not running.done and running.expires_at == at:
                running.cancel("timeout")
        if line:
            self._timers[limit_s] = self._clock.call_later(line[0][0] - now, lambda: self._due(limit_s))
