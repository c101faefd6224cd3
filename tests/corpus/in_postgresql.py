"""The stores of the corpus as they would stand in PostgreSQL: the schema of their version, and their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentos.persistence.upgrading import run_migrations
from agentos.testing.postgres import PostgresServer
from tests.persistence.catalog import connecting, run, synchronous


async def place(server: PostgresServer, schema: str, path: Path) -> None:
    """Makes the schema, and in it the store that this file of SQLite holds."""
    version, tables = _contents(path)
    await run(server, f"create schema {schema}")
    async with synchronous(server, schema) as run_sync:
        await run_sync(partial(run_migrations, revision=f"{version:04d}"))
    connection = await connecting(server, schema)()
    try:
        for table, columns, rows in tables:
            await connection.copy_records_to_table(table, columns=columns, records=rows, schema_name=schema)
        for table in ("logs", "inbox", "writers"):
            sql = f"select setval(pg_get_serial_sequence('{table}', 'n'), coalesce(max(n), 0) + 1, false) from {table}"
            await connection.execute(sql)
    finally:
        await connection.close()


def _contents(path: Path) -> tuple[int, list[tuple[str, list[str], Sequence[tuple[Any, ...]]]]]:
    """The version, and of each table its name, its columns and all rows."""
    db = sqlite3.connect(path.as_uri() + "?mode=ro&immutable=1", uri=True)
    try:
        (version,) = db.execute("pragma user_version").fetchone()
        return version, list(_tables(db))
    finally:
        db.close()


def _tables(db: sqlite3.Connection) -> Iterator[tuple[str, list[str], Sequence[tuple[Any, ...]]]]:
    for (table,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall():
        cursor = db.execute(f"select * from {table}")
        yield table, [column[0] for column in cursor.description], cursor.fetchall()
