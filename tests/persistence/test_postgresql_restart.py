"""A server that is restarted or killed under load: nothing that was acknowledged is lost, and all goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentos.persistence.base import Verdict
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, changed_soon, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import HARMS, beside, open_store, until

pytestmark = pytest.mark.anyio

STORED = Verdict.STORED
PATIENT = Settings(reconnect_s=60.0, writer_beat_s=0.1)


@pytest.mark.parametrize("harm", HARMS)
async def test_nothing_acknowledged_is_lost_when_the_server_dies_under_load(
    server: PostgresServer, harm: Callable[[PostgresServer], None]
) -> None:
    url = server.new_schema_url()
    async with open_store(url, settings=PATIENT) as (store, writer), open_store(url, settings=PATIENT) as (other, _):
        loads = [_Load(store, writer, str(i)) for i in range(4)]
        tasks = [asyncio.ensure_future(load.run()) for load in loads]
        for _ in range(3):
            before = [load.acknowledged for load in loads]
            await until(lambda then=before: all(load.acknowledged > n + 5 for load, n in zip(loads, then, strict=True)))
            await asyncio.to_thread(harm, server)
        before = [load.acknowledged for load in loads]
        await until(lambda: all(load.acknowledged > n for load, n in zip(loads, before, strict=True)))
        for load in loads:
            load.ended = True
        await asyncio.gather(*tasks)

        for load in loads:
            entries = await other.entries(load.log.id)
            row = await other.log(load.log.id)
            assert [entry.seq for entry in entries] == list(range(1, load.acknowledged + 1))
            assert row is not None
            assert (row.owner, row.epoch, row.digest, entries[-1].digest) == (
                writer,
                1,
                load.log.digest,
                load.log.digest,
            )
        keys = [post.key for post in await other.inbox()]
        assert sorted(keys) == sorted(f"{load.name} {n}" for load in loads for n in range(1, load.acknowledged + 1))


class _Load:
    """Appends to one log, one unit after the other; each brings a post."""

    def __init__(self, store: PostgreSQLStore, writer: int, name: str) -> None:
        self.log, self.name = LogUnits(name, writer), name
        self.acknowledged = 0
        self.ended = False
        self._store = store

    async def run(self) -> None:
        while not self.ended:
            unit = self.log.unit(text="x" * 100, posts=[post_of("log", f"{self.name} {self.acknowledged + 1}")])
            assert await append(self._store, unit) == [STORED]
            self.acknowledged += 1


@pytest.mark.parametrize("harm", HARMS)
async def test_lock_heartbeat_and_ear_come_back_with_the_server(
    server: PostgresServer, harm: Callable[[PostgresServer], None]
) -> None:
    url = server.new_schema_url()
    async with open_store(url, settings=PATIENT) as (store, writer), open_store(url, settings=PATIENT) as (other, heir):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        await asyncio.to_thread(harm, server)
        row = await other.claim(log.id)
        await until(lambda: _holds_its_lock(url, writer))
        await until(lambda: _beats(other, writer))
        told = await changed_soon(store)  # that it may have missed something
        await other.post(post_of(log.id, "k"))

        assert row is None
        assert told
        assert await changed_soon(store)
        assert await append(store, log.unit()) == [STORED]
        assert {row.n: row.alive for row in await store.writers()} == {writer: True, heir: True}


async def _holds_its_lock(url: str, writer: int) -> bool:
    async with beside(url) as connection:
        held = "select count(*) from pg_locks where locktype = 'advisory' and granted and objid = $1::int8::oid"
        return bool(await connection.fetchval(held, writer))


async def _beats(store: PostgreSQLStore, writer: int) -> bool:
    """Twice."""
    first, second = [await _beat_of(store, writer), 0]
    for _ in range(100):
        await asyncio.sleep(0.05)
        second = await _beat_of(store, writer)
        if second > first:
            return True
    return False


async def _beat_of(store: PostgreSQLStore, writer: int) -> int:
    (beat,) = [row.beat_at for row in await store.writers() if row.n == writer]
    return beat or 0


async def test_a_store_that_closes_without_its_server_ends_and_leaves_nothing_running(server: PostgresServer) -> None:
    tasks = asyncio.all_tasks()
    store = PostgreSQLStore(server.new_schema_url())
    await store.open("program")
    await store.query("select 1")
    server.kill()
    await store.close()

    assert asyncio.all_tasks() == tasks


async def test_a_session_that_an_administrator_ends_is_made_anew(server: PostgresServer) -> None:
    url = server.new_schema_url()
    async with open_store(url, settings=PATIENT) as (store, writer), beside(url) as administrator:
        log = LogUnits("a", writer)
        for _ in range(3):
            assert await append(store, log.unit()) == [STORED]
            assert (await store.query("select max(seq) from entries")).rows == [(log.seq,)]
            assert len(await store.logs()) == 1
            ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'agentos'"
            assert await administrator.fetchval(ended) >= 3
        assert await append(store, log.unit()) == [STORED]
        assert [entry.seq for entry in await store.entries(log.id)] == [1, 2, 3, 4]
