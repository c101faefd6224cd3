"""Opening the file of a SQLite store, and what its errors mean.

The file is touched through SQLite alone: a second descriptor on it, once closed, would drop the locks that SQLite holds
for this process.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import TypeVar

from agentos.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew, StoreTooOld, StoreUnavailable

T = TypeVar("T")

APPLICATION_ID = 0x61676F73
"""What SQLite's header names the file as: "agos"."""
SCHEMA_VERSION = 3
BUSY_TIMEOUT_MS = 5_000
"""How long a locked file is waited for."""
STATEMENTS_MAX = 256
CACHE_KIB = 16 * 1024

_RETRY_S = 0.005
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT})


class Durability(Enum):
    """What an acknowledged unit survives.

    full: a power cut. normal: a crash of this program; a power cut may take the last units, never a part of one.
    relaxed: a crash of this program; a power cut may damage the file.
    """

    FULL = "full"
    NORMAL = "normal"
    RELAXED = "relaxed"


_SYNCHRONOUS = {
    Durability.FULL: "PRAGMA synchronous=FULL",
    Durability.NORMAL: "PRAGMA synchronous=NORMAL",
    Durability.RELAXED: "PRAGMA synchronous=OFF",
}


def open_for_writing(url: str, path: str, durability: Durability, busy_timeout_ms: int) -> sqlite3.Connection:
    """The connection of the writer, on a file that has the schema. Raises StoreError."""
    _make_file(url, path)
    db = sqlite3.connect(
        path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_MAX
    )
    try:
        version = patiently(lambda: _prepare(db, url, durability), busy_timeout_ms)
        if version < SCHEMA_VERSION:
            _upgrade(url, path, busy_timeout_ms)
    except sqlite3.Error as error:
        db.close()
        raise store_error(url, error, busy_timeout_ms) from error
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(url: str, path: str) -> sqlite3.Connection:
    """A connection that cannot write. Raises StoreError or sqlite3.Error."""
    if not os.path.exists(path):
        raise StoreUnavailable(url, "there is no such file")
    db = sqlite3.connect(
        Path(path).as_uri() + "?mode=ro",
        uri=True,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        version = check_identity(db, url)
        if version == 0:
            raise StoreUnavailable(url, "the file is empty")
        if version < SCHEMA_VERSION:
            raise StoreTooOld(url, version, SCHEMA_VERSION)
    except BaseException:
        db.close()
        raise
    return db


def open_in_memory() -> sqlite3.Connection:
    """A database of its own that has the schema."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_MAX)
    _create_schema(db)
    return db


def check_identity(db: sqlite3.Connection, url: str) -> int:
    """The schema version of the file, 0 for a new one. Raises StoreDamaged, StoreTooNew, sqlite3.Error."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise StoreTooNew(url, version, SCHEMA_VERSION)
        return int(version)
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application or version or tables:
        raise StoreDamaged(url, "it is the database of another program")
    return 0


def patiently(work: Callable[[], T], limit_ms: int) -> T:
    """Does the work again while the file is locked, until limit_ms have passed. Raises sqlite3.Error.

    The waits are short and uneven, so that a busy writer in another process cannot shut this one out.
    """
    deadline = time.monotonic() + limit_ms / 1000
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(0, _RETRY_S))


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in _BUSY_CODES


def store_error(url: str, error: sqlite3.Error, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> StoreError:
    """Our word for an error of SQLite; it names the file and never a row."""
    code = _code(error)
    if code in _BUSY_CODES:
        return StoreBusy(url, f"another process held its lock for more than {busy_timeout_ms} ms (busy_timeout_ms)")
    if code in _DAMAGE_CODES:
        return StoreDamaged(url, str(error))
    name = getattr(error, "sqlite_errorname", None)
    return StoreUnavailable(url, f"{error} ({name})" if name else str(error))


def _code(error: sqlite3.Error) -> int:
    """The primary code: the extended ones of SQLite say more in the higher bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _make_file(url: str, path: str) -> None:
    """Makes the folder, and the file for its owner's eyes only. SQLite gives its side files the same mode."""
    if os.path.isdir(path):
        raise StoreUnavailable(url, "the path is a directory; name a file")
    if os.path.exists(path):
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreUnavailable(url, f"cannot make {path}: {error.strerror}") from error


def _upgrade(url: str, path: str, busy_timeout_ms: int) -> None:
    """Alembic takes longer to import than all the rest, and is imported for an older store alone."""
    from agentos.persistence.upgrading import upgrade

    upgrade(url, path, SCHEMA_VERSION, busy_timeout_ms)


def _prepare(db: sqlite3.Connection, url: str, durability: Durability) -> int:
    """Gives the schema version of the file; a new one gets the schema of this program."""
    version = check_identity(db, url)
    (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(url, f"its file system allows no write-ahead log (journal_mode stays {mode})")
    db.execute(_SYNCHRONOUS[durability])
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("PRAGMA foreign_keys=ON")
    db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    if version:
        return version
    _create_schema(db)
    return SCHEMA_VERSION


def _create_schema(db: sqlite3.Connection) -> None:
    """All of schema.sql in one transaction; nothing when another process was first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _schema_statements():
                db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _schema_statements() -> Iterator[str]:
    """The statements of schema.sql one by one: executescript would commit by itself."""
    statement = ""
    for line in (
        resources.files("agentos.persistence.sqlite")
        .joinpath("schema.sql")
        .read_text("utf-8")
        .splitlines(keepends=True)
    ):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
