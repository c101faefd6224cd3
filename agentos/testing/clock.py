"""A clock that stands still until somebody advances it: the adapter of `agentos.clock.Clock` for tests."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from agentos.ids import Micros

START = Micros(1_800_000_000_000_000)
"""Where it begins: a moment in January 2027."""


class ManualTimer:
    """One callback and when it is due, in seconds of the clock."""

    __slots__ = ("callback", "cancelled", "due_s")

    def __init__(self, due_s: float, callback: Callable[[], object]) -> None:
        self.due_s, self.callback, self.cancelled = due_s, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time passes in `advance` alone; the wall clock goes along, and `set_back` makes it jump as real ones do."""

    def __init__(self, start: Micros = START, elapsed_s: float = 0.0) -> None:
        self._start = start
        self._elapsed_s = elapsed_s
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._made = 0

    def now(self) -> Micros:
        return Micros(self._start + round(self._elapsed_s * 1e6))

    def monotonic(self) -> float:
        return self._elapsed_s

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(self._elapsed_s + max(0.0, delay_s), callback)
        self._made += 1
        heapq.heappush(self._timers, (timer.due_s, self._made, timer))
        return timer

    async def sleep(self, delay_s: float) -> None:
        """Waits for the clock; a sleep of 0 still lets others run."""
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        over = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_s, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> int:
        """Lets time pass, and calls what falls due in order, each at its own time; returns how many were called.

        Callbacks that become due by what others set up are called too. Raises ValueError for a step backwards.
        """
        if seconds < 0:
            raise ValueError(f"a clock is not advanced by {seconds:g} s; set_back moves the wall clock")
        until = self._elapsed_s + seconds
        called = 0
        while (timer := self._next()) is not None and timer.due_s <= until:
            heapq.heappop(self._timers)
            self._elapsed_s = max(self._elapsed_s, timer.due_s)
            timer.callback()
            called += 1
        self._elapsed_s = until
        return called

    def set_back(self, seconds: float) -> None:
        """The wall clock jumps back, or ahead when negative; running timers do not care."""
        self._start = Micros(self._start - round(seconds * 1e6))

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next timer; None when there is none."""
        timer = self._next()
        return None if timer is None else max(0.0, timer.due_s - self._elapsed_s)

    def after_a_crash(self) -> ManualClock:
        """The same time without the timers: those went down with their process."""
        return ManualClock(self._start, self._elapsed_s)

    def _next(self) -> ManualTimer | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][2] if self._timers else None
