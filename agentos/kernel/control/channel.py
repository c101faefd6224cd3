"""The client's end of a control socket: connects, checks who is there, sends and reads lines, and notices silence."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from agentos.errors import CodecError, KernelUnreachable
from agentos.kernel.control.faults import error_of, fault_from
from agentos.kernel.control.lines import Lines, LineTooLong
from agentos.kernel.control.peer import credentials_of
from agentos.kernel.control.wire import PROTOCOL, Answer, Greeting, Request, line_of, read_line
from agentos.settings import Settings

ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""How long one line of a kernel may be: the longest body of an entry, with room for what escapes add."""
PINGS_PER_SILENCE = 3
PING = Request(0, "ping")
_NOBODY = (FileNotFoundError, NotADirectoryError, ConnectionError)
"""What connecting meets where no process is at the other end, or no longer."""


class Channel:
    """One connection to a kernel. greeting tells which one."""

    def __init__(
        self, path: str, lines: Lines, writer: asyncio.StreamWriter, greeting: Greeting, settings: Settings
    ) -> None:
        self.path, self.greeting = path, greeting
        self._lines, self._writer, self._settings = lines, writer, settings

    @property
    def kernel(self) -> str:
        return name_of(self.path, self.greeting.pid)

    async def send(self, request: Request) -> None:
        """Raises KernelUnreachable when the kernel has gone, or reads nothing."""
        try:
            self._writer.write(line_of(request))
            async with asyncio.timeout(self._settings.control_silence_s):
                await self._writer.drain()
        except TimeoutError:
            raise self.silent() from None
        except OSError as error:
            raise KernelUnreachable(self.kernel, "it has gone", gone=True) from error

    async def next(self, waits: Callable[[], bool] = lambda: True) -> Answer:
        """The next line. While something waits for it, the kernel is asked from time to time whether it is there.

        Errors: KernelUnreachable at the end, and after control_silence_s of nothing; the error of a line that is about the
        connection as a whole.
        """
        silent = 0
        while (line := self._ready()) is None:
            try:
                if not await self._lines.more(self._settings.control_silence_s / PINGS_PER_SILENCE):
                    raise KernelUnreachable(self.kernel, "it has closed the connection", gone=True)
                silent = 0
            except TimeoutError:
                silent = silent + 1 if waits() else 0
                if silent > PINGS_PER_SILENCE:
                    raise self.silent() from None
                if silent:
                    await self.send(PING)
            except OSError as error:
                raise KernelUnreachable(self.kernel, "it has gone", gone=True) from error
        return self._read(line)

    def silent(self) -> KernelUnreachable:
        limit = self._settings.control_silence_s
        why = f"nothing came for {limit:g} s (control_silence_s); it hangs, or was stopped"
        return KernelUnreachable(self.kernel, why, hangs=True)

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._settings.control_connect_s):
                await self._writer.wait_closed()
        self._writer.transport.abort()

    def _ready(self) -> bytes | None:
        try:
            return self._lines.ready()
        except LineTooLong:
            raise KernelUnreachable(self.kernel, f"it said more than {ANSWER_BYTES_MAX} bytes in one line") from None

    def _read(self, line: bytes) -> Answer:
        try:
            answer = read_line(line, Answer)
            fault = fault_from(answer.error) if answer.error is not None and not answer.id else None
        except CodecError as error:
            raise KernelUnreachable(self.kernel, f"what it says cannot be read: {error}") from error
        if fault is not None:
            raise error_of(fault)
        return answer


async def connect(path: str, settings: Settings) -> Channel:
    """Within control_connect_s. Errors: KernelUnreachable when nobody listens, answers, or may be asked; ControlRefused."""
    pid, writer = 0, None
    try:
        async with asyncio.timeout(settings.control_connect_s):
            reader, writer = await asyncio.open_unix_connection(path)
            pid, user = credentials_of(writer.get_extra_info("socket"))
            if user < 0:  # asyncio takes a queue that is full for a connection
                raise KernelUnreachable(name_of(path, pid), "it lets nobody in; it hangs, or was stopped", hangs=True)
            if user != os.geteuid():
                raise KernelUnreachable(name_of(path, pid), f"another user (number {user}) listens there")
            lines = Lines(reader, ANSWER_BYTES_MAX)
            greeting = await _greeting(lines, path, pid, settings)
        return Channel(path, lines, writer, greeting, settings)
    except BaseException as error:
        if writer is not None:
            writer.transport.abort()
        if isinstance(error, TimeoutError):
            limit = settings.control_connect_s
            why = f"it did not greet within {limit:g} s (control_connect_s); it hangs, or was stopped"
            raise KernelUnreachable(name_of(path, pid), why, hangs=True) from None
        if isinstance(error, OSError):
            gone = isinstance(error, _NOBODY)
            why = f"nobody listens there ({error.strerror})" if gone else str(error.strerror)
            raise KernelUnreachable(name_of(path, pid), why, gone=gone) from error
        raise


async def _greeting(lines: Lines, path: str, pid: int, settings: Settings) -> Greeting:
    while (line := lines.ready()) is None:
        if not await lines.more(settings.control_connect_s):
            raise KernelUnreachable(name_of(path, pid), "it closed the connection without a word", gone=True)
    try:
        greeting = read_line(line, _Greeted)
    except CodecError as error:
        raise KernelUnreachable(name_of(path, pid), f"what listens there is no kernel: {error}") from error
    if greeting.error is not None:
        raise error_of(fault_from(greeting.error))
    if greeting.agentos != PROTOCOL:
        raise KernelUnreachable(
            name_of(path, pid),
            f"it speaks version {greeting.agentos}, this program {PROTOCOL}; use one version of agentos",
        )
    return Greeting(agentos=greeting.agentos, writer=greeting.writer, pid=greeting.pid, store=greeting.store)


class _Greeted(Greeting, frozen=True, kw_only=True):
    """A greeting, or the error with which somebody is turned away."""

    agentos: int = 0
    writer: int = 0
    pid: int = 0
    store: str = ""
    error: dict[str, Any] | None = None


def name_of(path: str, pid: int) -> str:
    return f"the kernel of process {pid}" if pid else f"the kernel at {path}"
