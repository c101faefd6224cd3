"""Brings the file of an older store to the schema of this program: the packaged migrations, in one transaction.

Imported only when there is an older store to be written to. A process that dies in the middle leaves the file as it was;
of several that come at once, one does it and the others wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agentos.errors import StoreUnavailable
from agentos.persistence.writer_lock import is_dead


def upgrade(url: str, path: str, to_version: int, busy_timeout_ms: int) -> None:
    """Does nothing when another process has done it.

    Errors: StoreUnavailable while a process of an older version writes to the store; sqlite3.Error.
    """
    with _transaction(path, busy_timeout_ms) as connection:
        (version,) = connection.exec_driver_sql("PRAGMA user_version").one()
        if version < to_version:
            if version:
                _check_writers(connection, url, path, (version, to_version))
            run_migrations(connection)


def run_migrations(connection: Connection) -> None:
    """All revisions that the database lacks, within the transaction that is open. Raises DBAPIError."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _transaction(path: str, busy_timeout_ms: int) -> Iterator[Connection]:
    """A connection that has the file for itself until the end of the block. Raises sqlite3.Error."""
    engine = create_engine("sqlite://", creator=lambda: _connect(path, busy_timeout_ms), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # by hand: sqlite3's own transactions begin after DDL
            yield connection
            connection.commit()
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise


def _connect(path: str, busy_timeout_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None)


def migrations_folder() -> Path:
    """That of the wheel, or that of the checkout."""
    here = Path(__file__).parent
    packaged = here / "migrations"
    return packaged if packaged.is_dir() else here.parents[1] / "migrations"


def _check_writers(connection: Connection, url: str, path: str, versions: tuple[int, int]) -> None:
    """Whoever has the store open now writes it as its version does."""
    for number, pid in connection.exec_driver_sql("SELECT n, pid FROM writers WHERE ended_at IS NULL").all():
        if not is_dead(path, number):
            has, wanted = versions
            raise StoreUnavailable(
                url,
                f"process {pid} has it open with schema version {has}; end it, and the store is upgraded to version"
                f" {wanted} when it is opened again",
            )
