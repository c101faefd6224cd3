"""The ends of a process that we hold: its pipes, read and written by the event loop, and the news of its end."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from agentos.resources.process.output import CHUNK_BYTES, Output

POLL_S = 0.01


class Exit:
    """Knows when a process has ended, without taking its exit status: until then its number stays its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._fd = -1
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        try:
            self._fd = os.pidfd_open(process.pid)
            self._loop.add_reader(self._fd, self._end)
        except (AttributeError, OSError):  # not on this system, or no descriptor left
            self._poll()

    def close(self) -> None:
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self) -> None:
        if _has_ended(self._process):
            self._end()
        else:
            self._timer = self._loop.call_later(POLL_S, self._poll)

    def _let_go(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _end(self) -> None:
        """The descriptor goes at once: where none is left, those that it left behind are looked for by means of it."""
        self._let_go()
        if not self.ended.done():
            self.ended.set_result(None)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except (AttributeError, ChildProcessError):  # not on this system, or others have taken its exit status
        return process.poll() is not None


class Reader:
    """Moves what comes out of a pipe into an Output, or lets it be heard, or both."""

    def __init__(self, pipe: Any, output: Output | None, heard: Callable[[memoryview], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, self._output, self._heard = pipe, output, heard
        self._buffer = bytearray(CHUNK_BYTES)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._ready)

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)

    def _ready(self) -> None:
        try:
            size = os.readv(self._pipe.fileno(), [self._buffer])
        except BlockingIOError:
            return
        if not size:
            self.close()
            return
        chunk = memoryview(self._buffer)[:size]
        if self._output is not None:
            self._output.add(chunk)
        if self._heard is not None:
            self._heard(chunk)


class Writer:
    """Feeds a process. One that ends or closes its stdin before it has read all is no error."""

    def __init__(self, pipe: Any, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, self._data = pipe, memoryview(data)
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_writer(pipe.fileno(), self._ready)

    def close(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()

    def _ready(self) -> None:
        try:
            written = os.write(self._pipe.fileno(), self._data[:CHUNK_BYTES]) if self._data else 0
        except BlockingIOError:
            return
        except BrokenPipeError:
            written = len(self._data)
        self._data = self._data[written:]
        if not self._data:
            self.close()


class Piece:
    """Bytes on their way to a process: whole or not at all."""

    __slots__ = ("data", "sent_bytes")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sent_bytes = 0


class Feed:
    """Hands pieces to a process that stays, one after the other. What it has not read yet is bounded.

    broken is done when the process has closed its stdin: nothing reaches it any more.
    """

    def __init__(self, pipe: Any, bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, self._bytes_max = pipe, bytes_max
        self._waiting: OrderedDict[Piece, None] = OrderedDict()
        self.waiting_bytes = 0
        self.broken: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)

    def add(self, data: bytes) -> Piece | None:
        """Takes a piece, and writes at once what the pipe takes; None when it has no room for it."""
        if self._waiting and self.waiting_bytes + len(data) > self._bytes_max:
            return None
        piece = Piece(data)
        self.waiting_bytes += len(data)
        self._waiting[piece] = None
        if len(self._waiting) == 1 and not self._pipe.closed:
            self._write()
            if self._waiting and not self._pipe.closed:
                self._loop.add_writer(self._pipe.fileno(), self._write)
        return piece

    def take_back(self, piece: Piece) -> bool:
        """Whether the process will see nothing of a piece, since none of it was written."""
        if piece.sent_bytes or piece not in self._waiting:
            return False
        del self._waiting[piece]
        self.waiting_bytes -= len(piece.data)
        return True

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()

    def _write(self) -> None:
        while self._waiting:
            piece = next(iter(self._waiting))
            try:
                written = os.write(self._pipe.fileno(), memoryview(piece.data)[piece.sent_bytes :][:CHUNK_BYTES])
            except BlockingIOError:
                return
            except OSError:  # it has closed its stdin, or has ended
                self._break()
                return
            piece.sent_bytes += written
            self.waiting_bytes -= written
            if piece.sent_bytes == len(piece.data):
                del self._waiting[piece]
        self._loop.remove_writer(self._pipe.fileno())

    def _break(self) -> None:
        self.close()
        if not self.broken.done():
            self.broken.set_result(None)
