"""The lines that a worker writes, in order, and never more of them than a bound."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Inbox:
    """Cuts chunks into lines, for one reader. flooded is called once when more than bytes_max of them wait to be read."""

    def __init__(self, bytes_max: int, flooded: Callable[[], None]) -> None:
        self._bytes_max, self._flooded = bytes_max, flooded
        self._open = bytearray()
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    def heard(self, chunk: memoryview) -> None:
        if self.closed:
            return
        self._waiting_bytes += len(chunk)
        searched = len(self._open)
        self._open += chunk
        while (end := self._open.find(b"\n", searched)) >= 0:
            self._lines.append(bytes(self._open[:end]))
            del self._open[: end + 1]
            searched = 0
        if self._waiting_bytes > self._bytes_max:
            self._lines.clear()
            self.close()
            self._flooded()
        elif self._lines:
            self._wake()

    def close(self) -> None:
        """Nothing more comes; what is there can still be read."""
        self.closed = True
        self._wake()

    def line_nowait(self) -> bytes | None:
        if not self._lines:
            return None
        line = self._lines.popleft()
        self._waiting_bytes -= len(line) + 1
        return line

    async def line(self, wait_s: float) -> bytes | None:
        """The next one; None when it does not come within wait_s, or at all: `closed` tells which."""
        if not self._lines and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait([self._waiter], timeout=max(0.0, wait_s))
            finally:
                self._waiter = None
        return self.line_nowait()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
