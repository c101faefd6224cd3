"""How a store hears that another wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.persistence.postgresql.pool import PAUSE_MAX_S
from agentos.settings import Settings
from agentos.testing.log_units import SALT, LogUnits, append, changed_soon, post_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store, until

pytestmark = pytest.mark.anyio

_POST = "insert into inbox (log, key, kind, salt, body) values ($1, $2, 'input', $3, '{}')"


async def test_what_no_notification_told_of_is_found_by_a_look(postgres: PostgresServer) -> None:
    """As after a writer that died between its commit and its word."""
    url = postgres.new_schema_url()
    async with open_store(url, settings=Settings(change_poll_s=0.05)) as (store, writer), beside(url) as silent:
        log = LogUnits("a", writer)
        await append(store, log.unit(posts=[post_of(log.id, "mine")]))
        await store.post(post_of(log.id, "mine too"))
        await asyncio.sleep(0.3)
        own = store.changed()
        await silent.execute(_POST, log.id, "theirs", SALT)

        assert own is False
        assert await changed_soon(store)
        await asyncio.sleep(0.3)
        assert store.changed() is False


async def test_a_flood_of_writes_is_told_in_few_words(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    words: list[object] = []
    unsynced = f"{url}&durability=relaxed"  # or a slow disk makes it a trickle
    async with open_store(unsynced) as (store, writer), open_store(url), beside(url) as ear:
        await _listen(ear, url, words)
        log = LogUnits("a", writer)
        for _ in range(200):
            await append(store, log.unit())
        await until(lambda: len(words) > 1)

        assert set(words) == {str(writer)}
        assert len(words) < 200


async def test_one_that_is_alone_tells_nobody_until_another_comes(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    words: list[object] = []
    async with open_store(url) as (store, writer), beside(url) as ear:
        await _listen(ear, url, words)
        log = LogUnits("a", writer)
        for _ in range(20):
            await append(store, log.unit())
        await asyncio.sleep(0.2)
        alone = list(words)
        async with open_store(url) as (other, _):
            await until(lambda: words == ["hello"])
            other.changed()

            async def is_told() -> bool:  # once it has heard of the other, which is not when the test has
                await append(store, log.unit())
                return other.changed()

            assert alone == []
            await until(is_told)


async def _listen(ear: Any, url: str, words: list[object]) -> None:
    await ear.add_listener("agentos_" + url.rpartition("schema=")[2], lambda *said: words.append(said[3]))


async def test_the_last_word_is_told_when_the_store_closes(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (ear, _):
        for i in range(5):
            ear.changed()
            async with open_store(url) as (store, writer):
                await append(store, LogUnits(str(i), writer).unit())
            assert await changed_soon(ear)


async def test_an_ear_that_was_cut_off_counts_what_it_may_have_missed_as_a_change(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    beats = Settings(change_poll_s=3_600.0)  # it does nothing else in between
    async with open_store(url, settings=beats) as (store, _), beside(url) as other:
        store.changed()
        ended = (
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where query like '%beat_at%' and application_name = 'agentos'"
        )
        assert await other.fetchval(ended)

        assert await changed_soon(store)
        assert store.changed() is False


async def test_an_ear_that_cannot_come_back_tries_now_and_then(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each try here ends at once."""
    loop, url = asyncio.get_running_loop(), postgres.new_schema_url()
    async with open_store(url, settings=Settings(writer_beat_s=0.01)) as (_, writer), beside(url) as other:
        await other.execute("alter table writers rename to moved")
        started = loop.time()
        await until(lambda: caplog.text.count(f"writer {writer} lost the connection") >= 2)
        await asyncio.sleep(1.0)
        tries, elapsed_s = caplog.text.count(f"writer {writer} lost the connection"), loop.time() - started
        await other.execute("alter table moved rename to writers")

    assert tries < 16 + elapsed_s / (PAUSE_MAX_S / 2)
