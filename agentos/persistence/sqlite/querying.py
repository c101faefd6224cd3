"""A person's query: one statement that only reads, within a number of rows, of bytes and of seconds."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from agentos.errors import QueryRefused, StoreError
from agentos.persistence.base import Rows
from agentos.persistence.sqlite.file import no_text
from agentos.persistence.sqlite.reader import Reader
from agentos.settings import Settings

if TYPE_CHECKING:
    import aiosqlite

LIKE_PATTERN_MAX = 1_000
EXPRESSION_DEPTH_MAX = 200
CHUNK_ROWS = 500

_LENGTH_MAX = 1_000_000_000
"""SQLite's own bound of one value."""

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
_FAULTS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)
"""Errors of the store; all others are the statement's."""
_SIZED = frozenset({str, bytes})
_HOW = "a query is one statement that only reads: SELECT, WITH ... SELECT or VALUES over the tables and views"


class Querier:
    """Runs one query after the other, on a connection of its own.

    `before` gets that connection ahead of each query, may write, and has it alone.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[], sqlite3.Connection],
        rows_max: int,
        limit_s: float,
        before: Callable[[sqlite3.Connection], Awaitable[None]] | None = None,
        *,
        bytes_max: int = Settings().query_bytes_max,
        explain: Callable[[sqlite3.Error], StoreError] | None = None,
    ) -> None:
        self.reader = Reader(url, lambda: bound(connect(), bytes_max), explain)
        self._rows_max, self._limit_s, self._before = rows_max, limit_s, before
        self._bytes_max = bytes_max
        self._one = asyncio.Lock()

    async def run(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Raises QueryRefused, with the reason; StoreUnavailable."""
        async with self._one:
            db = await self.reader.connection()
            limit = _TimeLimit(self.reader.interrupt, self._limit_s)
            try:
                await self._prepare(db)
                with limit:
                    return await self._rows(db, sql, parameters, limit)
            except asyncio.CancelledError:
                self.reader.interrupt()
                raise
            except sqlite3.Error as error:
                raise self._refusal(error, limit) from error
            except (sqlite3.Warning, ValueError, TypeError, OverflowError) as error:
                self.reader.check_open(db)
                raise QueryRefused(f"{_HOW}; {error}") from error

    async def _prepare(self, db: aiosqlite.Connection) -> None:
        """Waits until a query that was cancelled is off the connection, then lets `before` have it."""
        await db.commit()  # ends nothing
        raw = self.reader.raw
        if self._before is None or raw is None:
            return
        raw.set_authorizer(None)
        length = raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH_MAX)
        try:
            await self._before(raw)
        finally:
            raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
            raw.set_authorizer(allow_reads)

    async def _rows(self, db: aiosqlite.Connection, sql: str, parameters: Sequence[object], limit: _TimeLimit) -> Rows:
        cursor = await db.execute(sql, parameters)
        try:
            if cursor.description is None:
                raise QueryRefused(f"{_HOW}; this is none")
            columns = tuple(column[0] for column in cursor.description)
            rows: list[tuple[Any, ...]] = []
            size = 0
            while chunk := cast(list[tuple[Any, ...]], await cursor.fetchmany(CHUNK_ROWS)):
                rows += chunk
                size += _size(chunk)
                self._check_bounds(len(rows), size, limit)
            return Rows(columns, rows)
        except asyncio.CancelledError:
            self.reader.interrupt()  # first, since the cursor closes only after what it does now
            raise
        finally:
            await cursor.close()

    def _check_bounds(self, count: int, size: int, limit: _TimeLimit) -> None:
        if count > self._rows_max:
            raise QueryRefused(f"the query gives more than {self._rows_max} rows (query_rows_max); add a LIMIT")
        if size > self._bytes_max:
            raise QueryRefused(self._too_large())
        if limit.over:
            raise QueryRefused(self._too_long())

    def _refusal(self, error: sqlite3.Error, limit: _TimeLimit) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT and limit.over:
            return QueryRefused(self._too_long())
        if code == sqlite3.SQLITE_TOOBIG:
            return QueryRefused(self._too_large())
        if code in _FAULTS or no_text(error) is not None:
            return self.reader.explain(error)
        return QueryRefused(f"{_HOW}; SQLite says: {error}")

    def _too_large(self) -> str:
        return f"the query gives more than {self._bytes_max} bytes (query_bytes_max); name fewer columns or add a LIMIT"

    def _too_long(self) -> str:
        return f"the query ran longer than {self._limit_s:g} s (query_s) and was stopped"


def _size(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many letters and bytes there are. Column by column: few have values of several types, so that few are looked at
    one by one."""
    size = 0
    for column in zip(*rows, strict=True):
        types = set(map(type, column))
        if types <= _SIZED:
            size += sum(map(len, column))
        elif types & _SIZED:
            size += sum(len(value) for value in column if type(value) in _SIZED)
    return size


def bound(db: sqlite3.Connection, bytes_max: int) -> sqlite3.Connection:
    """Bounds what a statement on the connection may do and hold."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, bytes_max)
    db.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LIKE_PATTERN_MAX)
    db.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, EXPRESSION_DEPTH_MAX)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.set_authorizer(allow_reads)
    return db


def allow_reads(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    """SQLite's authorizer: reading, and functions that only compute."""
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


class _TimeLimit:
    """Interrupts when the time is over, and again until the statement has felt it."""

    AGAIN_S = 0.05

    def __init__(self, interrupt: Callable[[], None], limit_s: float) -> None:
        self.over = False
        self._interrupt, self._limit_s = interrupt, limit_s

    def __enter__(self) -> _TimeLimit:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._limit_s, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _stop(self) -> None:
        self.over = True
        self._interrupt()
        self._timer = self._loop.call_later(self.AGAIN_S, self._stop)
