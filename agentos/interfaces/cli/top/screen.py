"""The whole terminal as a screen that is drawn again and again, and given back as it was however the block ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from agentos.interfaces.cli.output import bold

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT = frozenset(b"qQ\x03\x04")
KEYS_BYTES_MAX = 1_024


class Screen:
    """Has the terminal from `async with` to its end. ended is set when the person wants to leave: q, Ctrl-C, Ctrl-D, SIGTERM,
    SIGHUP. redraw is called when the terminal has another size, and when the process goes on after Ctrl-Z.
    """

    def __init__(self, redraw: Callable[[], None]) -> None:
        self._redraw = redraw
        self.ended = asyncio.Event()
        self._keys = sys.stdin.fileno()
        self._before: list[Any] | None = None

    async def __aenter__(self) -> Screen:
        self._take()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._keys, self._typed)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._redraw)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._keys)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGTSTP):
            loop.remove_signal_handler(number)
        self._give_back()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        size = shutil.get_terminal_size((80, 24))
        return size.columns, size.lines

    def draw(self, lines: Sequence[str], bold_lines: frozenset[int] = frozenset()) -> None:
        """Lines that fit; nothing else stands on the screen then. It is one write, so that nothing flickers."""
        styled = (bold(line, sys.stdout) if n in bold_lines else line for n, line in enumerate(lines))
        text = (_END_OF_LINE + "\r\n").join(styled)
        sys.stdout.write(f"{_HOME}{text}{_END_OF_LINE}{_END_OF_SCREEN}")
        sys.stdout.flush()

    def _take(self) -> None:
        self._before = termios.tcgetattr(self._keys)
        tty.setcbreak(self._keys)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _give_back(self) -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        if self._before is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
            self._before = None

    def _typed(self) -> None:
        """No key, or one that ends it; others are of no use here."""
        typed = os.read(self._keys, KEYS_BYTES_MAX)
        if not typed or _QUIT.intersection(typed):
            self.ended.set()

    def _stop(self) -> None:
        """Ctrl-Z: the shell has its terminal back until the process goes on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._redraw()
