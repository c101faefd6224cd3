"""Brings an older store to the schema of this program: the packaged migrations, in one transaction.

Imported only when there is an older store to be written to. A process that dies in the middle leaves the store as it was;
of several that come at once, one does it and the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Row, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agentos.errors import StoreBusy, StoreUnavailable
from agentos.persistence.writer_lock import is_dead

if TYPE_CHECKING:
    import asyncpg
    from sqlalchemy.ext.asyncio import AsyncConnection

LOCK_WAIT_S = 60
"""How long an upgrade of PostgreSQL waits for a table that others hold: another upgrade, or who reads without an end."""
_LOCK_NOT_AVAILABLE = "55P03"
_ALEMBIC = threading.Lock()
"""Its environment is one for all threads of a process."""


def upgrade_sqlite(url: str, path: str, to_version: int, busy_timeout_ms: int) -> None:
    """Does nothing when another process has done it.

    Errors: StoreUnavailable while a process of an older version writes to the store; sqlite3.Error.
    """
    with _sqlite_transaction(path, busy_timeout_ms) as connection:
        (version,) = connection.exec_driver_sql("PRAGMA user_version").one()
        if version < to_version:
            _refuse_while_written(url, (version, to_version), _living(connection, path) if version else ())
            run_migrations(connection)


async def upgrade_postgresql(
    url: str,
    connect: Callable[[], Awaitable[asyncpg.Connection]],
    to_version: int,
    living: str,
) -> None:
    """Does nothing when another process has done it.

    `url` names the store in errors and is not connected to. `connect` is called in another loop and gives a connection of
    its own, whose search path begins with the store's schema; it is closed in the end. `living` is a query of the store for
    its living writers: n, host, pid. Readers go on meanwhile, until the first change of a table waits for them. Cancelled,
    it returns once the transaction is rolled back.

    Errors: StoreUnavailable while a process of an older version writes to the store, StoreBusy after LOCK_WAIT_S;
    asyncpg.PostgresError, OSError.
    """
    await _in_a_thread(lambda: _upgrade_postgresql(url, connect, to_version, living))


async def _in_a_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs it in a thread and a loop of its own: alembic blocks, and the others of this process go on."""
    started: Future[Callable[[], object]] = Future()

    async def run() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        await work()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(run())))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has just ended
            (await asyncio.wrap_future(started))()
        await asyncio.gather(thread, return_exceptions=True)
        raise


async def _upgrade_postgresql(
    url: str, connect: Callable[[], Awaitable[asyncpg.Connection]], to_version: int, living: str
) -> None:
    async with _postgresql_transaction(url, connect) as connection:
        await connection.exec_driver_sql("LOCK TABLE store_version IN SHARE ROW EXCLUSIVE MODE")
        version = (await connection.exec_driver_sql("SELECT version FROM store_version")).scalar_one()
        if version < to_version:
            _refuse_while_written(url, (version, to_version), (await connection.exec_driver_sql(living)).all())
            await connection.run_sync(run_migrations)


def run_migrations(connection: Connection, revision: str = "head") -> None:
    """All revisions that the database lacks, up to this one, within the transaction that is open. Raises DBAPIError."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, revision)


def migrations_folder() -> Path:
    """That of the wheel, or that of the checkout."""
    here = Path(__file__).parent
    packaged = here / "migrations"
    return packaged if packaged.is_dir() else here.parents[1] / "migrations"


@contextmanager
def _sqlite_transaction(path: str, busy_timeout_ms: int) -> Iterator[Connection]:
    """A connection that has the file for itself until the end of the block. Raises sqlite3.Error."""
    engine = create_engine("sqlite://", creator=lambda: _connect(path, busy_timeout_ms), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")  # an erase could not find what stands on freed pages
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # by hand: sqlite3's own transactions begin after DDL
            yield connection
            connection.commit()
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise


def _connect(path: str, busy_timeout_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None)


@asynccontextmanager
async def _postgresql_transaction(
    url: str, connect: Callable[[], Awaitable[asyncpg.Connection]]
) -> AsyncIterator[AsyncConnection]:
    """A connection inside a transaction, which the end of the block commits.

    Errors: StoreBusy, asyncpg.PostgresError, OSError.
    """
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'")
            yield connection
    except DBAPIError as error:
        cause = error.orig.__cause__ if error.orig is not None else None
        if getattr(cause, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            reason = f"others held a table of it for more than {LOCK_WAIT_S} s, so that it could not be upgraded"
            raise StoreBusy(url, reason) from error
        if cause is not None:
            raise cause from error  # asyncpg's own, as everywhere else in the adapter
        raise
    finally:
        await engine.dispose()


def _living(connection: Connection, path: str) -> Sequence[Row[*tuple[Any, ...]]]:
    rows = connection.exec_driver_sql("SELECT n, host, pid FROM writers WHERE ended_at IS NULL").all()
    return [row for row in rows if not is_dead(path, row.n)]


def _refuse_while_written(url: str, versions: tuple[int, int], writers: Sequence[Row[*tuple[Any, ...]]]) -> None:
    """Whoever has the store open now writes it as its version does."""
    for writer in writers:
        has, wanted = versions
        raise StoreUnavailable(
            url,
            f"process {writer.pid} of {writer.host} has it open with schema version {has}; end it, and the store is upgraded"
            f" to version {wanted} when it is opened again",
        )
