"""Somebody at a terminal: a pseudo-terminal on all ends of the command, keys in, and what stands there out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cli.support import LIMIT_S, Cli, command, environment

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
_ON_TERMINAL = 'tty=$1; shift; exec "$@" <"$tty" >"$tty" 2>&1'
"""The first terminal that the leader of a new session opens is the one that its Ctrl-C comes from."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Person:
    """Types keys, and reads what comes. seen is all of it, without styles."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal, self._process = terminal, process
        self._raw = b""
        self._read_to = 0

    @property
    def raw(self) -> str:
        return self._raw.decode(errors="replace")

    @property
    def seen(self) -> str:
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    def resizes(self, rows: int, columns: int) -> None:
        """The terminal has another size from here on, and tells the command so."""
        _resize(self._terminal, rows, columns)

    def types(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def says(self, line: str) -> None:
        self.types(line + ENTER)

    def sees(self, text: str) -> str:
        """Waits for a text behind the last one that was waited for; gives what stood before it."""
        end = time.monotonic() + LIMIT_S
        while (at := self.seen.find(text, self._read_to)) < 0:
            assert self._more(end), f"{text!r} never came:\n{self.seen[self._read_to :]}"
        before = self.seen[self._read_to : at]
        self._read_to = at + len(text)
        return before

    def leaves(self) -> int:
        """The exit code, with all that was printed read."""
        end = time.monotonic() + LIMIT_S
        while self._more(end):
            pass
        return self._process.wait(LIMIT_S)

    def _more(self, end: float) -> bool:
        """Reads what comes; false at the end, and when the time is over."""
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
        try:
            piece = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # the other end is closed
            piece = b""
        self._raw += piece
        return bool(piece)


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def at_a_terminal(
    cli: Cli, *words: str, env: Mapping[str, str] | None = None, size: tuple[int, int] | None = None
) -> Iterator[Person]:
    """The command with a terminal of its own, so that its Ctrl-C is a signal; killed at the end of the block. size: rows and
    columns that the terminal has from the start."""
    mine, its = pty.openpty()
    if size is not None:
        _resize(mine, *size)
    process = subprocess.Popen(
        ["/bin/sh", "-c", _ON_TERMINAL, "sh", os.ttyname(its), *command(words)],
        stdin=its,  # so that it is open all the time
        cwd=cli.folder,
        env=environment(
            {"TERM": "xterm", "COLUMNS": "100", "XDG_STATE_HOME": str(cli.folder / "state"), **(env or {})}
        ),
        start_new_session=True,
    )
    os.close(its)
    try:
        yield Person(mine, process)
    finally:
        process.kill()
        process.wait()
        os.close(mine)
