"""One line on stderr about work that takes long: rewritten in place, and gone before anything else is printed.

It is there when stderr is a terminal that can, and nobody asked for none (NO_COLOR, TERM=dumb). It reads the World and
decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from agentos.interfaces.cli.output import cell, clipped, is_terminal, say, terminal_width
from agentos.interfaces.cli.progress import progress_of
from agentos.kernel import Conversation, Kernel

AFTER_S = 1.0
"""How long nothing is printed before the line comes."""
EVERY_S = 0.2
_ERASE = "\r\x1b[K"


class LiveLine:
    """Shows what `tell` says, while the block runs and while it says something. `say` prints beside it."""

    def __init__(self, tell: Callable[[], str]) -> None:
        self._tell = tell
        self._shown = ""
        self._held = 0
        self._since = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._logged = _Logged(self)

    async def __aenter__(self) -> LiveLine:
        self._since = time.monotonic()
        logging.getLogger("agentos").addHandler(self._logged)
        if animates():
            self._task = asyncio.get_running_loop().create_task(self._draw_again())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("agentos").removeHandler(self._logged)
        self.erase()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def say(self, text: str) -> None:
        """A message for the person."""
        self.erase()
        say(text)

    def erase(self) -> None:
        """Before anything else is printed; the line comes back when nothing is for a while."""
        self._since = time.monotonic()
        if self._shown:
            self._shown = ""
            print(_ERASE, end="", file=sys.stderr, flush=True)

    def hold(self) -> None:
        """No line until `release`: somebody types, or a line of an answer has begun."""
        self.erase()
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        self._since = time.monotonic()

    async def _draw_again(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if not self._held and time.monotonic() - self._since >= AFTER_S:
                self._draw(clipped(cell(self._tell()), terminal_width() - 1))

    def _draw(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            print(f"{_ERASE}{text}", end="", file=sys.stderr, flush=True)


def live_line(kernel: Kernel, talks: list[Conversation]) -> LiveLine:
    """About the first of these conversations whose turn is open."""
    return LiveLine(lambda: next(filter(None, (progress_of(kernel, talk.id) for talk in talks)), ""))


def animates() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb")
    return not plain and is_terminal(sys.stderr)


class _Logged(logging.Handler):
    """Warnings of the kernel, as messages beside the line."""

    def __init__(self, line: LiveLine) -> None:
        super().__init__(logging.WARNING)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        self._line.say(f"{record.levelname.lower()}: {cell(record.getMessage())}")
