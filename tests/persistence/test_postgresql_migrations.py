"""The schema in PostgreSQL: the packaged file, the sum of the migrations and the tables of SQLAlchemy are one, and a store of
an older version is upgraded wholly or not at all, once, into what SQLite makes of it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agentos.errors import StoreBusy, StoreUnavailable
from agentos.persistence import schema, upgrading
from agentos.persistence.upgrading import run_migrations, upgrade_postgresql, upgrade_sqlite
from agentos.testing.postgres import PostgresServer
from tests.corpus.in_postgresql import place
from tests.corpus.support import STORES
from tests.persistence.catalog import connecting, described, fetch, make_fresh, run, synchronous

NOBODY = "select n, host, pid from writers where false"
EVERYBODY = "select n, host, pid from writers"
VIEWS = ("conversation_turns", "entities", "events", "history", "tool_calls")
numbers = count(1)
Place = Callable[[Path], Awaitable[str]]


@pytest.fixture
def name(postgres: PostgresServer) -> str:
    """Of a schema that there is not yet."""
    return f"migrated_{next(numbers)}"


@pytest.fixture
def placed(postgres: PostgresServer, name: str) -> Place:
    """Puts a store of the corpus into a schema, and gives its name."""

    async def put(path: Path) -> str:
        await place(postgres, name, path)
        return name

    return put


async def upgrade(server: PostgresServer, name: str, living: str = NOBODY) -> None:
    await upgrade_postgresql("postgresql://here/store", connecting(server, name), schema.SCHEMA_VERSION, living)


async def version_of(server: PostgresServer, name: str) -> Any:
    return await fetch(server, "select version from store_version", name)


async def test_all_migrations_from_nothing_lead_to_the_packaged_schema(postgres: PostgresServer, name: str) -> None:
    await make_fresh(postgres, f"{name}_fresh")
    await run(postgres, f"create schema {name}")
    async with synchronous(postgres, name) as run_sync:
        await run_sync(run_migrations)

    assert await described(postgres, name) == await described(postgres, f"{name}_fresh")
    assert await version_of(postgres, name) == [(schema.SCHEMA_VERSION,)]
    assert await version_of(postgres, f"{name}_fresh") == [(schema.SCHEMA_VERSION,)]


async def test_the_packaged_schema_has_the_tables_of_sqlalchemy(postgres: PostgresServer, name: str) -> None:
    await make_fresh(postgres, f"{name}_fresh")
    await run(postgres, f"create schema {name}")
    async with synchronous(postgres, name) as run_sync:
        await run_sync(schema.metadata.create_all)
    packaged, made = await described(postgres, f"{name}_fresh"), await described(postgres, name)

    apart = {"store_version", *VIEWS}
    for kind in packaged:
        assert [row for row in packaged[kind] if row[0] not in apart] == made[kind]
    assert {row[0] for row in packaged["views"]} == set(VIEWS)


async def test_numbers_come_from_the_table_and_are_never_given_twice(postgres: PostgresServer, name: str) -> None:
    await make_fresh(postgres, name)
    insert = "insert into inbox (log, key, kind) values ('log', '{}', 'input') returning n"
    first = await fetch(postgres, insert.format("a"), name)
    await run(postgres, "delete from inbox", name)

    assert await fetch(postgres, insert.format("b"), name) == [(first[0][0] + 1,)]


async def test_text_is_compared_by_its_bytes(postgres: PostgresServer, name: str) -> None:
    await make_fresh(postgres, name)
    await run(
        postgres, "insert into definitions values ('b', '', ''), ('B', '', ''), ('ä', '', ''), ('a', '', '')", name
    )

    rows = await fetch(postgres, "select digest from definitions order by digest", name)
    assert [digest for (digest,) in rows] == ["B", "a", "b", "ä"]


@pytest.mark.parametrize("path", STORES, ids=[path.stem for path in STORES])
async def test_an_older_store_becomes_what_sqlite_makes_of_it(
    postgres: PostgresServer, placed: Place, path: Path, tmp_path: Path
) -> None:
    name = await placed(path)
    await upgrade(postgres, name)
    copy = Path(shutil.copy(path, tmp_path / "store.db"))
    upgrade_sqlite("sqlite:///store.db", str(copy), schema.SCHEMA_VERSION, 1_000)
    db = sqlite3.connect(copy)

    for table in (*schema.metadata.tables, *VIEWS):
        stored = db.execute(f"select * from {table}").fetchall()
        assert sorted(await fetch(postgres, f"select * from {table}", name), key=repr) == sorted(stored, key=repr)
        assert stored or table in ("wakeups", "accounts"), table
    db.close()
    assert await version_of(postgres, name) == [(schema.SCHEMA_VERSION,)]
    await make_fresh(postgres, f"{name}_fresh")
    upgraded, fresh = await described(postgres, name), await described(postgres, f"{name}_fresh")
    assert upgraded == fresh


async def test_a_program_beside_the_store_may_use_alembic_too(postgres: PostgresServer, placed: Place) -> None:
    name = await placed(STORES[0])
    await run(postgres, "create table alembic_version as select 'theirs' as version_num", name)
    await upgrade(postgres, name)

    assert await fetch(postgres, "select version_num from alembic_version", name) == [("theirs",)]
    assert await fetch(postgres, "select to_regclass('store_revision')", name) == [(None,)]


async def test_of_several_that_come_at_once_one_upgrades(
    postgres: PostgresServer, placed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await placed(STORES[0])
    ran: list[Connection] = []

    def counted(connection: Connection) -> None:
        ran.append(connection)
        run_migrations(connection)

    monkeypatch.setattr(upgrading, "run_migrations", counted)
    await asyncio.gather(*(upgrade(postgres, name) for _ in range(4)))

    assert len(ran) == 1
    assert await version_of(postgres, name) == [(schema.SCHEMA_VERSION,)]


async def test_different_stores_are_upgraded_at_once(postgres: PostgresServer, name: str, tmp_path: Path) -> None:
    schemas = [f"{name}_{number}" for number in range(3)]
    for each in schemas:
        await place(postgres, each, STORES[0])
    copy = Path(shutil.copy(STORES[0], tmp_path / "store.db"))
    in_sqlite = asyncio.to_thread(upgrade_sqlite, "sqlite:///store.db", str(copy), schema.SCHEMA_VERSION, 1_000)
    await asyncio.gather(in_sqlite, *(upgrade(postgres, each) for each in schemas))

    assert [await version_of(postgres, each) for each in schemas] == [[(schema.SCHEMA_VERSION,)]] * 3


async def test_an_upgrade_that_breaks_off_leaves_the_store_as_it_was(
    postgres: PostgresServer, placed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await placed(STORES[0])
    before = await described(postgres, name)

    def dying(connection: Connection) -> None:
        run_migrations(connection)
        raise ConnectionResetError("gone in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(upgrading, "run_migrations", dying)
        with pytest.raises(ConnectionResetError):
            await upgrade(postgres, name)
    assert await version_of(postgres, name) == [(1,)]
    assert await described(postgres, name) == before
    await upgrade(postgres, name)
    assert await version_of(postgres, name) == [(schema.SCHEMA_VERSION,)]


async def test_a_store_that_an_older_program_writes_to_is_left_to_it(postgres: PostgresServer, placed: Place) -> None:
    name = await placed(STORES[0])

    with pytest.raises(StoreUnavailable, match="process 1 of localhost has it open with schema version 1; end it"):
        await upgrade(postgres, name, EVERYBODY)
    assert await version_of(postgres, name) == [(1,)]


async def test_a_table_that_somebody_holds_is_waited_for_and_then_named(
    postgres: PostgresServer, placed: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrading, "LOCK_WAIT_S", 0.01)
    name = await placed(STORES[0])
    holder = await connecting(postgres, name)()
    async with holder.transaction():
        await holder.fetch("select count(*) from turns")
        with pytest.raises(StoreBusy, match=r"others held a table of it for more than 0\.01 s"):
            await upgrade(postgres, name)
    await holder.close()

    assert await version_of(postgres, name) == [(1,)]


async def test_an_upgrade_that_is_cancelled_is_over_then_and_has_changed_nothing(
    postgres: PostgresServer, placed: Place
) -> None:
    name = await placed(STORES[0])
    holder = await connecting(postgres, name)()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%tool_calls%'"
    async with holder.transaction():
        await holder.fetch("select count(*) from tool_calls")
        upgrading_ = asyncio.ensure_future(upgrade(postgres, name))
        for _ in range(2_000):
            if await fetch(postgres, waiting) != [(0,)]:
                break
            await asyncio.sleep(0.01)
        upgrading_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upgrading_

        assert await fetch(postgres, waiting) == [(0,)]
    await holder.close()
    assert await version_of(postgres, name) == [(1,)]
    await upgrade(postgres, name)
    assert await version_of(postgres, name) == [(schema.SCHEMA_VERSION,)]


async def test_the_servers_own_word_comes_through(postgres: PostgresServer, placed: Place) -> None:
    import asyncpg

    name = await placed(STORES[0])
    with pytest.raises(asyncpg.UndefinedTableError):
        await upgrade(postgres, name, "select n, host, pid from no_such_table")
