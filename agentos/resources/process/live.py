"""A process that stays: fed piece by piece, heard chunk by chunk, and ended as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentos.resources.account import Place
from agentos.resources.process.command import Command, ProcessLimits
from agentos.resources.process.family import begun, insist
from agentos.resources.process.output import Output
from agentos.resources.process.pipes import Feed, Piece, Reader

ERROR_CHARS = 500
"""How much of what it printed on stderr an error tells."""


class LiveProcess:
    """One process, from its start to its end. Whoever makes it has to `end` it, once, in whichever way that is reached.

    heard is called with each chunk of its stdout, before the chunk's memory is used again; it never raises. unread_bytes
    bounds what it was sent and has not read. Of its stderr limits.error_bytes are kept, the beginning and the end.
    """

    def __init__(
        self,
        command: Command,
        limits: ProcessLimits,
        heard: Callable[[memoryview], None],
        unread_bytes: int,
        place: Place | None = None,
    ) -> None:
        """Its place among those that are bounded it gives back at its end, and when it cannot be started.

        Raises OSError when it cannot be started, ValueError when an argument holds a NUL.
        """
        self._place = place
        self.err = Output(limits.error_bytes)
        self.was_stopped = False
        """Whether it did not end by itself, and had to be ended."""
        self._limits = limits
        try:
            with begun(command, limits, feed=True) as (process, self._family):
                self._out, self._errors = Reader(process.stdout, None, heard), Reader(process.stderr, self.err)
                self._feed = Feed(process.stdin, unread_bytes)
        except BaseException:
            self._give_place_back()
            raise

    @property
    def pid(self) -> int:
        return self._family.pid

    @property
    def alive(self) -> bool:
        """Whether it runs, and can be talked to."""
        return not (self._family.ended.done() or self._out.ended.done() or self._feed.broken.done())

    def write(self, data: bytes) -> Piece | None:
        """Sends a piece, whole; None when what it has not read yet leaves no room for it."""
        return self._feed.add(data)

    def take_back(self, piece: Piece) -> bool:
        """Whether a piece that was on its way is not sent at all."""
        return self._feed.take_back(piece)

    def reap(self) -> None:
        """Takes the exit status of descendants that were left to us and have ended."""
        self._family.reap()

    async def wait_lost(self) -> None:
        """Until it has ended, or has closed the pipe at either of our ends, so that it is of no more use."""
        news = (self._family.ended, self._out.ended, self._feed.broken)
        await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)

    async def end(self, close_s: float = 0.0, *, at_once: bool = False) -> int:
        """Closes its stdin, gives it close_s to end by itself, and ends what is left then, descendants too. at_once: it is
        given no time, as one that hangs would not use it.

        Gives its exit code, or the negative number of the signal that killed it. A cancellation goes on when all is done.
        """
        code = 0
        try:
            await insist(self._end(close_s, at_once))
        finally:
            code = self._family.close()
            self._out.close()
            self._errors.close()
            self._give_place_back()
        return code

    def _give_place_back(self) -> None:
        if self._place is not None:
            self._place.give_back()

    async def _end(self, close_s: float, at_once: bool) -> None:
        """One that has just closed its pipes may be about to end, so it is given drain_s at least."""
        self._feed.close()
        if not at_once:
            await asyncio.wait([self._family.ended], timeout=max(close_s, self._limits.drain_s))
        if not self._family.ended.done():
            self.was_stopped = True
            await self._family.stop(0 if at_once else self._limits.grace_s)
        elif self._family.has_left_any():
            await self._family.stop(0)
        await asyncio.wait([self._out.ended, self._errors.ended], timeout=self._limits.drain_s)

    def last_words(self) -> str:
        """The end of what it printed on stderr, to stand in an error; empty when that is nothing."""
        return self.err.end(ERROR_CHARS).strip()
