"""A client that knows no HTTP: it sends bytes, and keeps what comes, write by write, to the end of the connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agentos.testing.chat_server import ChatServer
from agentos.testing.clock import ManualClock

SPINS_MAX = 10_000
HELLO = [{"text": "Hello."}]
BODY = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
STREAM = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


class Wire(asyncio.Protocol):
    """One connection; `over` tells how it ended: None after a FIN, else the error."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._news: asyncio.Event = asyncio.Event()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.over.set_result(error)

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    async def until(self, size: int) -> None:
        """Until so many bytes have come."""
        while len(self.heard) < size:
            self._news.clear()
            await self._news.wait()

    async def until_told(self, words: bytes) -> None:
        """Until the chunk of a stream has come, to its end, that has these words in it."""
        while b"\n\n\r\n" not in self.heard.partition(words)[2]:
            self._news.clear()
            await self._news.wait()

    @property
    def heard(self) -> bytes:
        return b"".join(self.reads)


async def timer_of(clock: ManualClock) -> None:
    """Until somebody waits for the clock."""
    for _ in range(SPINS_MAX):
        if clock.next_due_s is not None:
            return
        await asyncio.sleep(0)
    raise AssertionError("nobody waits for the clock")


async def connect(server: ChatServer) -> Wire:
    return (await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", server.port))[1]


def post(body: Any = BODY, path: str = "/v1/chat/completions", headers: Mapping[str, str] | None = None) -> bytes:
    """A request after which the client wants no other."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request("POST", path, {"content-length": str(len(data)), **(headers or {})}) + data


def request(method: str, path: str, headers: Mapping[str, str] | None = None) -> bytes:
    named = {"host": "server", "connection": "close", **(headers or {})}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def exchange(server: ChatServer, sent: bytes) -> tuple[bytes, Exception | None]:
    """All that comes back, and how the connection ended."""
    wire = await connect(server)
    wire.send(sent)
    error = await wire.over
    return wire.heard, error


def parts(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers, and the body as it stands on the wire."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


def chunks(body: bytes) -> list[bytes]:
    """The chunks of a body; the last one is empty when it ended as it should."""
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        assert rest[int(size, 16) :][:2] == b"\r\n"
        body = rest[int(size, 16) + 2 :]
    return found


def events(body: bytes) -> list[Any]:
    """The data of the events of a stream, decoded where it is JSON."""
    told = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    return [json.loads(one) if one.startswith("{") else one for one in told]


async def told(server: ChatServer, sent: bytes) -> tuple[int, Any]:
    """Status and decoded body of an answer."""
    status, _, body = parts((await exchange(server, sent))[0])
    return status, json.loads(body)


async def text_of(server: ChatServer, body: Any = BODY) -> Any:
    return (await told(server, post(body)))[1]["choices"][0]["message"]["content"]


def asking(*messages: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in messages], **more}
