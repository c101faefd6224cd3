"""A SQLite database as a toolbox: one tool that runs one statement, and where it is asked for, one that only reads.

Many calls read at once, each on a connection of its own, and nothing but reading passes the guard there. One call at a
time writes, in a transaction of its own. A call that is cancelled is interrupted, rolled back, and only then let go; a
statement that does not end within stop_s keeps its thread and its connection until it does.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio

from agentos.components import Access, EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError, ResourceClosed
from agentos.ids import Name, log_and_seq
from agentos.ports import CallContext
from agentos.resources.borrowing import Borrower
from agentos.resources.kinds.sqlite_connection import (
    DatabaseAccess,
    FileGone,
    SqliteConnection,
    SqliteConnections,
    SqliteLimits,
)
from agentos.resources.process.threads import Abandoned, ToolThreads
from agentos.resources.shared import Shared
from agentos.toolboxes.base import Doubt, Failed
from agentos.toolboxes.sqlite.query import Query
from agentos.toolboxes.sqlite.values import ParametersRefused, bound

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sql": {"type": "string", "description": "one statement of SQLite's SQL"},
        "parameters": {
            "anyOf": [{"type": "array", "items": {}}, {"type": "object"}, {"type": "null"}],
            "description": 'values for ? (a list) or :name (an object); bytes as {"blob": "hexadecimal"}',
        },
    },
    "required": ["sql"],
    "additionalProperties": False,
}
_READS = "Runs one reading SQL statement on a SQLite database; sqlite_schema lists its tables."
_WRITES = "Runs one SQL statement on a SQLite database, in a transaction of its own; sqlite_schema lists its tables."
_RESULT = "Gives columns, rows and row_count, changes when it wrote, and truncated when not all rows fit."


class SqliteToolbox:
    """A toolbox of one database file, with the tool `<name>_query`, or as `tool` names it.

    A read-only file has to exist; a read-write one is made when it is missing, its folder is not. description stands
    before what the tool says of itself. read_tool names a second tool for a read-write file, whose calls only read: they
    run beside each other, where those of the first run alone.
    """

    kind: ClassVar[Name] = Name("sqlite")

    def __init__(
        self,
        name: str,
        *,
        path: Path,
        access: Literal["read-only", "read-write"],
        description: str = "",
        tool: str | None = None,
        read_tool: str | None = None,
        sharing: ToolboxSharing = ToolboxSharing.READ_WRITE,
        size: int = 0,
        limits: SqliteLimits | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        try:
            self._access = DatabaseAccess(access)
        except ValueError as error:
            raise ConfigurationError(f"toolbox {name}: access is {access!r}; it is read-only or read-write") from error
        if read_tool is not None and self._access is DatabaseAccess.READ_ONLY:
            raise ConfigurationError(f"toolbox {name}: read_tool is for read-write access; its tool only reads already")
        self._path = Path(os.path.abspath(path))
        self._limits = limits or SqliteLimits()
        self._specs = self._specs_of(tool or f"{name}_query", read_tool, description)
        self._connections: SqliteConnections | None = None
        self._threads: ToolThreads | None = None

    @property
    def abandoned(self) -> tuple[Abandoned, ...]:
        """Statements that still run though their calls were cancelled."""
        return self._threads.abandoned if self._threads is not None else ()

    @property
    def resources(self) -> Sequence[Shared[SqliteConnection]]:
        """Its connections, while it is open: those that read, and the one that writes."""
        return self._connections.all if self._connections is not None else ()

    async def open(self) -> None:
        """Opens the first connection. Raises ConfigurationError naming the file."""
        writes = self._access is DatabaseAccess.READ_WRITE
        if writes and not self._path.parent.is_dir():
            raise ConfigurationError(f"toolbox {self.name}: the folder of {self._path} does not exist; make it")
        connections = SqliteConnections(self.name, self._path, self._access, self._limits)
        try:
            await connections.open()
        except FileGone as error:
            raise ConfigurationError(f"toolbox {self.name}: no database to open: {error}") from error
        except sqlite3.Error as error:
            raise ConfigurationError(f"toolbox {self.name}: {self._path} cannot be opened: {error}") from error
        self._connections, self._threads = connections, connections.threads

    def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        spec = next((spec for spec in self._specs if spec.name == tool), None)
        if spec is None:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if self._connections is None:
            return Failed(Name("closed"), f"toolbox {self.name} is not open")
        sql = arguments.get("sql")
        if not isinstance(sql, str):
            return Failed(Name("invalid"), "sql is the text of one statement")
        try:
            parameters = bound(arguments.get("parameters"))
        except ParametersRefused as error:
            return Failed(Name("invalid"), str(error))
        access = DatabaseAccess.READ_WRITE if spec.access is Access.WRITE else DatabaseAccess.READ_ONLY
        by = Borrower(context.lineage.frames, log_and_seq(context.call_id))
        return await self._run(self._connections, spec, Query(sql, parameters, access, self._limits), by)

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            with anyio.CancelScope(shield=True):
                await connections.close()

    def _specs_of(self, tool: str, read_tool: str | None, description: str) -> tuple[ToolSpec, ...]:
        """By name. Raises ConfigurationError when both have one."""
        if read_tool == tool:
            raise ConfigurationError(f"toolbox {self.name}: tool and read_tool are both {tool!r}")
        reads = self._access is DatabaseAccess.READ_ONLY
        specs = [self._spec_of(tool, description, reads=reads)]
        if read_tool is not None:
            specs.append(self._spec_of(read_tool, description, reads=True))
        return tuple(sorted(specs, key=lambda spec: spec.name))

    def _spec_of(self, tool: str, description: str, *, reads: bool) -> ToolSpec:
        words = (description.strip(), _READS if reads else _WRITES, _RESULT)
        return ToolSpec(
            name=Name(tool),
            description="\n".join(word for word in words if word),
            schema=_SCHEMA,
            effect=EffectClass.PURE if reads else EffectClass.ONCE,
            access=Access.READ if reads else Access.WRITE,
            toolbox=self.name,
        )

    async def _run(self, connections: SqliteConnections, spec: ToolSpec, query: Query, by: Borrower) -> object:
        """What the query gives. When cancelled, it ends the query first, or leaves it behind after stop_s."""
        shared = connections.of(spec.access)
        try:
            async with shared.borrow(by) as connection:
                work = partial(_asked, query, connection)
                running = asyncio.ensure_future(connections.threads.run(spec.name, work))
                try:
                    return await asyncio.shield(running)
                except asyncio.CancelledError:
                    query.stop()
                    if not await _ended(running, self._limits.stop_s if query.begun else 0):
                        shared.discard(connection)
                    raise
        except ResourceClosed:
            return Failed(Name("closed"), f"toolbox {self.name} is closed")
        except (FileGone, sqlite3.Error) as error:
            return _unopened(error)


def _asked(query: Query, connection: SqliteConnection) -> object:
    """In the thread."""
    query.begun = True
    try:
        with connection.link() as link:
            return query.run(link)
    except (FileGone, sqlite3.Error) as error:
        return _unopened(error)


def _unopened(error: Exception) -> Failed:
    if isinstance(error, FileGone):
        return Failed(Name("gone"), f"the database is not there any more: {error}")
    return Failed(Name("sql"), f"the database cannot be opened again: {error}")


async def _ended(running: asyncio.Future[object], wait_s: float) -> bool:
    """Waits for the end of a stopped query, however often the waiting task is cancelled; False when it is given up after
    wait_s."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while not running.done() and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([running], timeout=left_s)
        except asyncio.CancelledError:
            continue
    if not running.done():
        running.cancel()
        await asyncio.wait([running])
        return False
    if not running.cancelled():
        running.exception()  # seen: the cancellation is what the caller learns of
    return True
