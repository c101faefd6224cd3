"""The connections to one SQLite file: a pool of those that read, and one that writes beside them.

Statements run in threads. A connection is lent to one call at a time, and verified there, in the thread: when another file
stands at the path, it is opened anew. A statement that cannot be ended keeps its thread and its connection until it
returns; the connection counts as broken then, and the one that takes its place is made when somebody asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agentos.components import Access, Pattern
from agentos.resources.borrowing import Bounds, Factory, Takes
from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess
from agentos.resources.kinds.sqlite_connection.link import Link, SqliteLimits, identity_of, open_link
from agentos.resources.process.threads import ToolThreads
from agentos.resources.shared import Shared

KIND = "sqlite_connection"


class SqliteConnection:
    """One connection, as it is lent. `link` is for threads, one at a time."""

    def __init__(self, path: Path, access: DatabaseAccess, limits: SqliteLimits) -> None:
        self.path, self._access, self._limits = path, access, limits
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._used = self._closed = False

    def open(self, *, create: bool = False) -> None:
        """In a thread. Raises FileGone, sqlite3.Error."""
        with self._in_use():
            self._link = open_link(self.path, self._access, self._limits, create=create)

    @contextmanager
    def link(self) -> Iterator[Link]:
        """The link to the file that is there now. One that is left in a transaction is not kept.

        Errors: FileGone, sqlite3.Error.
        """
        with self._in_use():
            link = self._current()
            try:
                yield link
            finally:
                if link.db.in_transaction:
                    self._drop()

    def close(self) -> None:
        """At once, or by the thread that still uses it as soon as it lets go."""
        with self._lock:
            self._closed = True
            if not self._used:
                self._drop()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            self._used = True
        try:
            yield
        finally:
            with self._lock:
                self._used = False
                if self._closed:
                    self._drop()

    def _current(self) -> Link:
        identity = identity_of(self.path)
        if self._link is not None and self._link.identity != identity:
            self._drop()
        if self._link is None:
            self._link = open_link(self.path, self._access, self._limits)
        return self._link

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.db.close()


class SqliteConnections:
    """Two resources over one file, and the threads that their handles are used in.

    reading: a pool of readers_max connections; writing: the one that writes, None where nobody may. `open` them before
    they are lent.
    """

    def __init__(self, name: str, path: Path, access: DatabaseAccess, limits: SqliteLimits) -> None:
        self.path, self._limits = path, limits
        writes = access is DatabaseAccess.READ_WRITE
        self.threads = ToolThreads(limits.readers_max + writes)
        bounds = Bounds(make_s=limits.busy_s + limits.time_s, drain_s=limits.stop_s)
        self.reading = Shared(
            name, KIND, Pattern.POOL, self._factory(DatabaseAccess.READ_ONLY), size=limits.readers_max, bounds=bounds
        )
        self.writing = (
            Shared(f"{name}.writer", KIND, Pattern.EXCLUSIVE, self._factory(access), bounds=bounds) if writes else None
        )

    @property
    def all(self) -> tuple[Shared[SqliteConnection], ...]:
        return (self.reading, self.writing) if self.writing is not None else (self.reading,)

    def of(self, access: Access) -> Shared[SqliteConnection]:
        """Where a call of this access borrows."""
        return self.writing if access is Access.WRITE and self.writing is not None else self.reading

    async def open(self) -> None:
        """Opens the first connection, and makes the file when it is missing and may be written. Raises FileGone,
        sqlite3.Error; nothing is left open then."""
        try:
            await self.of(Access.WRITE).open()
        except BaseException:
            await self.threads.close()
            raise

    async def close(self) -> None:
        try:
            for shared in self.all:
                await shared.close()
        finally:
            await self.threads.close()

    def _factory(self, access: DatabaseAccess) -> Factory[SqliteConnection]:
        async def make() -> SqliteConnection:
            connection = SqliteConnection(self.path, access, self._limits)
            create = access is DatabaseAccess.READ_WRITE
            try:
                await self.threads.run("open", partial(connection.open, create=create))
            except BaseException:
                connection.close()
                raise
            return connection

        return Factory(make, close=_close, takes=lambda connection: Takes(path=str(connection.path)))


async def _close(connection: SqliteConnection) -> None:
    """In a thread, since the last connection empties the write-ahead log; of its own, since all of those that the calls
    have may be held by statements that do not end."""
    closer = ToolThreads(1)
    try:
        await closer.run("close", connection.close)
    finally:
        await closer.close()
