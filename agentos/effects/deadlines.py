"""Limits on running effects. A timer for each effect would cost more than many an effect; here each limit has one."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from agentos.clock import Clock, Timer

CROWDED = 256


class Limited(Protocol):
    """Something that runs, until it is done."""

    done: bool

    def cancel(self, why: str) -> None: ...


class Deadlines:
    """Cancels what runs longer than its limit, as `timeout`. Those of one limit end in the order in which they began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[float, deque[tuple[float, Limited]]] = {}
        self._timers: dict[float, Timer] = {}

    def add(self, running: Limited, limit_s: float) -> None:
        line = self._lines.get(limit_s)
        if line is None:
            line = self._lines[limit_s] = deque()
        while line and line[0][1].done:
            line.popleft()
        if len(line) > CROWDED and len(line) > 4 * sum(not other.done for _, other in line):
            line = self._lines[limit_s] = deque(pair for pair in line if not pair[1].done)
        line.append((self._clock.monotonic() + limit_s, running))
        if limit_s not in self._timers:
            self._timers[limit_s] = self._clock.call_later(limit_s, lambda: self._due(limit_s))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._lines.clear()

    def _due(self, limit_s: float) -> None:
        del self._timers[limit_s]
        line, now = self._lines[limit_s], self._clock.monotonic()
        while line and (line[0][1].done or line[0][0] <= now):
            _, running = line.popleft()
            if not running.done:
                running.cancel("timeout")
        if line:
            self._timers[limit_s] = self._clock.call_later(line[0][0] - now, lambda: self._due(limit_s))
