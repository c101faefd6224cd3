"""One client's connection: whole requests in, answers out, byte by byte and with their faults."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence

import h11
import msgspec

from agentos.clock import Clock
from agentos.testing.chat_server.faults import (
    Break,
    Cut,
    Pieces,
    Reset,
    SlowHead,
    Stall,
    WireFault,
    break_of,
    first,
)

READ_BYTES = 64 * 1024
HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 32 * 1024 * 1024
IDLE_S = 300.0
"""How long a connection is kept that brings nothing."""
LINGER_S = 2.0
"""How long the server hears on after it has said its last, so that the client reads it before the connection goes."""
DELIVERY_S = 5.0
"""How long it waits, before a reset, until all that it wrote has arrived."""


class HttpRequest(msgspec.Struct, frozen=True):
    """Names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Segment(msgspec.Struct, frozen=True):
    """A part of a body, sent delay_s seconds after the one before."""

    data: bytes
    delay_s: float = 0.0


class Answer(msgspec.Struct, frozen=True):
    """Without a content-length among its headers the body goes in chunks. delay_s passes before its first byte."""

    status: int
    headers: Mapping[str, str]
    segments: Sequence[Segment]
    delay_s: float = 0.0


class BadRequest(Exception):
    """What came is no request, or too big a one."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class _Broken(Exception):
    """The place of a Close, Reset or Stall is reached."""


class Connection:
    """is_over is set once no further request can come; has_left when the client went before it had its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock) -> None:
        self._reader, self._writer, self._clock = reader, writer, clock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._wire_left: int | None = None
        self._wire_pieces = 0
        self._is_head = False
        self.is_over = self.has_left = False
        writer.transport.set_write_buffer_limits(high=0)

    async def next_request(self) -> HttpRequest | None:
        """The next request; None when no more come. Raises BadRequest for what is none; then nothing more is read."""
        try:
            head = await self._event()
            if not isinstance(head, h11.Request):
                return None
            self._is_head = head.method == b"HEAD"
            if int(dict(head.headers).get(b"content-length", b"0")) > BODY_BYTES_MAX:
                raise BadRequest(413, f"The body of the request has over {BODY_BYTES_MAX:,} bytes.")
            body = await self._body()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"This is no HTTP request: {error}.") from error
        except (ConnectionError, TimeoutError):  # the client is gone or silent: there is nobody to answer
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return HttpRequest(head.method.decode(), head.target.decode("latin-1"), headers, body)

    async def send(self, answer: Answer, faults: tuple[WireFault, ...] = ()) -> None:
        """Sends an answer, whole or up to the place where its faults end it. Sees to what comes after it."""
        break_ = break_of(faults)
        try:
            await self._send(answer, faults, break_)
            if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                self._http.start_next_cycle()
                return
            await self._say_goodbye()
        except _Broken:
            await self._break(break_)
        except ConnectionError:  # which is the client's right; has_left tells the test
            self.has_left = True
        self.is_over = True

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:  # an end is an end
            self.is_over = True

    async def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._writer.write(go_on or b"")
            async with asyncio.timeout(IDLE_S):
                self._http.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def _body(self) -> bytes:
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise BadRequest(413, f"The body of the request has over {BODY_BYTES_MAX:,} bytes.")
        return bytes(body)

    async def _send(self, answer: Answer, faults: tuple[WireFault, ...], break_: Break | None) -> None:
        pieces, slow = first(faults, Pieces) or Pieces(0), first(faults, SlowHead) or SlowHead()
        self._wire_left = break_.after if break_ is not None and break_.of == "wire" else None
        self._wire_pieces = pieces.size if pieces.of == "wire" else 0
        at_body = break_.after if break_ is not None and break_.of == "body" else None
        await self._sleep(answer.delay_s + slow.before_s)
        if self._wire_left == 0:
            raise _Broken
        head = h11.Response(status_code=answer.status, headers=list(answer.headers.items()))
        for part in _pieces(self._encoded(head), 1 if slow.byte_s else 0):
            await self._write(part)
            await self._sleep(slow.byte_s)
        sent = 0
        for segment in () if self._is_head else answer.segments:
            await self._sleep(segment.delay_s)
            for part in _pieces(segment.data, pieces.size if pieces.of == "body" else 0):
                stop = at_body is not None and sent + len(part) >= at_body
                part = part[: at_body - sent] if stop and at_body is not None else part
                if part:
                    await self._write(self._encoded(h11.Data(part)))
                if stop:
                    raise _Broken
                sent += len(part)
        if break_ is not None and (break_.after is None or at_body == 0):
            raise _Broken
        await self._write(self._encoded(h11.EndOfMessage()))

    def _encoded(self, event: h11.Event) -> bytes:
        return self._http.send(event) or b""

    async def _write(self, data: bytes) -> None:
        for part in _pieces(data, self._wire_pieces):
            stop = self._wire_left is not None and len(part) >= self._wire_left
            self._writer.write(part[: self._wire_left] if stop else part)
            await self._writer.drain()
            await asyncio.sleep(0)  # twice, so that a client on the same loop reads each write by itself
            await asyncio.sleep(0)
            if stop:
                raise _Broken
            if self._wire_left is not None:
                self._wire_left -= len(part)

    async def _sleep(self, delay_s: float) -> None:
        if delay_s > 0:
            await self._clock.sleep(delay_s)

    async def _break(self, break_: Break | None) -> None:
        match break_:
            case Reset():
                await self._delivered()
                if self._writer.transport.is_closing():  # the client was faster
                    return
                linger_not = struct.pack("ii", 1, 0)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
                self._writer.transport.abort()
            case Stall():
                await self._hear_out()
                self.has_left = True
            case _:
                await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        """A FIN. Closing at once would send an RST when the client has said something that was not read."""
        try:
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                await self._hear_out()
        except OSError:  # the client is gone already, or had its time
            return

    async def _hear_out(self) -> None:
        """Until the client closes its side, one way or the other."""
        try:
            while await self._reader.read(READ_BYTES):
                continue
        except ConnectionError:
            return

    async def _delivered(self) -> None:
        """Until the client's machine has all that was written; a reset throws the rest away."""
        waited_s = 0.0
        while sys.platform == "linux" and waited_s < DELIVERY_S and not self._writer.transport.is_closing():
            waiting = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
            if int.from_bytes(waiting, sys.byteorder) == 0:
                return
            await asyncio.sleep(0.001)
            waited_s += 0.001

    @property
    def _socket(self) -> socket.socket:
        found: socket.socket = self._writer.get_extra_info("socket")
        return found


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces of so many bytes; in one piece with a size of 0."""
    if not size:
        yield data
        return
    for start in range(0, len(data), size):
        yield data[start : start + size]


def cut(segments: Sequence[Segment], fault: Cut) -> list[Segment]:
    """The first bytes of a body."""
    left, kept = fault.after, []
    for segment in segments:
        kept.append(msgspec.structs.replace(segment, data=segment.data[:left]))
        left = max(0, left - len(segment.data))
    return [segment for segment in kept if segment.data]


def with_bad_byte(segments: Sequence[Segment], at: int) -> list[Segment]:
    """A body with a byte that UTF-8 does not have at this place."""
    changed = []
    for segment in segments:
        data = segment.data
        if 0 <= at < len(data):
            data = data[:at] + b"\xff" + data[at + 1 :]
        changed.append(msgspec.structs.replace(segment, data=data))
        at -= len(segment.data)
    return changed
