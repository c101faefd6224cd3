"""Whether a process that was asked something has fallen silent, and hangs: it is alive, and says nothing at all.

It is doubted once nobody waits any more for what it was asked first, and nothing was heard of it for silent_s: not one
line, of whatever kind. As long as somebody waits for the oldest of the requests, it may well be busy with that one. One that
is in doubt is asked a question, and any line within health_s will do, an error too; else it hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec


class SilenceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A process that nothing was heard of for silent_s is in doubt; then it has health_s to say anything."""

    silent_s: float = 30.0
    health_s: float = 10.0


class Question(NamedTuple):
    """A request whose answer tells only that there is one. By default a method that JSON-RPC reserves, and nobody has."""

    method: str = "rpc.health"
    params: object = None


class Silence:
    """Of one incarnation. ask puts the question, hangs is told in words that it was not answered; neither raises."""

    def __init__(
        self,
        limits: SilenceLimits,
        oldest: Callable[[], int | None],
        ask: Callable[[], None],
        hangs: Callable[[str], None],
    ) -> None:
        """oldest gives the number of the oldest request that somebody waits for; None when nobody does."""
        self._limits, self._oldest, self._ask, self._hangs = limits, oldest, ask, hangs
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()
        self._given_up: int | None = None
        """The oldest request that nobody waits for any more, of those that were under way when it was last heard."""
        self._timer: asyncio.TimerHandle | None = None

    def asks(self) -> None:
        """A request is about to be sent. A silence in which nothing was asked tells nothing."""
        if self._given_up is None and self._oldest() is None:
            self._since_s = self._loop.time()

    def heard(self) -> None:
        self._since_s = self._loop.time()
        self._given_up = None
        self.close()

    def gives_up(self, number: int) -> None:
        """Nobody waits any more for this request, which was not answered."""
        self._given_up = number if self._given_up is None else min(number, self._given_up)
        if self._timer is None:
            self._look()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        oldest = self._oldest()
        if self._given_up is None or (oldest is not None and oldest < self._given_up):
            return
        left_s = self._since_s + self._limits.silent_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._timer = self._loop.call_later(self._limits.health_s, self._end)
            self._ask()

    def _end(self) -> None:
        silent_s, health_s = self._limits.silent_s, self._limits.health_s
        again = f"nor within {health_s:g} s when it was asked again (health_s)"
        self._hangs(f"hung, and was ended: it said nothing for {silent_s:g} s (silent_s), {again}")
