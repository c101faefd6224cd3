"""What a server refuses, and how it is told: with the limit, and never with a password."""

from __future__ import annotations

import asyncio
import logging
import traceback
from urllib.parse import urlsplit

import asyncpg
import pytest

from agentos.errors import StoreBusy, StoreDamaged, StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store

pytestmark = pytest.mark.anyio

STORED = Verdict.STORED
SECRET = "s3cret-word"


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    store = PostgreSQLStore("postgresql://user@127.0.0.1:1/db")

    with pytest.raises(StoreUnavailable, match=r"postgresql://user@127\.0\.0\.1:1/db: no server answers there"):
        await store.open("program")
    with pytest.raises(StoreUnavailable, match="no server answers there"):
        await store.logs()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://user@no.such.host.invalid/db", "the host is not known"),
        ("postgresql://user@no..host/db", "no host can have such a name"),
        ("postgresql://user@127.0.0.1/db?sslmode=some", ": `sslmode` parameter must be one of"),
    ],
)
async def test_a_url_that_leads_nowhere_is_told(url: str, told: str) -> None:
    with pytest.raises(StoreUnavailable, match=told):
        await PostgreSQLStore(url).open("program")


async def test_a_wrong_password_is_told_without_it(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    place = urlsplit(postgres.url(tcp=True))
    store = PostgreSQLStore(f"postgresql://postgres:{SECRET}@127.0.0.1:{place.port}/postgres")

    with pytest.raises(StoreUnavailable, match="password authentication failed") as refused:
        await store.open("program")
    told = "".join(traceback.format_exception(refused.value)) + caplog.text + repr(store) + repr(vars(store))
    assert SECRET not in told


async def test_a_database_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        await PostgreSQLStore(postgres.url("nowhere")).open("program")


async def test_a_server_without_a_free_connection_is_waited_for_up_to_the_limit() -> None:
    with PostgresServer(max_connections=4, settings={"superuser_reserved_connections": "0"}) as server:
        url = server.new_schema_url()
        async with beside(url) as other:
            await other.execute("create role plain login; grant create on database postgres to plain")
            url = url.replace("postgres@", "plain@")
            impatient = PostgreSQLStore(url, settings=Settings(reconnect_s=0.3))
            async with open_store(url) as (store, writer):
                log = LogUnits("a", writer)
                assert await append(store, log.unit()) == [STORED]
                assert len(await store.logs()) == 1  # the fourth
                with pytest.raises(StoreUnavailable, match=r"max_connections.*0\.3 s \(reconnect_s\)"):
                    await impatient.query("select 1")
                second = PostgreSQLStore(url, settings=Settings(reconnect_s=60.0))
                waiting = asyncio.ensure_future(second.logs())
                await asyncio.sleep(0.1)
                assert not waiting.done()
                assert await append(store, log.unit()) == [STORED]
            assert len(await waiting) == 1
            await second.close()
            await impatient.close()


async def test_readers_wait_for_a_connection_of_the_pool(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url, settings=Settings(pool_connections_max=2, reconnect_s=60.0)) as (store, _):
        assert await asyncio.gather(*(store.logs() for _ in range(50))) == [[]] * 50
    impatient = Settings(pool_connections_max=2, reconnect_s=1.0)
    async with open_store(url, settings=impatient) as (store, _), beside(url) as other:
        await other.execute("begin; lock table logs")
        reads = [asyncio.ensure_future(store.logs()) for _ in range(3)]
        with pytest.raises(StoreBusy, match=r"all 2 connections for reading \(pool_connections_max\)"):
            await reads[2]
        await other.execute("rollback")
        assert await asyncio.gather(*reads[:2]) == [[], []]


async def test_a_lock_that_another_holds_is_waited_for_up_to_the_limit(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url, settings=Settings(busy_timeout_ms=100)) as (store, writer), beside(url) as other:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        unit = log.unit()
        await other.execute("begin; update logs set epoch = epoch")
        for use in (append(store, unit), store.claim(log.id)):
            with pytest.raises(StoreBusy, match="lock timeout"):
                await use
        await other.execute("rollback")

        assert await append(store, unit) == [STORED]


async def test_a_statement_that_the_server_stops_is_told(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (store, writer), beside(url) as other:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        unit = log.unit()
        appender = store._appender
        assert appender is not None
        await appender.run(lambda connection, _: connection.execute("set statement_timeout = '100ms'"))
        await other.execute("begin; update logs set epoch = epoch")
        with pytest.raises(StoreUnavailable, match=r"statement timeout.*statement_timeout"):
            await append(store, unit)
        await other.execute("rollback")
        await appender.run(lambda connection, _: connection.execute("reset statement_timeout"))

        assert await append(store, unit) == [STORED]


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (asyncpg.DiskFullError("could not extend file"), StoreUnavailable, "the disk of the server is full"),
        (asyncpg.OutOfMemoryError("out of memory"), StoreUnavailable, "out of memory"),
        (asyncpg.DataCorruptedError("invalid page in block 3"), StoreDamaged, "invalid page"),
        (asyncpg.LockNotAvailableError("canceling statement"), StoreBusy, "lock_timeout"),
        (asyncpg.InsufficientPrivilegeError("permission denied for table logs"), StoreUnavailable, "permission denied"),
    ],
)
async def test_what_the_server_cannot_do_is_told_and_nothing_is_stored(
    postgres: PostgresServer, fault: asyncpg.PostgresError, kind: type[Exception], told: str
) -> None:
    faults = [fault]
    fault.detail = f"Failing row contains ({SECRET})."

    def point(name: str) -> None:
        if name == "exec" and broken and faults:
            raise faults.pop()

    broken = False
    async with open_store(postgres.new_schema_url(), point=point) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        unit, broken = log.unit(), True
        with pytest.raises(kind, match=told) as raised:
            await append(store, unit)

        assert SECRET not in "".join(traceback.format_exception(raised.value))
        assert await append(store, unit) == [STORED]


async def test_a_full_queue_refuses_and_takes_again(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url, settings=Settings(writer_queue_max=3)) as (store, writer), beside(url) as other:
        logs = [LogUnits(str(i), writer) for i in range(4)]
        await other.execute("begin; lock table logs")
        appends = [asyncio.ensure_future(append(store, log.unit())) for log in logs[:3]]
        await asyncio.sleep(0)
        last = logs[3].unit()
        with pytest.raises(StoreBusy, match="writer_queue_max"):
            await append(store, last)
        await other.execute("rollback")

        assert await asyncio.gather(*appends) == [[STORED]] * 3
        assert await append(store, last) == [STORED]


@pytest.mark.parametrize("key", ["a\0b", "half \ud800", '{"$text":"YQ=="}', "{", ""])
async def test_a_key_may_be_any_text(postgres: PostgresServer, key: str) -> None:
    async with open_store(postgres.new_schema_url()) as (store, writer):
        log, other = LogUnits("a", writer), LogUnits("b", writer)
        await append(store, log.unit(), other.unit(posts=[post_of(log.id, key)]))
        waiting = await store.inbox(log.id)
        again = await store.post(post_of(log.id, key))
        await append(store, log.unit(taken=[key]))

        assert ([row.key for row in waiting], again) == ([key], False)
        assert await store.inbox_seq(log.id, key) == 2
        assert [row.key for row in await store.taken()] == [key]
        assert await store.taken((log.id, key)) == []
