"""A person's query: one statement that only reads, within a number of rows, of bytes and of seconds.

It runs in a transaction that may only read and is rolled back in the end. PostgreSQL itself refuses all that changes data
there; functions that reach beyond a transaction (files, locks, settings, other sessions, sleep) are all marked as
volatile in its catalogue, and none that a statement names may be, but for a few that only make a value. What else there
is to read is for the database role to decide.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import asyncpg
from asyncpg.cursor import Cursor

from agentos.errors import QueryRefused
from agentos.persistence.base import Rows
from agentos.persistence.postgresql.faults import STORE_FAULTS, Fault, fault_of
from agentos.persistence.postgresql.placeholders import Token, numbered, tokens
from agentos.persistence.postgresql.pool import RELEASE_S, Connection, Connections, Patience, Session

CHUNK_ROWS, CHUNK_GROWTH = 500, 4
"""How many rows are fetched at a time at most, and how many times more than before: at first, nothing is known of their
size."""
STATEMENT_CHARS_MAX = 100_000
NAME_BYTES_MAX = 63
"""What PostgreSQL keeps of a longer name."""
GRACE_S = 1.0
"""How much later than the server the client itself gives a query up."""

Row = tuple[Any, ...]

_HOW = "a query is one statement that only reads: SELECT, WITH ... SELECT or VALUES over the tables and views"
_BEGINNINGS = frozenset({"select", "with", "values", "table"})
_HARMLESS = frozenset(
    {
        *("array_sample", "array_shuffle", "bernoulli", "gen_random_uuid", "random", "random_normal", "system"),
        *("clock_timestamp", "pg_is_in_recovery", "timeofday", "uuidv4", "uuidv7"),
        *("pg_database_size", "pg_indexes_size", "pg_relation_size", "pg_table_size", "pg_total_relation_size"),
    }
)
"""Volatile functions that only make a value, by chance or from what is there, and the ways of TABLESAMPLE."""
_VOLATILE = "select distinct proname::text from pg_proc where provolatile = 'v'"
_LIMIT = "select set_config('statement_timeout', $1, true)"
_STATEMENT_CLASSES = frozenset(
    {"0A", "20", "21", "22", "23", "2F", "34", "38", "39", "3F", "42", "44", "54", "55", "P0"}
)
_STATEMENT_STATES = frozenset({"25006", "53400"})  # it would write; it needs more temporary space than it may have
_STORE_STATES = frozenset({"55P03"})  # a lock
"""SQLSTATEs of which the statement is the cause; of all others it is the store."""

_WHOLE = frozenset({"int2", "int4", "int8", "oid"})
_FRACTION = frozenset({"float4", "float8"})
_TEXT = frozenset({"text", "varchar", "bpchar", "name", "unknown"})


class Querier:
    """Runs one query after the other, on a connection of its own."""

    def __init__(self, connections: Connections) -> None:
        settings = connections.settings
        self._connections = connections
        self._rows_max, self._limit_s, self._bytes_max = (
            settings.query_rows_max,
            settings.query_s,
            settings.query_bytes_max,
        )
        self._one = asyncio.Lock()
        self._connection: Connection | None = None
        self._volatile: frozenset[str] = frozenset()

    async def run(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Raises QueryRefused, with the reason; StoreError."""
        _check_form(sql)
        async with self._one:
            patience = Patience(self._connections.settings.reconnect_s)
            while True:
                try:
                    connection = await self._connected(patience)
                    check_functions(sql, self._volatile)
                    return await self._within_limit(connection, sql, parameters)
                except STORE_FAULTS as error:
                    self.abandon()
                    self._connections.check_open()
                    if fault_of(error) is not Fault.LOST or not await patience.pause():
                        raise self._connections.unavailable(error, patience) from error

    async def _within_limit(self, connection: Connection, sql: str, parameters: Sequence[object]) -> Rows:
        """A connection on which something went wrong is given up, whatever it was: so is all that it was set to."""
        limit = asyncio.timeout(self._limit_s + GRACE_S)
        started = asyncio.get_running_loop().time()
        try:
            async with limit:
                self._connections.point("fetch")
                return await self._rows(connection, numbered(sql), parameters)
        except BaseException as error:
            await self._give_up()
            over = asyncio.get_running_loop().time() - started >= self._limit_s
            if limit.expired() or (over and isinstance(error, asyncpg.QueryCanceledError)):
                refusal = QueryRefused(f"the query ran longer than {self._limit_s:g} s (query_s) and was stopped")
                raise refusal from error
            if isinstance(error, ValueError) or _is_of_the_statement(error):
                raise QueryRefused(f"{_HOW}; PostgreSQL says: {_said(error)}") from error
            raise

    async def _rows(self, connection: Connection, sql: str, parameters: Sequence[object]) -> Rows:
        await connection.execute("begin transaction read only")
        await connection.fetchval(_LIMIT, f"{self._limit_s * 1000:.0f}ms")
        statement = await connection.prepare(sql)
        columns = tuple(column.name for column in statement.get_attributes())
        if not columns:
            raise QueryRefused(f"{_HOW}; this is none")
        cursor = await statement.cursor(*_values(parameters, statement.get_parameters()))
        rows = await self._fetched(cursor)
        await connection.execute("rollback")
        return Rows(columns, rows)

    async def _fetched(self, cursor: Cursor) -> list[Row]:
        """In parts, none of which is far beyond the bounds if its rows are as large as those before it."""
        rows: list[Row] = []
        size, largest, wanted = 0, 1, 1
        while chunk := [tuple(map(_plain, row)) for row in await cursor.fetch(wanted)]:
            sizes = [sum(len(value) for value in row if isinstance(value, str | bytes)) for row in chunk]
            rows += chunk
            size, largest = size + sum(sizes), max(largest, *sizes)
            self._check_bounds(len(rows), size)
            wanted = min(CHUNK_GROWTH * wanted, CHUNK_ROWS, (self._bytes_max - size) // largest + 1)
        return rows

    def _check_bounds(self, count: int, size: int) -> None:
        if count > self._rows_max:
            raise QueryRefused(f"the query gives more than {self._rows_max} rows (query_rows_max); add a LIMIT")
        if size > self._bytes_max:
            raise QueryRefused(
                f"the query gives more than {self._bytes_max} bytes (query_bytes_max); name fewer columns or add a LIMIT"
            )

    async def _connected(self, patience: Patience) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self.abandon()
            connection = await self._connections.connect(Session.QUERY, patience, checked=True)
            try:
                self._volatile = frozenset(name for (name,) in await connection.fetch(_VOLATILE)) - _HARMLESS
            except BaseException:  # no query runs on a connection without them
                connection.terminate()
                raise
            self._connection = connection
        return self._connection

    async def _give_up(self) -> None:
        """Closes the connection; the server is told first to stop what it still does for it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(RELEASE_S):
                await connection.close()
        except STORE_FAULTS:
            connection.terminate()

    async def close(self) -> None:
        await self._give_up()

    def abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def _check_form(sql: str) -> None:
    """What needs no server to be refused."""
    if len(sql) > STATEMENT_CHARS_MAX:
        raise QueryRefused(f"{_HOW}; this one has more than {STATEMENT_CHARS_MAX} letters")
    if "\0" in sql or (not sql.isascii() and any("\ud800" <= letter <= "\udfff" for letter in sql)):
        raise QueryRefused(f"{_HOW}; a NUL or half of a surrogate pair is no letter of one")
    first = next((token for token in tokens(sql) if token.kind not in ("line", "block")), None)
    if first is None or first.text.lower() not in _BEGINNINGS or sql[: first.start].strip(" \t\r\n\f(").startswith(";"):
        raise QueryRefused(f"{_HOW}; this is none")


def check_functions(sql: str, refused: frozenset[str]) -> None:
    """Raises QueryRefused for a statement that names one of them."""
    for name in _called(sql):
        if name in refused:
            raise QueryRefused(f"{_HOW}; the function {name} may do more than that")


def _called(sql: str) -> Iterator[str]:
    """Names that stand before an opening parenthesis, as PostgreSQL reads them."""
    name, end = None, 0
    for token in (*tokens(sql), Token("word", len(sql), len(sql), "")):
        between = sql[end : token.start].lstrip()
        if name is not None and between.startswith("("):
            yield name
        if token.kind in ("line", "block"):
            name = None if between else name
        else:
            name = _name_of(sql, token)
        end = token.end


def _name_of(sql: str, token: Token) -> str | None:
    if token.kind == "word":
        return _folded(token.text)
    if token.kind != "name":
        return None
    if sql[: token.start].endswith("&"):
        raise QueryRefused(f'{_HOW}; names with escapes (U&"...") are not taken')
    return _cut(token.text[1:-1].replace('""', '"'))


def _folded(word: str) -> str:
    """Only letters of ASCII lose their case."""
    return _cut("".join(letter.lower() if letter.isascii() else letter for letter in word))


def _cut(name: str) -> str:
    return name.encode()[:NAME_BYTES_MAX].decode(errors="ignore")


def _is_of_the_statement(error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None) or ""
    return state in _STATEMENT_STATES or (state[:2] in _STATEMENT_CLASSES and state not in _STORE_STATES)


def _said(error: BaseException) -> str:
    return str(error.args[0]) if error.args else str(error)


def _values(given: Sequence[object], types: Sequence[asyncpg.Type]) -> list[object]:
    """The parameters in the forms that the driver wants for their types; texts that hold numbers are taken as such."""
    if len(given) != len(types):
        raise QueryRefused(f"{_HOW}; this one has {len(types)} question marks, and {len(given)} values came with it")
    return [_value(value, type_.name) for value, type_ in zip(given, types, strict=True)]


def _value(value: object, type_: str) -> object:
    """Raises ValueError."""
    if type_ in _WHOLE and isinstance(value, str):
        return int(value)
    if type_ in _FRACTION and isinstance(value, str):
        return float(value)
    if type_ == "numeric" and isinstance(value, str | int | float):
        try:
            return Decimal(str(value))
        except InvalidOperation as error:
            raise ValueError(f"{value!r} is no number") from error
    if type_ in _TEXT and isinstance(value, int | float):
        return str(int(value) if isinstance(value, bool) else value)
    return value


def _plain(value: Any) -> Any:
    """As SQLite would give it: a number, a text, bytes or None."""
    if value is None or type(value) in (int, float, str, bytes):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
