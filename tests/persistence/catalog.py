"""What PostgreSQL says of the tables of one of its schemas, to compare two of them; and connections to one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

import asyncpg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from agentos.testing.postgres import PostgresServer

QUERIES = {
    "columns": """
        select c.relname, c.relkind, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            a.attidentity, pg_get_expr(d.adbin, d.adrelid), l.collname
        from pg_class c
            join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
            left join pg_collation l on l.oid = a.attcollation
        where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'v')""",
    "constraints": """
        select conrelid::regclass::text, contype, pg_get_constraintdef(oid)
        from pg_constraint where connamespace = to_regnamespace($1)""",
    "indexes": """
        select tablename, indexname, replace(indexdef, schemaname || '.', '')
        from pg_indexes where schemaname = $1""",
    "views": "select viewname, definition from pg_views where schemaname = $1",
    "sequences": """
        select sequencename, data_type::text, start_value, increment_by, cycle
        from pg_sequences where schemaname = $1""",
}


async def described(server: PostgresServer, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """By kind of thing. No name of the schema is in it: the search path hides it."""
    connection = await connecting(server, schema)()
    try:
        found = {kind: await connection.fetch(sql, schema) for kind, sql in QUERIES.items()}
    finally:
        await connection.close()
    return {kind: sorted((tuple(row) for row in rows), key=repr) for kind, rows in found.items()}


def connecting(server: PostgresServer, schema: str) -> Callable[[], Awaitable[Any]]:
    """Gives connections that know this schema alone."""

    async def connect() -> Any:
        return await asyncpg.connect(server.url(), server_settings={"search_path": schema})

    return connect


async def make_fresh(server: PostgresServer, schema: str) -> None:
    """From the packaged file."""
    await run(server, f"create schema {schema}")
    script = (resources.files("agentos.persistence") / "postgresql" / "schema.sql").read_text("utf-8")
    await run(server, script, schema)


async def run(server: PostgresServer, script: str, schema: str = "public") -> None:
    connection = await connecting(server, schema)()
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def fetch(server: PostgresServer, sql: str, schema: str = "public") -> list[tuple[Any, ...]]:
    connection = await connecting(server, schema)()
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


@asynccontextmanager
async def synchronous(server: PostgresServer, schema: str) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """A function that runs another one on a connection of SQLAlchemy, in a transaction that is committed in the end."""
    engine = create_async_engine("postgresql+asyncpg://", async_creator=connecting(server, schema), poolclass=NullPool)

    async with engine.begin() as connection:

        async def run_sync(work: Callable[[Connection], Any]) -> Any:
            return await connection.run_sync(work)

        yield run_sync
    await engine.dispose()
