"""One connection to a SQLite database for statements of others: opened, bounded and guarded.

The file is touched through SQLite alone: a second descriptor on it, once closed, would drop the locks that SQLite holds
for this process.
"""

from __future__ import annotations

import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess, Guard

STORE_APPLICATION_ID = 0x61676F73
"""What the header of a store of agentos names it as. No tool may write to one; `persistence` makes them."""

_PROGRESS_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the time: a millisecond or less."""


class SqliteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the statements on one database.

    A statement may take time_s, wait busy_s for a lock of another process, and be sql_bytes long. Of its rows rows_max
    are shown, as JSON of at most result_chars, each text with at most text_chars; the others are counted up to count_max.
    value_bytes bounds one value, and database_bytes the whole file. readers_max calls read at once. A cancelled
    statement has stop_s to end.
    """

    time_s: float = 30.0
    busy_s: float = 5.0
    sql_bytes: int = 100_000
    rows_max: int = 1_000
    count_max: int = 100_000
    result_chars: int = 30_000
    text_chars: int = 15_000
    value_bytes: int = 16 * 1024 * 1024
    database_bytes: int = 1024 * 1024 * 1024
    readers_max: int = 4
    stop_s: float = 2.0


class BadText(bytes):
    """A value of type TEXT whose bytes are no UTF-8."""


class FileGone(Exception):
    """The database file is not there any more, or is no file."""


class Identity(msgspec.Struct, frozen=True):
    """Which file stands at a path: another one has another identity."""

    device: int
    inode: int


class Link:
    """A connection with its guard. It is used by one thread at a time; `db.interrupt` may come from any."""

    def __init__(self, db: sqlite3.Connection, access: DatabaseAccess, identity: Identity) -> None:
        self.db, self.guard, self.identity = db, Guard(access), identity
        self.over: Callable[[], bool] = lambda: False
        db.text_factory = text_factory
        db.set_progress_handler(lambda: self.over() and not self.guard.own, _PROGRESS_STEPS)
        db.set_authorizer(self.guard.authorize)

    def own(self, statement: str) -> sqlite3.Cursor:
        """Runs a statement of the toolbox itself, which the guard lets pass."""
        self.guard.own = True
        try:
            return self.db.execute(statement)
        finally:
            self.guard.own = False

    def roll_back(self) -> None:
        if self.db.in_transaction:
            self.own("ROLLBACK")


def text_factory(data: bytes) -> str | BadText:
    """What SQLite's connection makes of the bytes of a TEXT."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BadText(data)


def identity_of(path: Path) -> Identity:
    """Raises FileGone."""
    try:
        found = path.stat()
    except OSError as error:
        raise FileGone(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise FileGone(f"{path}: it is no regular file")
    return Identity(found.st_dev, found.st_ino)


def open_link(path: Path, access: DatabaseAccess, limits: SqliteLimits, *, create: bool = False) -> Link:
    """A new connection, which has read the file's schema. Raises FileGone, sqlite3.Error."""
    if not create or path.exists():
        identity_of(path)
    mode = "ro" if access is DatabaseAccess.READ_ONLY else "rwc" if create else "rw"
    db = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=0,  # a statement from the cache would not be asked about again
    )
    try:
        _prepare(db, access, limits)
        return Link(db, access, identity_of(path))
    except BaseException:
        db.close()
        raise


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _prepare(db: sqlite3.Connection, access: DatabaseAccess, limits: SqliteLimits) -> None:
    db.execute(f"PRAGMA busy_timeout={round(limits.busy_s * 1000)}")  # for the opening alone
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA mmap_size=0")
    db.execute("PRAGMA foreign_keys=ON")
    db.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # a file that is no database is found out here
    if access is DatabaseAccess.READ_ONLY:
        db.execute("PRAGMA query_only=ON")
    else:
        _prepare_to_write(db, limits)
    if sys.version_info >= (3, 12):
        db.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    db.execute("PRAGMA busy_timeout=0")  # from now on the waiting is done where it can be ended: in Query
    for limit, value in (
        (sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.sql_bytes),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 100),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        db.setlimit(limit, value)


def _prepare_to_write(db: sqlite3.Connection, limits: SqliteLimits) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application == STORE_APPLICATION_ID:
        raise sqlite3.DatabaseError("it is a store of agentos, which no tool may write to; open it read-only")
    db.execute("PRAGMA journal_mode=WAL").fetchone()  # where the file system allows it
    db.execute("PRAGMA synchronous=NORMAL")
    (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    db.execute(f"PRAGMA max_page_count={max(1, limits.database_bytes // page_bytes)}")
