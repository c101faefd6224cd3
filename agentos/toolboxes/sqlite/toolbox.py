"""A SQLite database as a toolbox: one tool that runs one statement.

Read-only: many calls read at once, each on a connection of its own, and nothing but reading passes the guard. Read-write:
one call at a time, each a transaction of its own. A call that is cancelled is interrupted, rolled back, and only then
let go; a statement that does not end within stop_s keeps its thread and its connection until it does.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio

from agentos.components import Access, EffectClass, ToolboxSharing, ToolSpec
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.resources.process.threads import ToolThreads
from agentos.toolboxes.base import Doubt, Failed
from agentos.toolboxes.sqlite.guard import DatabaseAccess
from agentos.toolboxes.sqlite.link import FileGone, Link, SqliteLimits, identity_of, open_link
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
    """A toolbox of one database file, with the one tool `<name>_query`, or as `tool` names it.

    A read-only file has to exist; a read-write one is made when it is missing, its folder is not. description stands
    before what the tool says of itself.
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
        sharing: ToolboxSharing = ToolboxSharing.READ_WRITE,
        size: int = 0,
        limits: SqliteLimits | None = None,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        try:
            self._access = DatabaseAccess(access)
        except ValueError as error:
            raise ConfigurationError(f"toolbox {name}: access is {access!r}; it is read-only or read-write") from error
        self._path = Path(os.path.abspath(path))
        self._limits = limits or SqliteLimits()
        self._spec = self._spec_of(tool or f"{name}_query", description)
        self._idle: deque[Link] = deque()
        self._threads: ToolThreads | None = None

    async def open(self) -> None:
        """Opens the first connection. Raises ConfigurationError naming the file."""
        reads = self._access is DatabaseAccess.READ_ONLY
        threads = ToolThreads(self._limits.readers_max if reads else 1)
        try:
            link = await threads.run("open", self._first_link)
        except BaseException:
            await threads.close()
            raise
        self._idle.append(link)
        self._threads = threads

    def tools(self) -> Sequence[ToolSpec]:
        return (self._spec,)

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        if tool != self._spec.name:
            return Failed(Name("unknown_tool"), f"toolbox {self.name} has no tool {tool}")
        if self._threads is None:
            return Failed(Name("closed"), f"toolbox {self.name} is not open")
        sql = arguments.get("sql")
        if not isinstance(sql, str):
            return Failed(Name("invalid"), "sql is the text of one statement")
        try:
            parameters = bound(arguments.get("parameters"))
        except ParametersRefused as error:
            return Failed(Name("invalid"), str(error))
        return await self._run(self._threads, Query(sql, parameters, self._access, self._limits))

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            with anyio.CancelScope(shield=True):
                await threads.close()
                # In a thread, since the last connection empties the write-ahead log; of its own, since all of those may
                # be held by statements that do not end.
                closer = ToolThreads(1)
                await closer.run("close", self._close_idle)
                await closer.close()

    def _spec_of(self, tool: str, description: str) -> ToolSpec:
        reads = self._access is DatabaseAccess.READ_ONLY
        words = (description.strip(), _READS if reads else _WRITES, _RESULT)
        return ToolSpec(
            name=Name(tool),
            description="\n".join(word for word in words if word),
            schema=_SCHEMA,
            effect=EffectClass.PURE if reads else EffectClass.ONCE,
            access=Access.READ if reads else Access.WRITE,
            toolbox=self.name,
        )

    def _first_link(self) -> Link:
        reads = self._access is DatabaseAccess.READ_ONLY
        if not reads and not self._path.parent.is_dir():
            raise ConfigurationError(f"toolbox {self.name}: the folder of {self._path} does not exist; make it")
        try:
            return open_link(self._path, self._access, self._limits, create=not reads)
        except FileGone as error:
            raise ConfigurationError(f"toolbox {self.name}: no database to open: {error}") from error
        except sqlite3.Error as error:
            raise ConfigurationError(f"toolbox {self.name}: {self._path} cannot be opened: {error}") from error

    async def _run(self, threads: ToolThreads, query: Query) -> object:
        """What the query gives. When cancelled, it ends the query first, or leaves it behind after stop_s."""
        running = asyncio.ensure_future(threads.run(self._spec.name, functools.partial(self._lend, query)))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            query.stop()
            await _ended(running, self._limits.stop_s if query.begun else 0)
            raise

    def _lend(self, query: Query) -> object:
        """In the thread: a connection for the query, and back; one that is stuck in a transaction is not kept."""
        query.begun = True
        try:
            link = self._link()
        except FileGone as error:
            return Failed(Name("gone"), f"the database is not there any more: {error}")
        except sqlite3.Error as error:
            return Failed(Name("sql"), f"the database cannot be opened again: {error}")
        try:
            return query.run(link)
        finally:
            if link.db.in_transaction:
                link.db.close()
            else:
                self._idle.append(link)
            if self._threads is None:  # closed while this ran
                self._close_idle()

    def _link(self) -> Link:
        """An idle connection to the file that is there now, else a new one. Raises FileGone, sqlite3.Error."""
        identity = identity_of(self._path)
        while self._idle:
            link = self._idle.pop()
            if link.identity == identity:
                return link
            link.db.close()
        return open_link(self._path, self._access, self._limits)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().db.close()


async def _ended(running: asyncio.Future[object], wait_s: float) -> None:
    """Waits for the end of a stopped query, however often the waiting task is cancelled; after wait_s gives it up."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while not running.done() and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([running], timeout=left_s)
        except asyncio.CancelledError:
            continue
    if not running.done():
        running.cancel()
        await asyncio.wait([running])
    elif not running.cancelled():
        running.exception()  # seen: the cancellation is what the caller learns of
