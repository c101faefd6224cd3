"""Opening the file of a SQLite store, and what its errors mean.

The file is touched through SQLite alone: a second descriptor on it, once closed, would drop the locks that SQLite holds
for this process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TypeVar

from agentos.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew, StoreTooOld, StoreUnavailable
from agentos.persistence.base import Durability
from agentos.persistence.sqlite.checkpoints import WAL_OVERGROWN
from agentos.persistence.sqlite.guard import wal_bytes
from agentos.persistence.writer_lock import has_living_writer
from agentos.settings import Settings

T = TypeVar("T")

APPLICATION_ID = 0x61676F73
"""What SQLite's header names the file as: "agos"."""
SCHEMA_VERSION = 3
STATEMENTS_MAX = 256
CACHE_KIB = 16 * 1024

_RETRY_S = 0.005
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT})
_CLOSED_TO_US = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_NO_TEXT = re.compile(r"Could not decode to UTF-8 column '([^']*)'")
_NEAR_BYTES = 64 * 1024
"""A file so near to a limit of sizes has reached it: SQLite writes in pieces."""
_KEPT = "what was acknowledged is kept"


_SYNCHRONOUS = {
    Durability.FULL: "PRAGMA synchronous=FULL",
    Durability.NORMAL: "PRAGMA synchronous=NORMAL",
    Durability.RELAXED: "PRAGMA synchronous=OFF",
}


def open_for_writing(url: str, path: str, durability: Durability, settings: Settings) -> sqlite3.Connection:
    """The connection of the writer, on a file that has the schema. Raises StoreError."""
    _make_file(url, path)
    try:
        return _connect_writing(url, path, durability, settings)
    except sqlite3.Error as error:
        raise store_error(url, error, settings.busy_timeout_ms, path) from error


def _connect_writing(url: str, path: str, durability: Durability, settings: Settings) -> sqlite3.Connection:
    db = sqlite3.connect(
        path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_MAX
    )
    try:
        version = patiently(lambda: _prepare(db, url, durability, settings), settings.busy_timeout_ms)
        if version < SCHEMA_VERSION:
            _upgrade(url, path, settings.busy_timeout_ms)
            check_identity(db, url)  # any read will do: the upgrade may have been the last to let go of the log
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(url: str, path: str, busy_timeout_ms: int) -> tuple[sqlite3.Connection, bool]:
    """A connection that cannot write, and whether it takes locks as it should.

    SQLite makes two small files to read a write-ahead log. Where the folder lets it make none, a store that no writer
    has open and whose log is empty is read without locks. Raises StoreError or sqlite3.Error.
    """
    if os.path.isdir(path):
        raise StoreUnavailable(url, "the path is a directory; name a file")
    if not os.path.exists(path):
        raise StoreUnavailable(url, "there is no such file; the first conversation makes it")
    try:
        return _connect_reading(url, path, "mode=ro", busy_timeout_ms), True
    except sqlite3.OperationalError as error:
        if _code(error) not in _CLOSED_TO_US:
            raise
        if not os.access(path, os.R_OK, effective_ids=True):
            raise StoreUnavailable(url, f"cannot read {path}: {_denial(path)}") from error
        if wal_bytes(path) or has_living_writer(path):
            raise StoreUnavailable(url, _why_not_readable(path)) from error
    return _connect_reading(url, path, "immutable=1", busy_timeout_ms), False


def _connect_reading(url: str, path: str, option: str, busy_timeout_ms: int) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{Path(path).as_uri()}?{option}",
        uri=True,
        timeout=busy_timeout_ms / 1000,
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


def no_text(error: sqlite3.Error) -> str | None:
    """The column of a value that Python cannot take for text, None for every other error: this one tells the value, too."""
    found = _NO_TEXT.match(str(error))
    return found[1] if found is not None else None


def store_error(
    url: str, error: sqlite3.Error, busy_timeout_ms: int | None = None, path: str | None = None
) -> StoreError:
    """Our word for an error of SQLite; it names the file and never a row."""
    code = _code(error)
    if code in _BUSY_CODES:
        limit = "a moment" if busy_timeout_ms is None else f"{busy_timeout_ms} ms (busy_timeout_ms)"
        return StoreBusy(url, f"another process held its lock for more than {limit}")
    if code in _DAMAGE_CODES:
        return StoreDamaged(url, str(error))
    if code in _CLOSED_TO_US and path is not None and (reason := _why_not_writable(path)):
        return StoreUnavailable(url, reason)
    if (column := no_text(error)) is not None:
        return StoreDamaged(url, f"column {column} has a value that is no text in UTF-8")
    name = getattr(error, "sqlite_errorname", None)
    reason = f"{error} ({name})" if name else str(error)
    return StoreUnavailable(url, reason + _way_out(code, path))


def _way_out(code: int, path: str | None) -> str:
    """What lets it go on, where a bound of the machine was reached."""
    if code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or path is None:
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(_file_bytes(path), wal_bytes(path))
    if limit != resource.RLIM_INFINITY and largest + _NEAR_BYTES > limit:
        return f": a file beside {path} has reached the limit of {limit} bytes (ulimit -f); {_KEPT}, raise it to go on"
    if code == sqlite3.SQLITE_FULL:
        return f": free space where {path} stands, and it goes on; {_KEPT}"
    return ""


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


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


def _why_not_writable(path: str) -> str:
    """Empty when nothing forbids it."""
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return f"cannot write to {path}: {_denial(path)}; a store may be read all the same"
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return f"cannot make files in {folder}, where SQLite keeps its log: {_denial(folder)}"
    return ""


def _denial(path: str) -> str:
    """What the system says of a place that may not be written to."""
    is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES)


def _why_not_readable(path: str) -> str:
    return (
        f"{path} has a write-ahead log in use, and SQLite cannot make its index in {os.path.dirname(path)}:"
        f" {_denial(path)}; copy the file and its -wal to a folder of yours and read them there"
    )


def _upgrade(url: str, path: str, busy_timeout_ms: int) -> None:
    """Alembic takes longer to import than all the rest, and is imported for an older store alone."""
    from agentos.persistence.upgrading import upgrade_sqlite

    upgrade_sqlite(url, path, SCHEMA_VERSION, busy_timeout_ms)


def _prepare(db: sqlite3.Connection, url: str, durability: Durability, settings: Settings) -> int:
    """Gives the schema version of the file; a new one gets the schema of this program."""
    version = check_identity(db, url)
    (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(url, f"its file system allows no write-ahead log (journal_mode stays {mode})")
    db.execute(_SYNCHRONOUS[durability])
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute(f"PRAGMA journal_size_limit={WAL_OVERGROWN * settings.wal_copy_bytes:d}")
    db.execute("PRAGMA secure_delete=ON")  # FAST leaves what stood on freed pages, and long texts stand on such
    db.execute("PRAGMA foreign_keys=ON")
    db.execute(f"PRAGMA cache_size=-{CACHE_KIB:d}")
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
