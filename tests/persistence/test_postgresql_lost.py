"""A connection that is lost: what was under way is settled, nothing is stored twice, and the store goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from agentos.errors import StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import Wire, beside, open_store, until

pytestmark = pytest.mark.anyio
STORED, FENCED, CONFLICT = Verdict.STORED, Verdict.FENCED, Verdict.CONFLICT
SOON, PATIENT = Settings(reconnect_s=0.3), Settings(reconnect_s=60.0)


@pytest.mark.parametrize("before", [True, False], ids=["word lost", "answer lost"])
async def test_a_batch_whose_connection_is_cut_is_stored_once(postgres: PostgresServer, before: bool) -> None:
    async with Wire(postgres.new_schema_url(tcp=True)) as wire, open_store(wire.url) as (store, writer):
        logs = [LogUnits(name, writer) for name in "ab"]
        await append(store, *(log.unit() for log in logs))
        wire.cut_at("the word", before=before)
        verdicts = await append(store, *(log.unit("a", "b", text="the word") for log in logs))

        assert (wire.cuts, verdicts) == (1, [STORED, STORED])
        assert [[entry.seq for entry in await store.entries(log.id)] for log in logs] == [[1, 2, 3]] * 2
        assert await append(store, *(log.unit() for log in logs)) == [STORED, STORED]


@pytest.mark.parametrize("before", [True, False], ids=["word lost", "answer lost"])
async def test_a_log_that_begins_with_a_cut_connection_begins_once(postgres: PostgresServer, before: bool) -> None:
    async with Wire(postgres.new_schema_url(tcp=True)) as wire, open_store(wire.url) as (store, writer):
        log, other = LogUnits("a", writer), LogUnits("b", writer)
        wire.cut_at("the word", before=before)
        posts = [post_of(log.id, "k")]
        verdicts = await append(store, log.unit(text="the word", posts=posts), other.unit())

        assert (wire.cuts, verdicts) == (1, [STORED, STORED])
        assert await store.inbox() == posts
        assert (await store.query("select count(*) from messages")).rows == [(1,)]


@pytest.mark.parametrize("before", [True, False], ids=["word lost", "answer lost"])
async def test_a_commit_that_is_cut_keeps_the_verdicts_of_a_mixed_batch(postgres: PostgresServer, before: bool) -> None:
    async with Wire(postgres.new_schema_url(tcp=True)) as wire, open_store(wire.url) as (store, writer):
        fits, foreign, stale = (LogUnits(name, writer) for name in "abc")
        await append(store, *(log.unit() for log in (fits, foreign, stale)))
        fenced = foreign.unit(epoch=7)
        wire.cut_at("COMMIT", before=before)
        verdicts = await append(store, fits.unit(), fenced, stale.unit(previous=bytes(32)))

        assert (wire.cuts, verdicts) == (1, [STORED, FENCED, CONFLICT])
        assert [len(await store.entries(log.id)) for log in (fits, foreign, stale)] == [2, 1, 1]


async def test_what_another_took_over_meanwhile_is_fenced_unless_it_was_stored(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url(tcp=True)
    async with Wire(url) as wire, open_store(wire.url) as (store, writer), beside(url) as other:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        wire.cut_at("the word", before=True)
        await other.execute("begin; update logs set owner = owner + 1, epoch = epoch + 1")
        appending = asyncio.ensure_future(append(store, log.unit(text="the word")))
        await until(lambda: wire.cuts == 1)
        await other.execute("commit")

        assert await appending == [FENCED]


async def test_what_was_stored_counts_also_when_another_has_gone_on_from_it(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url(tcp=True)
    async with Wire(url) as wire, open_store(wire.url) as (store, writer), open_store(url) as (heir, number):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        unit = log.unit(text="the word")

        async def is_stored() -> bool:
            row = await heir.log(log.id)
            return row is not None and row.seq == unit.seq

        wire.cut_at("the word", done=lambda: until(is_stored), after=wire.be_silent)
        appending = asyncio.ensure_future(append(store, unit))
        await until(lambda: wire.cuts == 1)
        await heir.declare_dead(writer)
        row = await heir.claim(log.id)
        assert row is not None
        assert await append(heir, log.owned(row).unit()) == [STORED]
        wire.be_silent(False)

        assert (row.owner, row.seq) == (number, 2)
        assert await appending == [STORED]
        assert await append(store, unit) == [FENCED]


async def test_a_lock_that_may_be_that_of_the_lost_try_is_waited_for(postgres: PostgresServer) -> None:
    """The server rolls back what it was doing for a client once it misses it, which may take a while."""
    url = postgres.new_schema_url(tcp=True)
    settings = Settings(busy_timeout_ms=50, reconnect_s=60.0)
    async with Wire(url) as wire, open_store(wire.url, settings=settings) as (store, writer), beside(url) as other:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        wire.cut_at("the word", before=True)
        await other.execute("begin; select from logs for update")
        appending = asyncio.ensure_future(append(store, log.unit(text="the word")))
        await until(lambda: wire.cuts == 1)
        await asyncio.sleep(0.3)
        waits = not appending.done()
        await other.execute("rollback")

        assert waits
        assert await appending == [STORED]


@pytest.mark.parametrize("before", [True, False], ids=["word lost", "answer lost"])
async def test_a_post_whose_connection_is_cut_is_made_once_and_known_as_ours(
    postgres: PostgresServer, before: bool
) -> None:
    async with Wire(postgres.new_schema_url(tcp=True)) as wire, open_store(wire.url) as (store, _):
        wire.cut_at("the word", before=before)
        row = post_of("log", "k", "the word")

        assert await store.post(row) is True
        assert wire.cuts == 1
        assert await store.post(row) is False
        assert await store.inbox() == [row]


@pytest.mark.parametrize("step", ["begin", "exec", "commit"])
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_connection_may_be_lost_at_every_step(postgres: PostgresServer, step: str, nth: int) -> None:
    left = {step: nth}

    def point(name: str) -> None:
        left[name] = left.get(name, 0) - 1
        if left[name] == 0:
            raise ConnectionResetError("for a test")

    async with open_store(postgres.new_schema_url(), point=point) as (store, writer):
        log, stale = LogUnits("a", writer), LogUnits("b", writer)
        await append(store, log.unit(), stale.unit())
        verdicts = [await append(store, log.unit(), stale.unit(previous=bytes(32))) for _ in range(3)]

        assert left[step] <= 0
        assert verdicts == [[STORED, CONFLICT]] * 3
        assert [entry.seq for entry in await store.entries(log.id)] == [1, 2, 3, 4]


async def test_a_server_that_stays_away_is_given_up_after_the_limit_and_taken_up_again() -> None:
    with PostgresServer() as server:
        async with open_store(server.new_schema_url(), settings=SOON) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())
            server.kill()
            unit = log.unit()
            uses: list[Callable[[], Awaitable[Any]]] = [
                lambda: append(store, unit),
                lambda: store.post(post_of(log.id, "k")),
                lambda: store.claim(log.id),
                lambda: store.log(log.id),
                lambda: store.query("select 1"),
            ]
            for use in uses:
                with pytest.raises(StoreUnavailable, match=r"no server answers there.*0\.3 s \(reconnect_s\)"):
                    await use()
            server.start()

            assert await append(store, unit) == [STORED]
            assert (await store.query("select seq from logs")).rows == [(2,)]


async def test_an_append_whose_waiter_is_cancelled_is_stored_all_the_same(postgres: PostgresServer) -> None:
    async with open_store(postgres.new_schema_url()) as (store, writer):
        log = LogUnits("a", writer)
        for _ in range(5):
            waiting = asyncio.ensure_future(append(store, log.unit()))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        assert await append(store, log.unit()) == [STORED]
        assert len(await store.entries(log.id)) == 6


@pytest.mark.parametrize("away", [False, True], ids=["server there", "server away"])
async def test_a_cancelled_use_leaves_no_connection_busy(away: bool) -> None:
    with PostgresServer() as server:
        async with open_store(server.new_schema_url(), settings=PATIENT) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())
            async with beside(server.url(schema="store_1")) as other:
                await other.execute("begin; lock table logs, inbox, entries")
                unit = log.unit()
                uses = [append(store, unit), store.post(post_of(log.id, "k")), store.logs(), store.query(_WAITS)]
                tasks = [asyncio.ensure_future(use) for use in uses]
                await asyncio.sleep(0.1)
                if away:
                    server.kill()
                for task in tasks:
                    task.cancel()
                done = await asyncio.gather(*tasks, return_exceptions=True)
                if away:
                    other.terminate()
                    server.start()
                else:
                    await other.execute("rollback")

            assert [type(answer) for answer in done] == [asyncio.CancelledError] * 4
            assert [row.seq for row in await store.logs()] in ([1], [2])
            assert (await store.query(_WAITS)).rows in ([(1,)], [(2,)])
            assert await append(store, log.unit()) == [STORED]
            assert await store.post(post_of(log.id, "k")) is False
            assert [entry.seq for entry in await store.entries(log.id)] == [1, 2, 3]


_WAITS = "select seq from logs"


async def test_a_server_that_is_silent_does_not_hold_a_reader_for_ever(postgres: PostgresServer) -> None:
    settings = Settings(reconnect_s=0.2, statement_s=1.0, connect_s=1.0)
    url = postgres.new_schema_url(tcp=True)
    async with Wire(url) as wire, open_store(wire.url, settings=settings) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        wire.be_silent()
        unit = log.unit()
        uses: list[Callable[[], Awaitable[Any]]] = [store.logs, lambda: append(store, unit)]
        for use in uses:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await use()
        wire.be_silent(False)

        assert await append(store, unit) in ([STORED], [CONFLICT])
        assert (await store.query("select seq from logs")).rows == [(2,)]


async def test_collisions_are_tried_again_and_then_told(postgres: PostgresServer) -> None:
    left = [3]

    def point(name: str) -> None:
        if name == "exec" and left[0]:
            left[0] -= 1
            raise asyncpg.DeadlockDetectedError("for a test")

    async with open_store(postgres.new_schema_url(), point=point) as (store, writer):
        log = LogUnits("a", writer)
        assert await append(store, log.unit()) == [STORED]
        left[0] = 1_000
        with pytest.raises(StoreUnavailable, match="again and again"):
            await append(store, log.unit())


async def test_two_units_that_create_the_same_log_at_the_same_time_make_one(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (first, one), open_store(url) as (second, two):
        for name in map(str, range(20)):
            mine, theirs = LogUnits(name, one), LogUnits(name, two)
            verdicts = await asyncio.gather(append(first, mine.unit("a")), append(second, theirs.unit("b")))

            assert sorted(verdicts, key=str) == [[FENCED], [STORED]]


async def test_batches_of_two_processes_over_the_same_inboxes_come_through(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (first, one), open_store(url) as (second, two):
        stores = {first: one, second: two}
        logs = {store: [LogUnits(f"{n} {i}", n) for i in range(8)] for store, n in stores.items()}
        for store in stores:
            await append(store, *(log.unit() for log in logs[store]))

        async def post_to_all(store: PostgreSQLStore, order: int, turn: int) -> list[Verdict]:
            boxes = [log.id for line in logs.values() for log in line][::order]
            posts = [post_of(box, f"key {turn}") for box in boxes]
            return await append(store, *(log.unit(posts=posts) for log in logs[store]))

        for turn in range(10):
            answers = await asyncio.gather(post_to_all(first, 1, turn), post_to_all(second, -1, turn))
            assert list(answers) == [[STORED] * 8] * 2
        assert len(await first.inbox()) == 16 * 10
