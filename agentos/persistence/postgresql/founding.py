"""The schema of a store in its database: making it, and knowing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from agentos.errors import StoreDamaged, StoreTooNew, StoreTooOld, StoreUnavailable
from agentos.persistence.postgresql.address import Address
from agentos.persistence.postgresql.pool import Connection

SCHEMA_VERSION = 3
"""That of `schema.sql`."""

_TABLES = """
select count(*) filter (where relname = 'store_version'), count(*)
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1 and relkind in ('r', 'p', 'v', 'm')
"""
_ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended('agentos makes ' || $1, 0))"
_SCHEMA_EXISTS = "select exists (select from pg_namespace where nspname = $1)"


async def found(connection: Connection, address: Address, upgrade: Callable[[], Awaitable[None]]) -> None:
    """Makes the schema when it is absent, and brings an older one up to date. Of those that come at once, one does it.

    Errors: StoreTooNew, StoreDamaged, StoreUnavailable; those of asyncpg.
    """
    version = await _version(connection, address)
    if version == 0:
        async with connection.transaction():
            await connection.execute(_ONE_AT_A_TIME, address.schema)
            version = await _version(connection, address)
            if version == 0:
                await _make(connection, address.schema)
                return
    if version < SCHEMA_VERSION:
        await upgrade()


async def check(connection: Connection, address: Address) -> None:
    """What a reader asks for. Raises StoreUnavailable, StoreTooOld, StoreTooNew, StoreDamaged; errors of asyncpg."""
    version = await _version(connection, address)
    if version == 0:
        reason = (
            f"database {address.database!r} has no schema {address.schema!r} of agentos; it is made when it is opened"
        )
        raise StoreUnavailable(address.url, f"{reason} for writing, as 'agentos run' does")
    if version < SCHEMA_VERSION:
        raise StoreTooOld(address.url, version, SCHEMA_VERSION)


async def _version(connection: Connection, address: Address) -> int:
    """0 when nothing is there."""
    row = await connection.fetchrow(_TABLES, address.schema)
    assert row is not None
    versions, tables = row
    if not tables:
        return 0
    if not versions:
        raise StoreDamaged(
            address.url, f"schema {address.schema!r} holds tables of another program; name one by ?schema="
        )
    found = [int(version) for (version,) in await connection.fetch("select version from store_version")]
    if len(found) != 1:
        raise StoreDamaged(address.url, f"store_version has {len(found)} rows instead of one")
    if found[0] > SCHEMA_VERSION:
        raise StoreTooNew(address.url, found[0], SCHEMA_VERSION)
    return found[0]


async def _make(connection: Connection, schema: str) -> None:
    if not await connection.fetchval(_SCHEMA_EXISTS, schema):
        await connection.execute(f'create schema "{schema}"')  # a name that `Address` has checked, or a word of SQL
    packaged = resources.files("agentos.persistence.postgresql").joinpath("schema.sql")
    await connection.execute(packaged.read_text("utf-8"))
