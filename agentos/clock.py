"""Time as a port: the wall clock says when, the monotonic clock how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from agentos.ids import Micros


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What the kernel knows of time. `agentos.testing.ManualClock` is the other adapter."""

    def now(self) -> Micros:
        """Wall time in microseconds since 1970, UTC. It may jump; it never decides an order or a timeout."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Calls back once on the loop after delay_s seconds, unless cancelled."""

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> Micros:
        return Micros(time.time_ns() // 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
