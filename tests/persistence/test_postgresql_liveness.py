"""Which writers count as dead, and what that lets others do."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from agentos.persistence.base import Verdict
from agentos.persistence.postgresql import PostgreSQLStore, liveness
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store, until

pytestmark = pytest.mark.anyio

STORED, FENCED = Verdict.STORED, Verdict.FENCED
FROZEN = Settings(writer_beat_s=3_600.0)
QUICK = Settings(writer_dead_s=1.0)
US = 1_000_000


async def test_the_logs_of_a_writer_that_vanished_are_free_at_once(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    tasks = asyncio.all_tasks()
    store = PostgreSQLStore(url)
    writer = await store.open("program")
    log = LogUnits("a", writer)
    await append(store, log.unit())
    async with open_store(url) as (heir, number):
        before = await heir.claim(log.id)
        store.abandon()
        await until(lambda: _is_claimed(heir, log))
        row = await heir.log(log.id)

        assert before is None
        assert row is not None
        assert (row.owner, row.epoch) == (number, 2)
        assert await append(heir, log.owned(row).unit()) == [STORED]
        (dead,) = [row for row in await heir.writers() if row.n == writer]
        assert (dead.alive, dead.ended_at) == (False, None)
    assert asyncio.all_tasks() == tasks


async def _is_claimed(store: PostgreSQLStore, log: LogUnits) -> bool:
    return await store.claim(log.id) is not None


@pytest.mark.parametrize(
    "beat_at", [-16 * US, 16 * US], ids=["in the past", "in the future, by a clock that was set back"]
)
async def test_a_writer_that_is_silent_is_dead_though_its_lock_is_held_and_is_fenced_when_it_wakes(
    postgres: PostgresServer, beat_at: int
) -> None:
    url = postgres.new_schema_url()
    zombie, heir = PostgreSQLStore(url, settings=FROZEN), PostgreSQLStore(url, settings=QUICK)
    async with beside(url) as clock:
        writer = await zombie.open("program")
        await heir.open("program")
        taken, kept = LogUnits("taken", writer), LogUnits("kept", writer)
        await append(zombie, taken.unit(), kept.unit())
        await clock.execute("update writers set beat_at = beat_at + $1 where n = $2", beat_at, writer)
        await until(lambda: _has_run(clock, QUICK.writer_dead_s))
        alive = {row.n: row.alive for row in await heir.writers()}
        row = await heir.claim(taken.id)

        assert alive[writer] is False
        assert row is not None
        assert await append(zombie, taken.unit(), kept.unit()) == [FENCED, STORED]
    await zombie.close()
    await heir.close()


async def _has_run(clock: asyncpg.Connection[asyncpg.Record], seconds: float) -> bool:
    """Whether the server has been there for so long."""
    age = "select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8"
    return bool(await clock.fetchval(age) > seconds)


async def test_a_writer_that_beats_again_keeps_what_nobody_claimed(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    lively = Settings(writer_beat_s=0.05)
    async with open_store(url, settings=lively) as (store, writer), open_store(url) as (heir, _), beside(url) as clock:
        log = LogUnits("a", writer)
        await append(store, log.unit())
        await clock.execute("update writers set beat_at = beat_at - $1 where n = $2", 16 * US, writer)
        await until(lambda: _is_alive(heir, writer))

        assert await heir.claim(log.id) is None
        assert await append(store, log.unit()) == [STORED]


async def _is_alive(store: PostgreSQLStore, writer: int) -> bool:
    return any(row.n == writer and row.alive for row in await store.writers())


@pytest.mark.parametrize(
    ("began", "silence_s", "free"),
    [
        ("before the server", 0, False),
        ("before the server", 3_300, False),
        ("before the server", liveness.GONE_S + 1, True),
        ("after the server", 0, True),
    ],
)
async def test_who_was_not_heard_of_since_the_server_came_back_has_time_to_do_so(
    postgres: PostgresServer, began: str, silence_s: int, free: bool
) -> None:
    """A server that was away heard no beat, and the lock of a writer from before is free until it is back too."""
    url = postgres.new_schema_url()
    long = Settings(writer_dead_s=3_000.0)  # longer than the server has been there
    async with open_store(url, settings=long) as (heir, _), beside(url) as clock:
        started = 1 if began == "before the server" else 2**52  # long before, and long after
        absent = await clock.fetchval(
            "insert into writers (incarnation, host, pid, started_at, beat_at) values ('absent', '', 1, $1, $2)"
            " returning n",
            started,
            await clock.fetchval("select (extract(epoch from clock_timestamp()) * 1000000)::int8") - silence_s * US,
        )
        log = LogUnits("a", absent)
        await append(heir, log.unit())

        assert ((await heir.claim(log.id)) is not None) is free


async def test_those_that_are_gone_for_good_are_marked_when_another_opens(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    store = PostgreSQLStore(url)
    gone = await store.open("program")
    store.abandon()
    async with open_store(url, settings=FROZEN) as (_, frozen), beside(url) as clock:
        await until(lambda: _unlocked(url, gone))
        await until(lambda: _has_run(clock, QUICK.writer_dead_s))
        await clock.execute("update writers set beat_at = beat_at - $1", 16 * US)
        async with open_store(url, settings=QUICK) as (heir, _):
            for_a_while = {row.n: (row.alive, row.ended_at) for row in await heir.writers()}[gone]
        await clock.execute("update writers set beat_at = beat_at - $1", liveness.GONE_S * US)
        async with open_store(url, settings=QUICK) as (heir, number):
            ended = {row.n: row.ended_at is not None for row in await heir.writers()}

        assert for_a_while == (False, None)
        assert (ended[gone], ended[frozen], ended[number]) == (True, False, False)


async def _unlocked(url: str, writer: int) -> bool:
    async with beside(url) as connection:
        held = "select count(*) from pg_locks where locktype = 'advisory' and classid = 'writers'::regclass::oid"
        return not await connection.fetchval(held + " and objid = $1::int8::oid", writer)


async def test_one_that_was_declared_dead_is_told_so_and_goes_on_with_what_it_has(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.new_schema_url()
    lively = Settings(writer_beat_s=0.05)
    async with open_store(url, settings=lively) as (store, writer), open_store(url) as (other, _):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        await other.declare_dead(writer)
        await until(lambda: "was declared dead" in caplog.text)
        beat = await _beat_of(store, writer)
        await asyncio.sleep(0.3)

        assert caplog.text.count("was declared dead") == 1  # though it goes on to look
        assert await _beat_of(store, writer) == beat
        assert await append(store, log.unit()) == [STORED]
        assert [row.alive for row in await other.writers() if row.n == writer] == [False]


async def _beat_of(store: PostgreSQLStore, writer: int) -> int | None:
    return next(row.beat_at for row in await store.writers() if row.n == writer)


async def test_writers_of_two_schemas_do_not_know_each_other(postgres: PostgresServer) -> None:
    async with open_store(postgres.new_schema_url()) as (one, first), open_store(postgres.new_schema_url()) as (two, _):
        log = LogUnits("a", first)
        await append(one, log.unit(posts=[post_of(log.id, "k")]))
        one.changed()
        await two.post(post_of(log.id, "theirs"))

        assert await two.log(log.id) is None
        assert [row.key for row in await one.inbox()] == ["k"]
        assert len(await one.writers()) == len(await two.writers()) == 1
        assert one.changed() is False
