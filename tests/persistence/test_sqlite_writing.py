"""How a SQLite store writes: in place or in its thread, and what holds when the file is locked or full."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.errors import StoreBusy, StoreDamaged
from agentos.persistence.base import Durability, InboxRow, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.log_units import SALT, LogUnits, append

STORED = [Verdict.STORED]
LONG = "x" * 300_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path, settings=Settings(busy_timeout_ms=300))
    await store.open("program")
    yield store
    await store.close()


@pytest.fixture
async def log(store: SQLiteStore) -> LogUnits:
    return LogUnits("a", 1)


async def test_a_small_batch_is_written_in_place_and_a_large_one_elsewhere(store: SQLiteStore, log: LogUnits) -> None:
    small, large = store.append([log.unit(text="x")]), store.append([log.unit(text=LONG)])

    assert small == STORED
    assert isinstance(large, asyncio.Future)
    assert await large == STORED


async def test_a_batch_to_be_synced_is_written_elsewhere(path: str) -> None:
    store = SQLiteStore(path, durability=Durability.FULL)
    answer = store.append([LogUnits("a", await store.open("program")).unit()])

    assert isinstance(answer, asyncio.Future)
    assert await answer == STORED
    await store.close()


async def test_how_much_is_written_in_place_is_a_setting(path: str) -> None:
    store = SQLiteStore(path, settings=Settings(inline_bytes_max=5_000))
    log = LogUnits("a", await store.open("program"))
    answers = [store.append([log.unit(text="x" * length)]) for length in (1_000, 6_000)]

    assert answers[0] == STORED
    assert isinstance(answers[1], asyncio.Future)
    assert await answers[1] == STORED
    await store.close()


async def test_writes_keep_their_order_while_the_thread_has_one(store: SQLiteStore, log: LogUnits) -> None:
    large, small = store.append([log.unit(text=LONG)]), store.append([log.unit()])
    posted = store.post(InboxRow(log=log.id, key="k", kind="input", salt=SALT, body="{}"))
    claimed = await store.claim(log.id)

    assert not isinstance(large, list)
    assert not isinstance(small, list)
    assert (await large, await small, await posted) == (STORED, STORED, True)
    assert claimed is not None
    assert claimed.seq == 2


async def test_an_append_goes_on_when_nobody_waits_for_it_any_more(store: SQLiteStore, log: LogUnits) -> None:
    answer = store.append([log.unit(text=LONG)])
    assert isinstance(answer, asyncio.Future)
    answer.cancel()

    assert await append(store, log.unit()) == STORED
    assert [entry.seq for entry in await store.entries(log.id)] == [1, 2]


async def test_a_read_that_nobody_waits_for_any_more_leaves_the_connection_as_it_was(
    store: SQLiteStore, log: LogUnits
) -> None:
    """F22"""
    await append(store, *(log.unit(text=f"{i}") for i in range(500)))
    for turns in range(20):
        reading = asyncio.ensure_future(store.entries(log.id))
        asking = asyncio.ensure_future(store.query("select text from messages"))
        for _ in range(turns):
            await asyncio.sleep(0)
        reading.cancel()
        asking.cancel()
        await asyncio.gather(reading, asking, return_exceptions=True)

    assert [entry.seq for entry in await store.entries(log.id)] == list(range(1, 501))
    assert len((await store.query("select text from messages")).rows) == 500
    assert await append(store, log.unit()) == STORED


async def test_a_file_that_is_locked_for_a_moment_is_waited_for(path: str) -> None:
    store = SQLiteStore(path, settings=Settings(busy_timeout_ms=60_000))
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit())
    with _locked(path):
        answer = store.append([log.unit()])
        assert isinstance(answer, asyncio.Future)
        await asyncio.sleep(0.1)

    assert await answer == STORED
    assert store.append([log.unit()]) == STORED
    await store.close()


async def test_a_file_that_stays_locked_is_busy_within_the_limit_and_works_later(
    store: SQLiteStore, log: LogUnits, path: str
) -> None:
    await append(store, log.unit())
    unit = log.unit(text="kept by the caller")
    with _locked(path):
        with pytest.raises(StoreBusy, match=r"300 ms \(busy_timeout_ms\)"):
            await append(store, unit)
        with pytest.raises(StoreBusy):
            await store.post(InboxRow(log=log.id, key="k", kind="input", salt=SALT, body="{}"))

    assert await append(store, unit) == STORED
    assert await store.inbox() == []


async def test_a_row_that_cannot_be_stored_takes_its_batch_along(store: SQLiteStore, log: LogUnits) -> None:
    other = LogUnits("b", log.owner)
    good, bad = log.unit(text="good"), other.unit(text="bad")
    bad.messages = [(*bad.messages[0][:5], "a lone \ud800 surrogate")]
    with pytest.raises(UnicodeEncodeError):
        await append(store, good, bad)
    bad.messages = []

    assert await store.logs() == []
    assert await append(store, good, bad) == [Verdict.STORED, Verdict.STORED]


async def test_entries_past_the_head_are_damage(store: SQLiteStore, log: LogUnits) -> None:
    assert store._writer is not None
    first = log.unit()
    await append(store, first)
    store._writer.db.execute("update logs set seq = 0, digest = ?", (first.previous,))

    with pytest.raises(StoreDamaged, match="UNIQUE constraint failed: entries"):
        await append(store, LogUnits("a", log.owner).unit(create=None))


async def test_a_large_batch_of_many_logs_is_judged_unit_by_unit(store: SQLiteStore) -> None:
    logs = [LogUnits(str(i), 1) for i in range(300)]
    await append(store, *(log.unit() for log in logs))
    units = [log.unit("a", "b", text="x") for log in logs]
    units[7].epoch, units[200].previous = 9, bytes(32)
    verdicts = await append(store, *units)
    heads = {row.id: row.seq for row in await store.logs()}

    assert (verdicts[7], verdicts[200]) == (Verdict.FENCED, Verdict.CONFLICT)
    assert verdicts.count(Verdict.STORED) == 298
    assert sorted(heads.values()) == [1, 1] + [3] * 298
    assert (await store.query("select count(*), count(distinct n) from messages")).rows == [(298, 298)]


class _locked:  # noqa: N801 - used like a function
    """The write lock of the file, held by another connection."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> None:
        self._db.execute("begin immediate")

    def __exit__(self, *_: object) -> None:
        self._db.close()
