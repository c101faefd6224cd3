"""What tests of the PostgreSQL store share: open stores, statements beside them, and a wire that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.postgresql.address import Address
from agentos.testing.postgres import PostgresServer

LOOKS, LOOK_S = 6_000, 0.01
"""How often, and how far apart, something is looked for that is sure to come."""
DONE_S = 0.2
"""After this the server has done what it was told, if it is awake; a test may not rest on it."""


def _restart(server: PostgresServer) -> None:
    server.restart("immediate")


def _kill(server: PostgresServer) -> None:
    server.kill()
    server.start()


HARMS = (_restart, _kill)
"""What may happen to a server, which is there again afterwards."""


@asynccontextmanager
async def open_store(url: str, **options: Any) -> AsyncIterator[tuple[PostgreSQLStore, int]]:
    """A store that is open for the length of a block, with its writer's number."""
    store = PostgreSQLStore(url, **options)
    number = await store.open("program")
    try:
        yield store, number
    finally:
        await store.close()


@asynccontextmanager
async def beside(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of somebody else to the schema of a store."""
    address = Address(url)
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(address.dsn)
    try:
        await connection.fetch("select set_config('search_path', $1, false)", address.schema)
        yield connection
    finally:
        await connection.close()


async def until(true: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Waits for what is sure to come."""
    for _ in range(LOOKS):
        answer = true()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(LOOK_S)
    raise AssertionError("it never came true")


async def _soon() -> None:
    await asyncio.sleep(DONE_S)


class Wire:
    """Stands between a store and its server, and cuts all connections when a client says a word.

    before: the word does not reach the server; else the answer to it does not reach the client.
    """

    def __init__(self, url: str) -> None:
        """For a URL by way of TCP."""
        self._parts = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._word, self._before = b"", False
        self._done: Callable[[], Awaitable[object]] = _soon
        self._after: Callable[[], None] = lambda: None
        self.cuts = 0
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        account = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{account}@127.0.0.1:{port}"))

    def be_silent(self, silent: bool = True) -> None:
        """From now on nothing goes through, in either direction, and nobody is told; or all does again."""
        if silent:
            self._open.clear()
        else:
            self._open.set()

    def cut_at(
        self,
        word: str,
        *,
        before: bool = False,
        done: Callable[[], Awaitable[object]] | None = None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Once. `done` returns when the server has done what it was told, where that matters; `after` is called as soon as
        the connections are cut."""
        self._word, self._before, self._done, self._after = word.encode(), before, done or _soon, after

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            assert self._parts.hostname is not None
            server_reader, server_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
            pair = (writer, server_writer)
            self._pairs.add(pair)
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(self._up(reader, server_writer), self._down(server_reader, writer))
            self._pairs.discard(pair)
            for end in pair:
                end.close()
        finally:
            self._tasks.discard(task)

    async def _up(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._open.wait()
            if self._is_told_to_cut(data):
                if not self._before:
                    server.write(data)
                    await server.drain()
                    self.be_silent()  # the answer is lost
                    await self._done()
                    self.be_silent(False)
                self.cuts += 1
                self._cut()
                self._after()
                return
            server.write(data)
            await server.drain()
        server.close()

    async def _down(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server.read(65_536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()

    def _is_told_to_cut(self, data: bytes) -> bool:
        if not self._word or self._word not in data:
            return False
        self._word = b""
        return True

    def _cut(self) -> None:
        for pair in self._pairs:
            for end in pair:
                end.transport.abort()
