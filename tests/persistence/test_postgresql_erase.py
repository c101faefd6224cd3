"""What is left of erased texts on a PostgreSQL server, and what the store says of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agentos.errors import StoreBusy
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.postgresql.upkeep import OWNED
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits
from agentos.testing.postgres import PostgresServer
from tests.persistence.catalog import connecting
from tests.persistence.erase_support import CANARY, bodies, erasing, fill, stored

SETTINGS = Settings(busy_timeout_ms=300)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that cleans nothing up by itself: who does so looks at rows as they were, and holds tables."""
    with PostgresServer(settings={"autovacuum": "off"}) as server:
        yield server


@asynccontextmanager
async def erased(server: PostgresServer, name: str) -> AsyncIterator[tuple[PostgreSQLStore, LogUnits, Any]]:
    """A store with a log of this name that is erased, and a connection of another program that looks at it."""
    url = server.new_schema_url()
    store = PostgreSQLStore(url, settings=SETTINGS)
    other = await connecting(server, parse_qs(urlsplit(url).query)["schema"][0])()
    try:
        log = await fill(store, await store.open("program"), name=name)
        await stored(store, erasing(log))
        yield store, log, other
    finally:
        await other.close()
        await store.close()


async def places(server: PostgresServer, other: Any) -> list[str]:
    """Tables of this store in whose files, as they are on the disk, a word of the texts stands."""
    await other.execute("checkpoint")
    files = await other.fetch(_FILES)
    data = server.folder / "data"
    return [name for name, path in files if CANARY.encode() in (data / path).read_bytes()]


_FILES = """
    select owner.relname, pg_relation_filepath(files.oid)
    from pg_class as owner join pg_class as files on files.oid in (owner.oid, owner.reltoastrelid)
    where owner.relkind = 'r' and owner.relnamespace = current_schema()::regnamespace
"""


async def test_rewritten_tables_have_nothing_of_it_and_vacuumed_ones_are_not_promised_to(
    server: PostgresServer,
) -> None:
    async with erased(server, "vacuumed") as (store, log, other):
        before = await places(server, other)
        is_settled = await store.settle_erased()
        is_gone = await store.compact()
        after = await places(server, other)
        left = await bodies(store, log)
        await stored(store, LogUnits("next", log.owner).unit(text="kept"))

    assert set(before) == {"inbox", "messages", "payloads"}
    assert (is_settled, is_gone) == (False, True)
    assert after == []
    assert left == {None}


async def test_a_view_of_the_rows_as_they_were_keeps_them_and_the_store_says_so(server: PostgresServer) -> None:
    async with erased(server, "viewed") as (store, _, other):
        async with other.transaction(isolation="repeatable_read"):
            await other.fetch("select count(*) from logs")
            while_viewed = await store.compact()
        afterwards = await store.compact()

    assert (while_viewed, afterwards) == (False, True)


async def test_tables_that_others_hold_are_waited_for_up_to_a_limit(server: PostgresServer) -> None:
    async with erased(server, "held") as (store, log, other):
        async with other.transaction():
            await other.execute("lock table messages in access share mode")
            with pytest.raises(StoreBusy):
                await store.compact()
        assert await store.compact()
        assert await bodies(store, log) == {None}


async def test_the_tables_of_another_role_are_not_promised(server: PostgresServer) -> None:
    """VACUUM leaves them out, and only warns."""
    async with erased(server, "owned") as (store, _, other):
        (schema,) = parse_qs(urlsplit(store.url).query)["schema"]
        await other.execute(f"create role reader_of_{schema}; grant usage on schema {schema} to reader_of_{schema}")
        as_owner = await other.fetchval(OWNED)
        await other.execute(f"set role reader_of_{schema}")
        as_other = await other.fetchval(OWNED)
        await other.execute(f"reset role; drop owned by reader_of_{schema}; drop role reader_of_{schema}")

    assert (as_owner, as_other) == (True, False)
