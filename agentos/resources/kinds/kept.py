"""What is said of a process that is kept, before there is one: what to run, what for, and how much of it is borne."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Protocol

import msgspec

from agentos.clock import Clock
from agentos.errors import ProcessLost
from agentos.resources.process.command import ProcessLimits
from agentos.resources.process.live import LiveProcess


class KeptLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a process that stays.

    From its start until it is ready it has start_s, and close_s to end by itself once its stdin is closed; what follows
    stands in process. It is started anew at most restarts_max times within restarts_s. unread_bytes bounds what it was
    sent and has not read. Descendants that it left to us are reaped every reap_s.
    """

    start_s: float = 30.0
    close_s: float = 2.0
    restarts_max: int = 3
    restarts_s: float = 60.0
    unread_bytes: int = 16 * 1024 * 1024
    reap_s: float = 30.0
    process: ProcessLimits = ProcessLimits()


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: argv[0] is an absolute path, environment is all that it sees, but for the mark of its own."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str


class Restarts:
    """How often a process was started anew of late. The first start does not count, nor the first one since `forget`."""

    def __init__(self, limits: KeptLimits, clock: Clock) -> None:
        self._limits, self._clock = limits, clock
        self._at: deque[float] = deque()
        self._counts = False

    def may_start(self) -> bool:
        """Whether it may be started now, as it is then."""
        now = self._clock.monotonic()
        while self._at and now - self._at[0] >= self._limits.restarts_s:
            self._at.popleft()
        if self._counts and len(self._at) >= self._limits.restarts_max:
            return False
        if self._counts:
            self._at.append(now)
        self._counts = True
        return True

    def forget(self) -> None:
        self._at.clear()
        self._counts = False


class Use(Protocol):
    """What one incarnation of a process is used for."""

    def heard(self, chunk: memoryview) -> None:
        """A chunk of its stdout; its memory is used again afterwards. Never raises."""

    async def prepare(self, live: LiveProcess) -> None:
        """Makes it ready, within start_s. Whatever it raises is why it was not started."""

    def lost(self, error: ProcessLost) -> None:
        """It has ended, and all that was awaited of it will not come. Never raises."""


class ProcessState(Enum):
    """Where a kept process stands: down is dead and started anew when asked for, failed is given up."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    FAILED = "failed"
    CLOSED = "closed"
