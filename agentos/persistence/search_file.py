"""The SQLite file of a search index: how it is opened, told from any other file, and made anew."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentos.errors import ConfigurationError, IndexDamaged, IndexUnavailable
from agentos.persistence.search_text import TOKENIZER

APPLICATION_ID = 0x61677365
VERSION = 2
BUSY_S = 5.0
"""How long another process's transaction on the file is waited for."""
SECURE_DELETE_SINCE = (3, 42)
"""The version of SQLite from which its full-text index can take words out at once instead of noting that they are gone."""

SCHEMA = (
    """CREATE TABLE logs (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, digest BLOB NOT NULL,
        erased INTEGER NOT NULL)""",
    "CREATE TABLE calls (n INTEGER NOT NULL, seq INTEGER NOT NULL, tool TEXT NOT NULL, PRIMARY KEY (n, seq)) WITHOUT ROWID",
    """CREATE TABLE places (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, seq INTEGER NOT NULL, i INTEGER NOT NULL,
        role TEXT NOT NULL, part TEXT NOT NULL, tool TEXT, turn INTEGER NOT NULL, call INTEGER NOT NULL,
        at INTEGER NOT NULL, UNIQUE (n, seq, i))""",
    "CREATE TABLE standing (one INTEGER PRIMARY KEY CHECK (one = 1), erased INTEGER NOT NULL, updated_at INTEGER NOT NULL)",
    f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{TOKENIZER}")',
)
_TABLES = (
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND NOT (type = 'table' AND name IN"
    " ('texts_data', 'texts_idx', 'texts_content', 'texts_docsize', 'texts_config')) ORDER BY rowid"
)
_DAMAGES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH})
"""SQLITE_ERROR too: a statement of ours fails so when the tables are not those that it is written for."""


def open_file(path: Path | None) -> sqlite3.Connection:
    """The index at a path, made when none is there; in memory for None. A file that is no index of this version is
    replaced. Raises IndexUnavailable; IndexDamaged when the file changed under our hands; ConfigurationError without FTS5."""
    place = "memory" if path is None else str(path)
    with explained(place):
        found = _found(path)
        if found is None:
            remove_file(path)
            found = _connected(path)
            _set_up(found)
        return found if is_ours(found) else _made(found, place)


def _found(path: Path | None) -> sqlite3.Connection | None:
    """The index at the path, or an empty one; None for any other file."""
    db = _connected(path)
    try:
        _set_up(db)
        if is_ours(db) or _is_empty(db):
            return db
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            db.close()
            raise
    close_file(db)
    return None


def remove_file(path: Path | None) -> None:
    """Takes an index away, with all that SQLite may have left beside it. Raises OSError."""
    if path is not None:
        for suffix in ("-journal", "-wal", "-shm", ""):
            Path(f"{path}{suffix}").unlink(missing_ok=True)


def is_ours(db: sqlite3.Connection) -> bool:
    """Whether it has our mark, our version, and exactly our tables."""
    (application,), (version,) = *db.execute("PRAGMA application_id"), *db.execute("PRAGMA user_version")
    if (application, version) != (APPLICATION_ID, VERSION):
        return False
    return tuple(sql for (sql,) in db.execute(_TABLES)) == SCHEMA


def has_secure_delete() -> bool:
    return sqlite3.sqlite_version_info >= SECURE_DELETE_SINCE


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Errors of SQLite and of the file system, in our words."""
    try:
        yield
    except sqlite3.Error as error:
        if _is_damage(error):
            raise IndexDamaged(place, str(error)) from error
        raise IndexUnavailable(place, str(error)) from error
    except OSError as error:
        raise IndexUnavailable(place, error.strerror or str(error)) from error


def close_file(db: sqlite3.Connection) -> None:
    """Also when the file is damaged, about which closing may complain once more."""
    try:
        db.close()
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise


def _connected(path: Path | None) -> sqlite3.Connection:
    if path is not None and not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    name = ":memory:" if path is None else str(path)
    return sqlite3.connect(name, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _set_up(db: sqlite3.Connection) -> None:
    for statement in (
        "PRAGMA trusted_schema=OFF",
        "PRAGMA cell_size_check=ON",
        "PRAGMA temp_store=MEMORY",  # what is sorted stands in no other file
        "PRAGMA secure_delete=ON",
        "PRAGMA synchronous=NORMAL",
        "CREATE TEMP TABLE chosen (id TEXT PRIMARY KEY) WITHOUT ROWID",
    ):
        db.execute(statement)


def _made(db: sqlite3.Connection, place: str) -> sqlite3.Connection:
    try:
        db.execute("BEGIN IMMEDIATE")
        if _is_empty(db):  # else another process was first
            _make(db)
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        db.close()
        if "no such module" in str(error):
            raise ConfigurationError(
                f"search needs SQLite with FTS5, which the sqlite3 module of this Python ({sqlite3.sqlite_version}) is"
                " built without; use a Python whose SQLite has it, as those of Debian, Homebrew, conda and python.org do"
            ) from error
        raise
    if not is_ours(db):
        db.close()
        raise IndexDamaged(place, "it is not an index of this version")
    return db


def _make(db: sqlite3.Connection) -> None:
    for statement in SCHEMA:
        db.execute(statement)
    if has_secure_delete():
        db.execute("INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)")
    db.execute(f"PRAGMA application_id={APPLICATION_ID:d}")
    db.execute(f"PRAGMA user_version={VERSION:d}")


def _is_empty(db: sqlite3.Connection) -> bool:
    ((tables,),) = db.execute("SELECT count(*) FROM sqlite_master")
    return not tables


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGES
