"""The connections to one SQLite file: lent to many readers and one writer, and all of them closed in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentos.components import Access
from agentos.errors import ResourceClosed
from agentos.resources.kinds.sqlite_connection import (
    DatabaseAccess,
    FileGone,
    SqliteConnection,
    SqliteConnections,
    SqliteLimits,
)
from agentos.testing.leaks import leak_meter
from tests.toolboxes.sqlite_support import made

WRITES = DatabaseAccess.READ_WRITE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(tmp_path / "notes.db", "CREATE TABLE notes (n INTEGER); INSERT INTO notes VALUES (7);")


@asynccontextmanager
async def opened(path: Path, access: DatabaseAccess = WRITES) -> AsyncIterator[SqliteConnections]:
    connections = SqliteConnections("notes", path, access, SqliteLimits(readers_max=2))
    async with leak_meter():
        await connections.open()
        try:
            yield connections
        finally:
            await connections.close()


def first(connection: SqliteConnection) -> object:
    with connection.link() as link:
        return link.db.execute("SELECT n FROM notes").fetchone()[0]


async def read(connections: SqliteConnections, access: Access = Access.READ) -> object:
    shared = connections.of(access)
    async with shared.borrow() as connection:
        try:
            return await connections.threads.run("read", lambda: first(connection))
        except asyncio.CancelledError:
            shared.discard(connection)  # the thread may still be at it
            raise


async def test_readers_do_not_wait_for_the_writer_nor_it_for_them(path: Path) -> None:
    async with (
        opened(path) as connections,
        connections.of(Access.WRITE).borrow(),
        connections.of(Access.READ).borrow(),
        connections.of(Access.READ).borrow(),
    ):
        said = [shared.statistics() for shared in connections.all]

    assert [(one.name, one.size, len(one.holders)) for one in said] == [("notes", 2, 2), ("notes.writer", 1, 1)]


async def test_where_nobody_may_write_all_borrow_from_the_readers(path: Path) -> None:
    async with opened(path, DatabaseAccess.READ_ONLY) as connections:
        assert connections.writing is None
        assert connections.of(Access.WRITE) is connections.reading
        assert await read(connections, Access.WRITE) == 7


async def test_a_reading_that_is_cancelled_at_any_moment_leaves_no_trace_and_the_next_one_is_served(path: Path) -> None:
    async with opened(path) as connections:
        for turns in range(25):
            reading = asyncio.ensure_future(read(connections))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            assert connections.reading.statistics().holders == ()

        assert await read(connections) == 7


async def test_a_connection_that_is_used_while_it_closes_is_closed_by_its_user(path: Path) -> None:
    connection = SqliteConnection(path, WRITES, SqliteLimits())
    connection.open()
    with connection.link() as link:
        connection.close()
        assert link.db.execute("SELECT n FROM notes").fetchone() == (7,)

    with pytest.raises(Exception, match="closed"):
        link.db.execute("SELECT 1")


async def test_a_file_that_is_not_there_is_told_and_nothing_stays_open(tmp_path: Path) -> None:
    async with leak_meter():
        connections = SqliteConnections("x", tmp_path / "none.db", DatabaseAccess.READ_ONLY, SqliteLimits())
        with pytest.raises(FileGone):
            await connections.open()


async def test_what_is_closed_lends_nothing(path: Path) -> None:
    async with opened(path) as connections:
        pass

    with pytest.raises(ResourceClosed):
        await read(connections)
