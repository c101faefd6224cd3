"""One statement in a SQLite toolbox: run in a thread, stopped from the loop, and shown within bounds."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

from agentos.ids import Name
from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess
from agentos.resources.kinds.sqlite_connection.link import Link, SqliteLimits, is_busy
from agentos.toolboxes.base import Failed
from agentos.toolboxes.sqlite.values import SqlValue, shown

_CHUNK_ROWS = 200
_COLUMN_CHARS = 200
_RETRY_S = 0.01
_CANCELLED = "it was cancelled; nothing was changed"
_NONE = "no statement: the text is empty or a comment"


class Query:
    """One call's statement. `run` may be in any thread, `stop` comes from the loop."""

    def __init__(
        self,
        sql: str,
        parameters: Sequence[SqlValue] | dict[str, SqlValue],
        access: DatabaseAccess,
        limits: SqliteLimits,
    ) -> None:
        self.begun = False
        self._sql, self._parameters = sql, parameters
        self._access, self._limits = access, limits
        self._stopped = False
        self._deadline = 0.0
        self._link: Link | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ends the statement as soon as SQLite looks up; one that has not begun never begins."""
        self._stopped = True
        with self._lock:
            if self._link is not None:
                self._link.db.interrupt()

    def run(self, link: Link) -> object:
        """An object of columns, rows and row_count, or Failed. Leaves no transaction open, whatever happens."""
        self._deadline = time.monotonic() + self._limits.time_s
        link.over = self._over
        with self._lock:
            self._link = link
        try:
            return self._patiently(link)
        finally:
            with self._lock:
                self._link = None
            link.over = lambda: False

    def _over(self) -> bool:
        return self._stopped or time.monotonic() >= self._deadline

    def _patiently(self, link: Link) -> object:
        """Tries again from the beginning while another process holds a lock: nothing of a try stays."""
        give_up = time.monotonic() + self._limits.busy_s
        while True:
            try:
                return self._try(link)
            except sqlite3.Error as error:
                if not is_busy(error) or self._over() or time.monotonic() >= give_up:
                    return self._failure(link, error)
            except (sqlite3.Warning, UnicodeError, ValueError, OverflowError) as error:
                return self._failure(link, error)
            time.sleep(random.uniform(0, _RETRY_S))

    def _try(self, link: Link) -> object:
        link.guard.begin()
        before = link.db.total_changes
        try:
            if self._access is DatabaseAccess.READ_WRITE:
                link.own("BEGIN")
            table = self._table(link)
            if link.guard.wrote:
                changed = link.db.total_changes != before
                table["changes"] = link.own("SELECT changes()").fetchone()[0] if changed else 0
            if self._stopped:
                return Failed(Name("limit"), _CANCELLED)
            if link.db.in_transaction:
                link.own("COMMIT")
            return table
        finally:
            link.roll_back()

    def _table(self, link: Link) -> dict[str, Any]:
        cursor = link.db.execute(self._sql, self._parameters)
        try:
            if cursor.description is None:
                if not link.guard.wrote:
                    raise ValueError(_NONE)
                return {"columns": [], "rows": [], "row_count": 0}
            table = _Table([str(column[0])[:_COLUMN_CHARS] for column in cursor.description], self._limits)
            self._fill(table, cursor, link)
            return table.shown()
        finally:
            cursor.close()

    def _fill(self, table: _Table, cursor: sqlite3.Cursor, link: Link) -> None:
        try:
            while table.wants_more and (rows := cursor.fetchmany(_CHUNK_ROWS)):
                table.add(rows)
        except sqlite3.OperationalError as error:
            timed_out = _code(error) == sqlite3.SQLITE_INTERRUPT and not self._stopped
            if not timed_out or link.guard.wrote:
                raise
            table.end(f"time_s: it was stopped after {self._limits.time_s:g} s")
        else:
            table.end(None)

    def _failure(self, link: Link, error: Exception) -> Failed:
        if link.guard.refused is not None:
            return Failed(Name("refused"), f"{link.guard.refused} is refused here; {_HOW[self._access]}")
        if _code(error) == sqlite3.SQLITE_INTERRUPT:
            too_long = f"it ran longer than {self._limits.time_s:g} s (time_s) and was stopped; nothing was changed"
            return Failed(Name("limit"), _CANCELLED if self._stopped else too_long)
        if isinstance(error, sqlite3.Error) and is_busy(error):
            return Failed(
                Name("busy"),
                f"another process held a lock on the database longer than {self._limits.busy_s:g} s (busy_s); "
                "nothing was changed",
            )
        if "one statement at a time" in str(error):
            return Failed(Name("refused"), f"a second statement is refused here; {_HOW[self._access]}")
        return Failed(Name("sql"), self._explained(error))

    def _explained(self, error: Exception) -> str:
        """SQLite's words, and for its own bounds the name of ours."""
        bounds = {
            sqlite3.SQLITE_TOOBIG: f"value_bytes {self._limits.value_bytes}, sql_bytes {self._limits.sql_bytes}",
            sqlite3.SQLITE_FULL: f"database_bytes {self._limits.database_bytes}, if the disk is not full",
        }
        bound = bounds.get(_code(error))
        if isinstance(error, sqlite3.DataError) and bound is None:
            bound = f"sql_bytes {self._limits.sql_bytes}"
        return f"{error} (limits: {bound})" if bound is not None else str(error)


_HOW = {
    DatabaseAccess.READ_ONLY: (
        "this database is read-only: one SELECT, WITH ... SELECT, VALUES, EXPLAIN or a PRAGMA that describes"
    ),
    DatabaseAccess.READ_WRITE: (
        "a call is one statement on this database alone, and a transaction of its own; nothing temporary outlives it"
    ),
}


class _Table:
    """Takes rows and keeps those that fit."""

    def __init__(self, columns: list[str], limits: SqliteLimits) -> None:
        self._columns, self._limits = columns, limits
        self._rows: list[list[Any]] = []
        self._chars = len(json.dumps(columns, ensure_ascii=False))
        self._count = 0
        self._full: str | None = None
        self._ended_by: str | None = None
        self._whole = False
        self.wants_more = True

    def add(self, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            self._count += 1
            if self._full is None:
                self._keep(row)
        self.wants_more = self._full is None or self._count < self._limits.count_max

    def end(self, why: str | None) -> None:
        self._ended_by = why
        self._whole = why is None and self.wants_more

    def shown(self) -> dict[str, Any]:
        table: dict[str, Any] = {"columns": self._columns, "rows": self._rows}
        table["row_count"] = self._count if self._whole else None
        if self._full is not None or self._ended_by is not None:
            table["truncated"] = self._truncated()
        return table

    def _truncated(self) -> str:
        of = f"{self._count:,}" if self._whole else f"at least {self._count:,}"
        why = "; ".join(part for part in (self._full, self._ended_by) if part is not None)
        return f"only the first {len(self._rows):,} of {of} rows are shown ({why}); add WHERE or LIMIT"

    def _keep(self, row: Sequence[object]) -> None:
        if len(self._rows) == self._limits.rows_max:
            self._full = f"rows_max {self._limits.rows_max:,}"
            return
        values = [shown(value, self._limits.text_chars) for value in row]
        chars = _chars(values)
        room = self._limits.result_chars - self._chars
        if chars > room and not self._rows:  # at least one row is shown, with what of its texts fits
            share = max(100, room // (2 * len(row)))
            values = [shown(value, min(share, self._limits.text_chars)) for value in row]
            chars = _chars(values)
        elif chars > room:
            self._full = f"result_chars {self._limits.result_chars:,}"
            return
        self._rows.append(values)
        self._chars += chars


def _chars(values: list[Any]) -> int:
    return len(json.dumps(values, ensure_ascii=False)) + 2


def _code(error: Exception) -> int:
    """SQLite's primary code of an error; 0 when it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
