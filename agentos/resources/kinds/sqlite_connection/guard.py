"""What a statement of somebody else may do on a connection: SQLite's own authorizer decides, never a keyword in the text.

SQLite asks the authorizer for each thing that a statement would do, while it compiles it: `WITH x AS (SELECT 1) DELETE`
asks for a delete, VACUUM INTO for an ATTACH, and EXPLAIN for what it explains. What is not allowed is refused before
anything runs.
"""

from __future__ import annotations

import sqlite3
from enum import Enum


class DatabaseAccess(Enum):
    """Whether a toolbox may change its database."""

    READ_ONLY = "read-only"
    READ_WRITE = "read-write"


FTS_MODULES = frozenset({"fts3", "fts4", "fts5", "rtree"})
"""Kinds of virtual tables that may be made; others reach outside the file or write its raw pages."""

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_WRITES = frozenset(
    {
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TRIGGER,
        sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_DROP_VTABLE,
        sqlite3.SQLITE_ALTER_TABLE,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_ANALYZE,
    }
)
_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema"})
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
_RAW_TABLES = frozenset({"sqlite_dbpage"})

_DESCRIBING = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "foreign_key_check",
        "integrity_check",
        "quick_check",
    }
)
"""Pragmas that only describe, whatever their argument."""
_ASKING = frozenset(
    {
        "application_id",
        "user_version",
        "schema_version",
        "data_version",
        "page_count",
        "page_size",
        "freelist_count",
        "encoding",
        "journal_mode",
        "foreign_keys",
        "collation_list",
        "function_list",
        "module_list",
        "pragma_list",
        "compile_options",
    }
)
"""Pragmas that describe as long as they have no argument."""

_WORDS = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "a transaction of its own",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_FUNCTION: "the function",
    sqlite3.SQLITE_READ: "reading",
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_DROP_VTABLE: "DROP of a virtual table",
    sqlite3.SQLITE_CREATE_TABLE: "CREATE TABLE",
    sqlite3.SQLITE_CREATE_INDEX: "CREATE INDEX",
    sqlite3.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_CREATE_VIEW: "CREATE VIEW",
    sqlite3.SQLITE_DROP_TABLE: "DROP TABLE",
    sqlite3.SQLITE_DROP_INDEX: "DROP INDEX",
    sqlite3.SQLITE_DROP_TRIGGER: "DROP TRIGGER",
    sqlite3.SQLITE_DROP_VIEW: "DROP VIEW",
}


class Guard:
    """The authorizer of one connection.

    refused says what the last statement was refused for, wrote whether it may change the database. While own is set, the
    toolbox's own statements pass: BEGIN, COMMIT and the like.
    """

    def __init__(self, access: DatabaseAccess) -> None:
        self.own = False
        self.refused: str | None = None
        self.wrote = False
        self._reads_only = access is DatabaseAccess.READ_ONLY

    def begin(self) -> None:
        """Forgets the statement before."""
        self.refused, self.wrote = None, False

    def authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, source: str | None
    ) -> int:
        """SQLite's question: action on first and second, in a database, from within the view or trigger source."""
        if self.own or self._allowed(action, first or "", second, database):
            return sqlite3.SQLITE_OK
        if self.refused is None:
            self.refused = _what(action, first or "", second, database)
        return sqlite3.SQLITE_DENY

    def _allowed(self, action: int, first: str, second: str | None, database: str | None) -> bool:
        if action == sqlite3.SQLITE_PRAGMA:
            return self._pragma_allowed(first.lower(), second)
        if action in _READS:
            return not (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS)
        if self._reads_only:
            # Asked for whenever a virtual table is read first; a statement that means it gets SQLite's own refusal.
            return action == sqlite3.SQLITE_UPDATE and first in _SCHEMA_TABLES
        return self._write_allowed(action, first, second, database)

    def _write_allowed(self, action: int, first: str, second: str | None, database: str | None) -> bool:
        if action not in _WRITES or database == "temp" or first.lower() in _RAW_TABLES:
            return False
        if action == sqlite3.SQLITE_CREATE_VTABLE and (second or "").lower() not in FTS_MODULES:
            return False
        if first not in _SCHEMA_TABLES:
            self.wrote = True
        return True

    def _pragma_allowed(self, name: str, argument: str | None) -> bool:
        if name in _DESCRIBING or (name in _ASKING and argument is None):
            return True
        if name == "user_version" and not self._reads_only:
            self.wrote = True
            return True
        return False


def _what(action: int, first: str, second: str | None, database: str | None) -> str:
    """What is refused, by its name in SQL."""
    if database == "temp":
        return "a temporary table, view, index or trigger"
    if action == sqlite3.SQLITE_ATTACH:
        return "ATTACH or VACUUM INTO" if first else "VACUUM, or ATTACH of a nameless file"
    word = _WORDS.get(action, f"action {action} of SQLite")
    if action == sqlite3.SQLITE_FUNCTION:
        return f"{word} {second}"
    if action == sqlite3.SQLITE_PRAGMA and second is not None:
        return f"PRAGMA {first.lower()} with a value" if first.lower() in _ASKING else f"PRAGMA {first.lower()}"
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT) or not first:
        return word
    if action == sqlite3.SQLITE_CREATE_VTABLE:
        return f"{word} ... USING {second}"
    if action == sqlite3.SQLITE_ALTER_TABLE:
        return f"{word} {second}"
    return f"{word} {first.lower() if action == sqlite3.SQLITE_PRAGMA else first}"
