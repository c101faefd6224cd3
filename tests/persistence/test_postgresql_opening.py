"""Opening a store in a database: making its schema once, and refusing what cannot be one."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from agentos.errors import StoreDamaged, StoreError, StoreTooNew, StoreTooOld, StoreUnavailable
from agentos.persistence import schema
from agentos.persistence.base import Durability, Verdict
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.postgresql.founding import SCHEMA_VERSION
from agentos.testing.log_units import LogUnits, append
from agentos.testing.postgres import PostgresServer
from tests.corpus.in_postgresql import place
from tests.corpus.support import STORES
from tests.persistence.postgresql_support import beside, open_store

pytestmark = pytest.mark.anyio


def test_the_version_is_that_of_the_tables() -> None:
    assert schema.SCHEMA_VERSION == SCHEMA_VERSION


async def test_of_many_that_open_an_empty_database_at_once_one_makes_the_schema(postgres: PostgresServer) -> None:
    stores = [PostgreSQLStore(url) for url in [postgres.new_schema_url()] * 8]
    try:
        numbers = await asyncio.gather(*(store.open("program") for store in stores))

        assert sorted(numbers) == list(range(1, 9))
        assert [row.alive for row in await stores[0].writers()] == [True] * 8
    finally:
        for store in stores:
            await store.close()


async def test_a_schema_that_an_administrator_made_is_filled(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with beside(url) as administrator:
        await administrator.execute("create schema " + url.rpartition("schema=")[2])
    async with open_store(url) as (store, writer):
        assert await append(store, LogUnits("a", writer).unit()) == [Verdict.STORED]


@pytest.mark.parametrize("schema", ["user", "order", "all", "_x"])
async def test_a_schema_may_be_named_by_a_word_of_sql(postgres: PostgresServer, schema: str) -> None:
    async with open_store(postgres.url(schema=schema)) as (store, writer):
        assert await append(store, LogUnits("a", writer).unit()) == [Verdict.STORED]
        assert (await store.query(f'select seq from "{schema}".logs')).rows == [(1,)]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    async with beside(postgres.url(schema="public")) as administrator:
        await administrator.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
    for use in (PostgreSQLStore(postgres.url(name)).open("program"), PostgreSQLStore(postgres.url(name)).logs()):
        with pytest.raises(StoreUnavailable, match=f"'{name}' has the encoding {encoding}.*ENCODING 'UTF8'"):
            await use


async def test_a_role_that_may_only_read_is_told_at_once_and_reads(postgres: PostgresServer) -> None:
    url, fresh = postgres.new_schema_url(), postgres.new_schema_url()
    await _made(url)
    async with beside(url) as administrator:
        await administrator.execute("drop role if exists reader; create role reader superuser login")
        await administrator.execute("alter role reader set default_transaction_read_only = on")
    for each in (url, fresh):
        store = PostgreSQLStore(each.replace("postgres@", "reader@"))
        with pytest.raises(StoreUnavailable, match=r"takes no writes.*read-only transaction \(25006\)\)$"):
            await store.open("program")
        if each == url:
            assert await store.logs() == []
            assert (await store.query("select count(*) from logs")).rows == [(0,)]
        await store.close()


async def test_limits_of_a_role_that_are_meant_for_others_do_not_matter(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    limits = ("idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "statement_timeout")
    async with beside(url) as administrator:
        await administrator.execute("drop role if exists limited; create role limited superuser login")
        for limit in limits:
            await administrator.execute(f"alter role limited set {limit} = '77s'")
    async with open_store(url.replace("postgres@", "limited@")) as (store, writer):
        connection = await store._appender._connected(None)  # type: ignore[union-attr, arg-type]
        held = [await connection.fetchval(f"show {limit}") for limit in limits]
        query = await store.query("select setting from pg_settings where name like '%timeout' and setting = '77000'")

        assert held == ["5s", "0", "5s", "0"]
        assert query.rows == []
        assert await append(store, LogUnits("a", writer).unit()) == [Verdict.STORED]


async def test_a_role_that_may_make_no_schema_is_told(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with beside(url) as administrator:
        await administrator.execute("drop role if exists weak; create role weak login")
    with pytest.raises(StoreUnavailable, match="permission denied for database"):
        await PostgreSQLStore(url.replace("postgres@", "weak@")).open("program")


async def test_reads_need_no_writer(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit())
    reader = PostgreSQLStore(url)
    try:
        assert [row.id for row in await reader.logs()] == [log.id]
        assert (await reader.query("select seq from logs")).rows == [(1,)]
        assert [row.alive for row in await reader.writers()] == [False]
        with pytest.raises(StoreUnavailable, match="closed"):
            await append(reader, log.unit())
    finally:
        await reader.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await reader.logs()


async def test_a_reader_makes_no_schema_and_says_who_does(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    reader = PostgreSQLStore(url)
    for read in (reader.logs, lambda: reader.query("select 1")):
        with pytest.raises(StoreUnavailable, match=r"'postgres' has no schema 'store_\d+' of agentos; it is made when"):
            await read()
    await reader.close()
    async with beside(url) as connection:
        assert not await connection.fetchval("select to_regnamespace($1)", url.rpartition("schema=")[2])


async def test_a_newer_store_is_refused_with_both_numbers(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    await _made(url)
    async with beside(url) as other:
        await other.execute("update store_version set version = 99")
    with pytest.raises(StoreTooNew, match="version 99, this program knows up to"):
        await PostgreSQLStore(url).open("program")
    reader = PostgreSQLStore(url)
    with pytest.raises(StoreTooNew):
        await reader.logs()
    await reader.close()


async def test_an_older_store_is_not_read_before_it_is_upgraded(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    await _made(url)
    async with beside(url) as other:
        await other.execute("update store_version set version = 1")
    reader = PostgreSQLStore(url)
    for read in (reader.logs, lambda: reader.query("select 1")):
        with pytest.raises(StoreTooOld, match="version 1, this program reads"):
            await read()
    await reader.close()


@pytest.mark.parametrize("path", STORES, ids=[path.stem for path in STORES])
async def test_an_older_store_is_upgraded_by_the_first_that_writes(postgres: PostgresServer, path: Path) -> None:
    url = postgres.new_schema_url()
    await place(postgres, url.rpartition("schema=")[2], path)
    stores = [PostgreSQLStore(url) for _ in range(3)]
    try:
        await asyncio.gather(*(store.open("program") for store in stores))
        logs = await stores[0].logs()
        row = await stores[0].claim(logs[0].id)

        assert (await stores[1].query("select version from store_version")).rows == [(SCHEMA_VERSION,)]
        assert row is not None
        assert row.epoch == logs[0].epoch + 1
        assert all([await stores[2].entries(log.id) for log in logs])
    finally:
        for store in stores:
            await store.close()


async def test_an_older_store_is_left_to_an_older_program_that_has_it_open(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    await place(postgres, url.rpartition("schema=")[2], STORES[0])
    store = PostgreSQLStore(url)
    async with beside(url) as older:
        await older.execute(
            "insert into writers (n, incarnation, host, pid, started_at, beat_at)"
            " select 99, 'older', 'there', 4711, now, now"
            " from (select (extract(epoch from clock_timestamp()) * 1000000)::int8 as now) as clock"
        )
        await older.execute("select pg_advisory_lock('writers'::regclass::oid::int8 << 32 | 99)")
        with pytest.raises(StoreUnavailable, match="process 4711 of there has it open with schema version 1; end it"):
            await store.open("program")
    async with beside(url) as newer:
        await newer.execute("update writers set ended_at = 1")
    await store.open("program")
    await store.close()


@pytest.mark.parametrize("harm", ["drop table store_version", "delete from store_version"])
async def test_the_tables_of_another_program_are_left_alone(postgres: PostgresServer, harm: str) -> None:
    url = postgres.new_schema_url()
    await _made(url)
    async with beside(url) as other:
        await other.execute(harm)
    for use in (PostgreSQLStore(url).open("program"), PostgreSQLStore(url).logs()):
        with pytest.raises(StoreDamaged, match=r"another program|0 rows instead of one"):
            await use


async def test_a_table_that_is_gone_is_damage(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (store, writer), beside(url) as other:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        await other.execute("drop table entries cascade")
        with pytest.raises(StoreDamaged, match='relation "entries" does not exist'):
            await append(store, log.unit())
        with pytest.raises(StoreDamaged, match="agentos verify"):
            await store.entries(log.id)


async def test_an_opening_that_is_cancelled_leaves_nothing_behind(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    await _made(url)
    tasks = asyncio.all_tasks()
    for delay_s in (0, 0.001, 0.005, 0.01, 0.02, 0.04):
        store = PostgreSQLStore(url)
        opening = asyncio.ensure_future(store.open("program"))
        await asyncio.sleep(delay_s)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        await store.close()
    assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize(
    ("durability", "setting"), [("full", "on"), ("normal", "local"), ("relaxed", "off"), (None, "on")]
)
async def test_durability_is_what_the_server_waits_for(
    postgres: PostgresServer, durability: str | None, setting: str
) -> None:
    given = f"&durability={durability}" if durability else ""
    async with open_store(postgres.new_schema_url() + given) as (store, _):
        connection = await store._appender._connected(None)  # type: ignore[union-attr, arg-type]

        assert await connection.fetchval("show synchronous_commit") == setting
        assert store.durability is (Durability(durability) if durability else Durability.FULL)


async def _made(url: str) -> None:
    async with open_store(url):
        pass


async def test_two_stores_in_one_database_are_apart(postgres: PostgresServer) -> None:
    async with (
        open_store(postgres.new_schema_url()) as (one, first),
        open_store(postgres.new_schema_url()) as (two, second),
    ):
        assert (first, second) == (1, 1)
        await append(one, LogUnits("a", first).unit())
        with pytest.raises(StoreError):
            await two.query("select * from store_1.no_such_table")
        assert await two.logs() == []
