"""Every kind of resource, opened, used and closed again and again: the work of the figure `rounds` and of its short test."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentos.clock import SystemClock
from agentos.components import Pattern
from agentos.ids import RandomIds
from agentos.resources import Bounds, Factory, Level, Resources, Scope
from agentos.resources.kinds.cache import Cache, cache
from agentos.resources.kinds.http_pool import HTTP_POOL
from agentos.resources.kinds.jsonrpc import JsonRpcProcess, jsonrpc_process
from agentos.resources.kinds.lua import LUA, LuaWorker, Reply, Script
from agentos.resources.kinds.process import KeptProcess, Program, kept_process
from agentos.resources.kinds.sandbox import SANDBOX, SandboxDirectory, sandbox_directory
from agentos.resources.kinds.sqlite_connection import DatabaseAccess, SqliteConnections, SqliteLimits
from agentos.resources.kinds.tempdir import TempDir, temporary_directory
from agentos.resources.process.live import LiveProcess

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
RPC_SERVER = """
while read -r line; do
    id=${line##*\\"id\\":}
    printf '{"jsonrpc":"2.0","id":%s,"result":1}\\n' "${id%%[,\\}]*}"
done
"""
"""Answers every request with 1."""


class Kind(NamedTuple):
    """One kind: what a round does in a scope of its own, and whether it starts a process, which takes a while."""

    round: Callable[[Place], Awaitable[None]]
    slow: bool = False


class Place(NamedTuple):
    """Where rounds are done: a program's scope and table, a folder, and a server on this machine that says hi."""

    scope: Scope
    resources: Resources
    folder: Path
    url: str


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    """A place for rounds, closed after them. The folder gets a database."""
    with closing(sqlite3.connect(folder / "rounds.db")) as db:
        db.execute("CREATE TABLE rounds (n)")
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    scope = Scope(Level.PROGRAM, "program")
    resources = Resources(SystemClock(), RandomIds(), hold_warn_s=60, wait_warn_s=60)
    try:
        yield Place(scope, resources, folder, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    finally:
        await scope.close()
        resources.shut()
        server.close()


async def rounds(kind: Kind, here: Place, count: int) -> None:
    """So many rounds, one after the other."""
    for _ in range(count):
        await kind.round(here)


def _lent(
    factory: Callable[[Place], Factory[Any]],
    use: Callable[[Any, Place], Awaitable[None]],
    pattern: Pattern = Pattern.EXCLUSIVE,
) -> Callable[[Place], Awaitable[None]]:
    """A round that makes a resource in a call's scope, borrows it, uses it, and closes the scope."""

    async def round_(here: Place) -> None:
        scope = here.scope.child(Level.CALL, "round")
        try:
            shared = await here.resources.create(
                scope, "round", "round", factory(here), pattern=pattern, bounds=Bounds(idle_s=None)
            )
            async with shared.borrow() as handle:
                await use(handle, here)
        finally:
            await scope.close()

    return round_


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):  # whoever asked has gone
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)


async def _scope(here: Place) -> None:
    scope = here.scope.child(Level.CALL, "round")
    scope.push("nothing", lambda: None)
    await scope.close()


async def _nothing(handle: Any, here: Place) -> None:
    """The handle is only lent."""


async def _object() -> object:
    return object()


async def _ask_http(pool: Any, here: Place) -> None:
    async with pool.request("GET", here.url, idle_s=60) as answer:
        assert await answer.text() == "hi"


async def _sqlite(here: Place) -> None:
    connections = SqliteConnections("round", here.folder / "rounds.db", DatabaseAccess.READ_WRITE, SqliteLimits())
    scope = here.scope.child(Level.CALL, "round")
    try:
        await connections.open()
        scope.push("connections", connections.close)
        for shared in connections.all:
            here.resources.adopt(scope, shared)
        async with connections.reading.borrow() as connection:
            await connections.threads.run("round", lambda: _count(connection))
    finally:
        await scope.close()


def _count(connection: Any) -> None:
    with connection.link() as link:
        link.db.execute("SELECT count(*) FROM rounds").fetchone()


async def _write(folder: TempDir, here: Place) -> None:
    with folder.create("a/file") as file:
        file.write(b"round")


async def _write_whole(directory: SandboxDirectory, here: Place) -> None:
    directory.write("a/file", b"round")
    with directory.open("a/file") as file:
        assert file.read() == b"round"


async def _same(key: str) -> str:
    return key


async def _keep(kept: Cache[str, str], here: Place) -> None:
    assert await kept.get("round") == "round"


async def _ask_rpc(process: JsonRpcProcess, here: Place) -> None:
    assert await process.ask("round", {}) == 1


async def _ready(process: KeptProcess, here: Place) -> None:
    await process.ready()


async def _run_lua(worker: LuaWorker, here: Place) -> None:
    await worker.run(Script(script="return 1 + 1", now_s=0.0, time_s=10.0), _no_tool, lambda piece: None)


async def _no_tool(tool: str, arguments: dict[str, Any]) -> Reply:
    raise AssertionError(f"the script calls no tool, and called {tool}")


class _Deaf:
    """A process is kept for nothing at all."""

    def heard(self, chunk: memoryview) -> None: ...

    async def prepare(self, live: LiveProcess) -> None: ...

    def lost(self, error: Exception) -> None: ...


def _program(*argv: str) -> Program:
    return Program(argv=argv, environment={"PATH": "/usr/bin:/bin"}, cwd="/")


KINDS = {
    "scope": Kind(_scope),
    **{
        pattern.value: Kind(_lent(lambda here: Factory(_object, close=lambda handle: None), _nothing, pattern))
        for pattern in Pattern
    },
    "http_pool": Kind(_lent(lambda here: HTTP_POOL.factory(), _ask_http, HTTP_POOL.pattern)),
    "sqlite_connection": Kind(_sqlite),
    "tempdir": Kind(_lent(lambda here: temporary_directory(here.folder), _write)),
    "sandbox": Kind(_lent(lambda here: sandbox_directory(parent=here.folder), _write_whole, SANDBOX.pattern)),
    "cache": Kind(_lent(lambda here: cache(_same, len), _keep)),
    "process": Kind(_lent(lambda here: kept_process(_program("/bin/cat"), _Deaf), _ready), slow=True),
    "jsonrpc": Kind(_lent(lambda here: jsonrpc_process(_program("/bin/sh", "-c", RPC_SERVER)), _ask_rpc), slow=True),
    "lua": Kind(_lent(lambda here: LUA.factory(), _run_lua), slow=True),
}
"""Every kind of resource that a kernel knows, and those that toolboxes make."""
