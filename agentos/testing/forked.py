"""A process of its own for a piece of work, which tells this one lines on its way and may be killed at any of them."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

Tell = Callable[[str], None]
"""Gives a line to the parent; it is there when this returns, whatever becomes of the process then."""


class Silence(Exception):
    """A child said nothing for too long."""


class Forked:
    """A fork of this process that does one thing and ends; as a context manager, it ends with the block at the latest.

    The child has the imports of its parent and starts in a millisecond. It must have nothing else of it: no loop, no
    thread, no open store. status is its exit code, or minus the number of the signal that ended it; None while it runs.
    """

    def __init__(self, work: Callable[[Tell], object]) -> None:
        if threading.active_count() > 1:
            raise RuntimeError("a process with threads cannot be forked: the child would have the locks that they hold")
        self.status: int | None = None
        sys.stdout.flush()
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._reading)
            _do(work, writing)
        os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.wait()
        os.close(self._reading)

    def lines(self, patience_s: float) -> Iterator[str]:
        """What it tells until it ends, also what it told before it was killed. Raises Silence after patience_s without a
        word."""
        text = b""
        while data := self._read(patience_s):
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                yield line.decode()

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self.status is None:
            self.send(signal.SIGKILL)

    def wait(self) -> int:
        """Its status, when it has ended."""
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def _read(self, patience_s: float) -> bytes:
        ready, _, _ = select.select([self._reading], [], [], patience_s)
        if not ready:
            raise Silence(f"no word for {patience_s:g} s")
        return os.read(self._reading, 65_536)


def _do(work: Callable[[Tell], object], writing: int) -> None:
    """Never returns: the child must not run its parent's code to the end."""
    status = 1
    try:
        work(lambda line: _write(writing, f"{line}\n".encode()))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
