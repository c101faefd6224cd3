"""Every kind of resource as one tool uses it: a kind more is a line more in KINDS.

use(kind="tempdir")  # a call that borrows the kind, really uses it, does what the test says, and uses it again
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple

from agentos.components import Pattern
from agentos.ports import CallContext
from agentos.resources.kinds.cache import Cache
from agentos.resources.kinds.http_pool.client import HttpPool
from agentos.resources.kinds.jsonrpc import JsonRpcProcess
from agentos.resources.kinds.known import KNOWN
from agentos.resources.kinds.lua import Ended, LuaWorker, Reply, Script
from agentos.resources.kinds.process import KeptProcess, Program
from agentos.resources.kinds.sandbox import SandboxDirectory
from agentos.resources.kinds.sqlite_connection import SqliteConnection
from agentos.resources.kinds.tempdir import TempDir
from agentos.resources.process.live import LiveProcess
from agentos.testing.rounds.kinds import RPC_SERVER
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.python import PythonToolbox, tool
from agentos.toolboxes.resource import resource
from agentos.toolboxes.sqlite import SqliteToolbox

LONG_S = 600.0
"""More than any test takes: what would end by itself then does not end in time."""


class Here(NamedTuple):
    """Where tools work: a folder with the database rounds.db, and a server on this machine that says hi."""

    folder: Path
    url: str


class Kind(NamedTuple):
    """One kind: how a handle is used; with which options it is asked for, or under which name a toolbox has it."""

    use: Callable[[Any, Here], Awaitable[object]]
    options: Callable[[Here], Mapping[str, Any]] = lambda here: {}
    name: str = ""
    is_gone: Callable[[Any], bool] | None = None
    """Tells of a handle with a process whether that has ended."""
    comes_back: bool = True
    """Whether such a handle is of use again then; else the next borrower has a new one."""


Meanwhile = Callable[[str, Any], Awaitable[None]]
"""What a call does while it has a handle: of this kind, this one."""


async def nothing(kind: str, handle: Any) -> None:
    """The call goes on at once."""


def boxes(here: Here, use: Callable[..., Any]) -> list[Toolbox]:
    """The toolboxes of an agent that uses kinds."""
    return [
        PythonToolbox("box", [use], resources=[device]),
        SqliteToolbox("db", path=here.folder / "rounds.db", access="read-only"),
    ]


def user(
    here: Here, meanwhile: Meanwhile, *, scope: str | None = None, wait_s: float | None = None
) -> Callable[..., Any]:
    """The tool `use`. It borrows a kind in this scope, None for that of the kind, and waits wait_s when others have it."""

    @tool(name="use", effect="idempotent")
    async def use(kind: str, context: CallContext) -> str:
        async with lent(kind, context, here, scope, wait_s) as handle:
            await KINDS[kind].use(handle, here)
            await meanwhile(kind, handle)
            await KINDS[kind].use(handle, here)
        return f"used {kind}"

    return use


def lent(
    kind: str, context: CallContext, here: Here, scope: str | None, timeout_s: float | None
) -> AbstractAsyncContextManager[Any]:
    """A handle, for the length of a block."""
    if KINDS[kind].name:
        return context.borrow(KINDS[kind].name, timeout_s=timeout_s)
    return context.resource(kind, scope=scope, options=KINDS[kind].options(here), timeout_s=timeout_s)


@resource(scope="call")
async def device() -> AsyncIterator[IO[bytes]]:
    """Somebody's own: an open file, a temporary one, and a task beside them."""
    with tempfile.NamedTemporaryFile() as file:
        beat = asyncio.create_task(asyncio.sleep(LONG_S))
        try:
            yield file
        finally:
            beat.cancel()
            await asyncio.wait([beat])


async def _write(file: IO[bytes], here: Here) -> None:
    file.write(b"line\n")
    file.flush()


async def _get(pool: HttpPool, here: Here) -> None:
    async with pool.request("GET", here.url, idle_s=LONG_S, total_s=LONG_S) as answer:
        assert await answer.text() == "hi"


async def _value(key: str) -> str:
    await asyncio.sleep(0)
    return key


async def _keep(cache: Cache[str, str], here: Here) -> None:
    assert await cache.get("key") == "key"


async def _fill(folder: TempDir, here: Here) -> None:
    """Another file each time, in folders that are made for it."""
    names = len([path for path in folder.path.rglob("*") if path.is_file()])
    with folder.create(f"some/folder/{names}") as file:
        file.write(b"text")
    with folder.read(f"some/folder/{names}") as again:
        assert again.read() == b"text"


async def _change(directory: SandboxDirectory, here: Here) -> None:
    """Another file each time, in folders that are made for it."""
    names = directory.measure().files
    with directory.open(f"some/folder/{names}", "x") as file:
        file.write(b"text")
    assert directory.read(f"some/folder/{names}") == b"text"


async def _select(connection: SqliteConnection, here: Here) -> None:
    assert await asyncio.to_thread(_count, connection) == (0,)


def _count(connection: SqliteConnection) -> Any:
    with connection.link() as link:
        return link.db.execute("SELECT count(*) FROM rounds").fetchone()


class Echo:
    """What a process of `cat` is used for: it is ready once it has said what it was told."""

    def __init__(self) -> None:
        self.said = asyncio.Event()

    def heard(self, chunk: memoryview) -> None:
        self.said.set()

    async def prepare(self, live: LiveProcess) -> None:
        live.write(b"ready\n")
        await self.said.wait()

    def lost(self, error: Exception) -> None: ...


async def _ready(process: KeptProcess, here: Here) -> None:
    assert (await process.ready()).alive


async def _ask(process: JsonRpcProcess, here: Here) -> None:
    assert await process.ask("one", {}) == 1


async def _run(worker: LuaWorker, here: Here) -> None:
    ended = await worker.run(Script(script="return 1 + 1", now_s=0.0, time_s=LONG_S), _refused, lambda piece: None)
    assert isinstance(ended, Ended), ended
    assert ended.values == [2]


async def _refused(name: str, arguments: dict[str, Any]) -> Reply:
    raise AssertionError(f"the script calls no tool, and called {name}")


def _has_no_process(handle: KeptProcess | JsonRpcProcess) -> bool:
    return handle.pid is None


def _program(*argv: str) -> Program:
    return Program(argv=argv, environment={"PATH": "/usr/bin:/bin"}, cwd="/")


KINDS: dict[str, Kind] = {
    "cache": Kind(_keep, lambda here: {"make": _value, "size_of": len}),
    "http_pool": Kind(_get),
    "jsonrpc": Kind(_ask, lambda here: {"program": _program("/bin/sh", "-c", RPC_SERVER)}, is_gone=_has_no_process),
    "lua": Kind(_run, is_gone=lambda worker: not worker.alive, comes_back=False),
    "process": Kind(_ready, lambda here: {"program": _program("/bin/cat"), "use": Echo}, is_gone=_has_no_process),
    "sandbox": Kind(_change),
    "tempdir": Kind(_fill),
    "sqlite_connection": Kind(_select, name="db"),
    "custom": Kind(_write, name="device"),
}
"""All kinds that a kernel knows, the one of a toolbox, and one of somebody's own."""

PROCESSES = [name for name, kind in KINDS.items() if kind.is_gone is not None]
OTHERS = [name for name in KINDS if name not in PROCESSES]
LENT_TO_ONE = [kind.name for kind in KNOWN if kind.pattern is not Pattern.STATELESS]
"""Those that somebody else may have to wait for."""
