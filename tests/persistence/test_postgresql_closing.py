"""Closing a store: after what is under way, or at once when nobody waits for it; either way nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg
import pytest

from agentos.errors import StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.testing.log_units import LogUnits, append, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store, until

pytestmark = pytest.mark.anyio

NAME = "closing"
DELAYS_S = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)


async def sessions(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """How many sessions the stores of a test have."""
    return int(await connection.fetchval("select count(*) from pg_stat_activity where application_name = $1", NAME))


async def test_what_was_asked_for_before_the_close_is_done_before_the_writer_ends(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    store = PostgreSQLStore(f"{url}&application_name={NAME}")
    writer = await store.open("program")
    log = LogUnits("a", writer)
    await append(store, log.unit())
    async with beside(url) as other:
        await other.execute("begin; select from logs for update")
        futures = [store.append([log.unit()]) for _ in range(3)]
        posting = asyncio.ensure_future(store.post(post_of(log.id, "k")))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0.1)
        early = await other.fetchval("select ended_at from writers"), closing.done()
        await other.execute("rollback")
        await closing

        assert early == (None, False)
        assert [future.result() for future in futures] == [[Verdict.STORED]] * 3
        assert await posting is True
        assert await other.fetchval("select ended_at from writers") is not None
        await until(lambda: _all_gone(other))


async def _all_gone(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    return await sessions(connection) == 0


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_a_close_that_is_cancelled_leaves_no_task_and_no_session(postgres: PostgresServer, busy: bool) -> None:
    url = postgres.new_schema_url()
    async with beside(url) as other:
        tasks = asyncio.all_tasks()
        for delay_s in DELAYS_S:
            store = PostgreSQLStore(f"{url}&application_name={NAME}")
            writer = await store.open("program")
            log = LogUnits(str(writer), writer)
            await append(store, log.unit())
            await asyncio.gather(*(store.logs() for _ in range(3)), store.query("select 1"))
            futures = [store.append([log.unit()]) for _ in range(3)] if busy else []
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(delay_s)
            closing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await closing
            await until(lambda before=tasks: asyncio.all_tasks() == before)
            await until(lambda: _all_gone(other))

            assert all(future.done() for future in futures)
            for future in futures:
                if error := future.exception():
                    assert "before it was known whether this was written" in str(error)


async def test_reads_that_outlast_the_store_end_with_it(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    store = PostgreSQLStore(f"{url}&application_name={NAME}")
    await store.open("program")
    async with beside(url) as other:
        await other.execute("begin; lock table logs")
        uses = [store.logs(), store.query("select seq from logs"), store.query("select seq from logs")]
        reading = [asyncio.ensure_future(use) for use in uses]
        waiting = (
            f"select count(*) from pg_stat_activity where application_name = '{NAME}' and wait_event_type = 'Lock'"
        )

        async def two_wait() -> bool:
            await other.execute("select pg_stat_clear_snapshot()")  # else a transaction sees what it saw first
            return int(await other.fetchval(waiting)) == 2

        await until(two_wait)
        await store.close()
        for read in reading:
            with pytest.raises(StoreUnavailable, match="the store is closed"):
                await read
        await other.execute("rollback")

        await until(lambda: _all_gone(other))


async def test_who_waits_for_a_write_learns_that_the_store_was_closed_meanwhile(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    store = PostgreSQLStore(url)
    writer = await store.open("program")
    log = LogUnits("a", writer)
    await append(store, log.unit())
    async with beside(url) as other:
        await other.execute("begin; select from logs for update")
        future = store.append([log.unit()])
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(StoreUnavailable, match="it was closed before it was known whether this was written"):
            await future
        with pytest.raises(asyncio.CancelledError):
            await closing
        await other.execute("rollback")


async def test_a_store_that_could_not_be_opened_for_writing_is_still_read(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url), beside(url) as other:
        reader = PostgreSQLStore(url)
        await reader.logs()
        await other.execute("alter table writers rename to moved")
        with pytest.raises(Exception, match="writers"):
            await reader.open("program")
        await other.execute("alter table moved rename to writers")

        assert await reader.logs() == []
        await reader.close()
