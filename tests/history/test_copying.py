"""A copy holds what its source holds, with equal heads, and goes on as the source would have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from agentos.definitions import AgentSpec
from agentos.errors import CopyRefused, StoreUnavailable
from agentos.history import Identical, copy_store, heads_digest, verify_store
from agentos.history.copy.store import Progress
from agentos.ids import LogId
from agentos.kernel import Kernel
from agentos.persistence import open_store
from agentos.persistence.base import Store, Unit, Verdict, WakeupRow
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.postgres import PostgresServer
from tests.history.copy_support import Left, goes_on, whole
from tests.history.support import Desk, assert_history_holds, office, replayed


async def test_a_copy_holds_all_that_the_source_holds(left: Left, make: Callable[[str], Store]) -> None:
    copied = await copy_store(left.store, make("copy"))
    found = make("copy")

    expected = await whole(left.store)
    assert await whole(found) == expected
    assert all(expected.values()), "the source has something of everything"
    assert copied.heads == await heads_digest(found) == await heads_digest(left.store)
    assert copied.logs == len(expected["logs"])
    assert {row.owner for row in await found.logs()} == {0}
    await assert_history_holds(found)
    await found.close()


async def test_tables_of_a_copy_are_those_of_the_source(left: Left, make: Callable[[str], Store]) -> None:
    await copy_store(left.store, make("copy"))
    found = make("copy")

    for sql in TABLES:
        expected = (await left.store.query(sql)).rows
        assert expected, sql
        assert (await found.query(sql)).rows == expected, sql
    await found.close()


async def test_open_turns_and_approvals_go_on_in_the_copy(left: Left, make: Callable[[str], Store], desk: Desk) -> None:
    await copy_store(left.store, make("copy"))
    found = await goes_on(make("copy"), desk, left)
    expected = await goes_on(make("source"), desk, left)

    assert found == expected
    assert {found[left.parked], found[left.running], found[left.settled]} == {"completed"}
    assert desk.notes.count("later") == 2  # once in each
    await assert_history_holds(make("copy"))


async def test_it_goes_through_every_kind_of_store_and_back(
    left: Left, tmp_path: Path, postgres: PostgresServer, desk: Desk
) -> None:
    """Four equal digests, and whatever kind it stands in, it is whole, and goes on."""
    urls = [
        postgres.new_schema_url(),
        f"file:{tmp_path / 'folder'}",
        f"sqlite:///{tmp_path / 'back.db'}",
    ]
    expected = await whole(left.store)
    heads = [await heads_digest(left.store)]
    before = left.store
    for url in urls:
        copied = await copy_store(before, open_store(url))
        found = open_store(url)
        heads.append(copied.heads)
        assert await whole(found) == expected, url
        assert copied.heads == await heads_digest(found)
        await assert_history_holds(found)
        if before is not left.store:
            await before.close()
        before = found
    await before.close()
    outcomes = [await goes_on(open_store(url), desk, left) for url in urls]
    for url in urls:
        await assert_whole_again(url)

    assert len(set(heads)) == 1
    assert {outcome[id_] for outcome in outcomes for id_ in (left.parked, left.running)} == {"completed"}


async def assert_whole_again(url: str) -> None:
    store = open_store(url)
    try:
        await assert_history_holds(store)
    finally:
        await store.close()


async def test_it_goes_through_memory_too(left: Left, make: Callable[[str], Store]) -> None:
    memory = MemoryStore()
    there = await copy_store(left.store, memory)
    back = await copy_store(memory, make("back"))
    found = make("back")

    assert there.heads == back.heads == await heads_digest(found)
    assert await whole(found) == await whole(left.store) == await whole(memory)
    await assert_history_holds(memory)
    await assert_history_holds(found)
    for store in (memory, found):
        await store.close()


async def test_writers_of_a_copy_have_numbers_that_no_entry_names(left: Left, make: Callable[[str], Store]) -> None:
    await copy_store(left.store, make("copy"))
    known = {row.n for row in await left.store.writers()}
    found = make("copy")
    new = await found.open("the next")

    assert new > max(known)
    await found.close()


async def test_what_was_erased_stays_erased_in_every_kind_of_store(
    left: Left, tmp_path: Path, postgres: PostgresServer
) -> None:
    async with Kernel(f"sqlite:///{tmp_path / 'source.db'}") as kernel:
        await kernel.install(AgentSpec(slug="talker"))
        conversation = await kernel.start("talker")
        await conversation.ask("help")
        fork = await kernel.fork(conversation.id)
        await fork.ask("help, again")
        alone = await kernel.fork(conversation.id)
        await alone.ask("help, once more")
        await kernel.erase(alone.id)
        await kernel.erase(conversation.id, forks=True)
    expected = await whole(left.store)
    for url in (
        postgres.new_schema_url(),
        f"file:{tmp_path / 'folder'}",
        f"sqlite:///{tmp_path / 'copy.db'}",
        "memory:",
    ):
        destination = open_store(url)
        copied = await copy_store(left.store, destination)
        found = destination if url == "memory:" else open_store(url)
        results = await replayed(found)

        assert await whole(found) == expected, url
        assert copied.heads == await heads_digest(found)
        assert (await verify_store(found)).ok
        assert all(isinstance(result, Identical) for result in results)
        erased = {row.id for row in await found.logs() if row.erased_at is not None}
        assert erased == {LogId(one.id) for one in (conversation, fork, alone)}
        await found.close()


def full_after(store: Store, batches: int) -> Store:
    """The store, whose disk is full after some batches."""
    append, left = store.append, count(batches, -1)

    def failing(units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        if next(left) <= 0:
            raise StoreUnavailable(store.url, "the disk is full")
        return append(units)

    store.append = failing  # type: ignore[method-assign]
    return store


@pytest.mark.parametrize("batches", [1, 2, 5, 9, 14])
async def test_a_copy_that_was_cut_short_goes_on(
    left: Left, durable_url: str, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr("agentos.history.copy.batches.BATCH_UNITS", 3)
    monkeypatch.setattr("agentos.history.copy.batches.PAGE_DEFINITIONS", 1)
    with pytest.raises(StoreUnavailable, match="full"):
        await copy_store(left.store, full_after(open_store(durable_url), batches))
    part = open_store(durable_url)
    begun = sum(row.seq for row in await part.logs())
    await part.close()
    first = await copy_store(left.store, open_store(durable_url))
    second = await copy_store(left.store, open_store(durable_url))
    found = open_store(durable_url)

    assert begun
    assert await whole(found) == await whole(left.store)
    assert first.entries > second.entries == 0
    assert first.heads == second.heads
    await assert_history_holds(found)
    await found.close()


async def test_a_copy_that_was_cut_short_takes_what_came_since(
    left: Left, durable_url: str, make: Callable[[str], Store], desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.history.copy.batches.BATCH_UNITS", 3)
    with pytest.raises(StoreUnavailable):
        await copy_store(left.store, full_after(open_store(durable_url), 14))
    await goes_on(make("source"), desk, left)
    await copy_store(left.store, open_store(durable_url))
    found, source = open_store(durable_url), make("source")

    ours, theirs = await whole(found), await whole(source)
    assert [row[0] for row in ours.pop("logs")] == [row[0] for row in theirs.pop("logs")]  # type: ignore[index]
    assert ours == theirs
    await assert_history_holds(found)
    for store in (found, source):
        await store.close()


async def test_long_logs_are_read_in_parts(
    left: Left, make: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.history.copy.source.HELD_BYTES", 5_000)
    monkeypatch.setattr("agentos.history.copy.source.FEW_KEYS", 1)
    monkeypatch.setattr("agentos.history.copy.source.PAGE_KEYS", 1)
    monkeypatch.setattr("agentos.history.copy.batches.BATCH_BYTES", 1)
    monkeypatch.setattr("agentos.history.reading.PAGE_ENTRIES", 7)
    await copy_store(left.store, make("copy"))
    found = make("copy")

    assert await whole(found) == await whole(left.store)
    await found.close()


async def test_progress_is_told_log_by_log(left: Left) -> None:
    told: list[Progress] = []
    copied = await copy_store(left.store, MemoryStore(), tell=told.append)

    assert [one.logs for one in told] == list(range(1, copied.logs + 1))
    assert {one.all_logs for one in told} == {copied.logs}


class Moving(SQLiteStore):
    """A source that moves on as often as it is looked at, for some times; `step` moves it."""

    moves = 0
    step: Callable[[], Awaitable[object]]

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        if self.moves:
            self.moves -= 1
            await self.step()
        return await super().wakeups(log)


async def test_what_is_stored_meanwhile_is_copied_behind(
    make: Callable[[str], Store], desk: Desk, tmp_path: Path
) -> None:
    store = SQLiteStore(str(tmp_path / "source.db"))
    source = Moving(str(tmp_path / "source.db"))
    source.moves = 3
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        source.step = lambda: clerk.ask("ask_helper task='note text=a'")
        copied = await copy_store(source, make("copy"))
        found = make("copy")

        assert copied.heads == await heads_digest(found) == await heads_digest(store)
        assert [row.n for row in copied.alive] == [1]
        assert await whole(found) == await whole(store)
        await assert_history_holds(found)
        await found.close()

        source.moves = 10**6
        with pytest.raises(CopyRefused, match=r"PASSES_MAX.*writers at work: 1 \("):
            await copy_store(source, make("restless"))
        source.moves = 0
        await copy_store(source, make("restless"))
    await source.close()
    await assert_history_holds(make("restless"))


async def test_a_store_without_a_log_is_copied_too(make: Callable[[str], Store]) -> None:
    empty = make("empty")
    await empty.open("somebody")
    await empty.close()
    copied = await copy_store(make("empty"), make("copy"))

    assert (copied.logs, copied.entries, copied.bytes) == (0, 0, 0)


TABLES = (
    "select id, tenant, kind, epoch, seq, digest, parent_call, root, forked_from, upto from logs order by id",
    "select logs.id, entries.* from entries join logs using (n) order by 1, entries.seq",
    "select logs.id, payloads.* from payloads join logs using (n) order by 1, payloads.seq, i",
    "select logs.id, messages.* from messages join logs using (n) order by 1, messages.seq",
    "select logs.id, components.* from components join logs using (n) order by 1, entity, type",
    "select * from conversations order by id",
    "select logs.id, turns.* from turns join logs using (n) order by 1, turns.seq",
    "select logs.id, calls.* from calls join logs using (n) order by 1, calls.seq",
    "select * from definitions order by digest",
    "select log, key, kind, salt, body, seq from inbox order by log, key",
    "select * from wakeups order by log, reason, turn, call",
)
