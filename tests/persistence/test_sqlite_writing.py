"""How a SQLite store writes: in place or in its thread, and what holds when the file is locked or full."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.errors import StoreBusy, StoreDamaged, StoreUnavailable
from agentos.persistence.base import InboxRow, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.persistence.sqlite.file import Durability
from agentos.testing.log_units import SALT, LogUnits, append

STORED = [Verdict.STORED]
LONG = "x" * 300_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path, busy_timeout_ms=300)
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


async def test_a_file_that_is_locked_for_a_moment_is_waited_for(store: SQLiteStore, log: LogUnits, path: str) -> None:
    await append(store, log.unit())
    with _locked(path):
        answer = store.append([log.unit()])
        assert isinstance(answer, asyncio.Future)
        await asyncio.sleep(0.1)

    assert await answer == STORED
    assert store.append([log.unit()]) == STORED


async def test_a_file_that_stays_locked_is_busy_within_the_limit_and_works_later(
    store: SQLiteStore, log: LogUnits, path: str
) -> None:
    await append(store, log.unit())
    unit = log.unit(text="kept by the caller")
    with _locked(path):
        started = time.monotonic()
        with pytest.raises(StoreBusy, match=r"300 ms \(busy_timeout_ms\)"):
            await append(store, unit)
        with pytest.raises(StoreBusy):
            await store.post(InboxRow(log=log.id, key="k", kind="input", salt=SALT, body="{}"))
        elapsed_s = time.monotonic() - started

    assert 0.6 <= elapsed_s < 2
    assert await append(store, unit) == STORED
    assert await store.inbox() == []


@pytest.mark.parametrize("text", ["small", LONG])
async def test_a_full_disk_stores_nothing_of_the_batch(store: SQLiteStore, log: LogUnits, text: str) -> None:
    assert store._writer is not None
    db = store._writer.db
    await append(store, log.unit(text="first"))
    (pages,) = db.execute("pragma page_count").fetchone()
    other = LogUnits("b", log.owner)
    batch = [log.unit(text=text), other.unit(text="y" * 20_000)]
    db.execute(f"pragma max_page_count = {pages + 1}")
    with pytest.raises(StoreUnavailable, match=r"disk is full \(SQLITE_FULL\)") as refused:
        await append(store, *batch)
    row, no_row = await store.log(log.id), await store.log(other.id)
    db.execute("pragma max_page_count = 1000000")

    assert store.url in str(refused.value)
    assert "yyy" not in str(refused.value)
    assert row is not None
    assert (row.seq, no_row) == (1, None)
    assert await append(store, *batch) == [Verdict.STORED, Verdict.STORED]


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


async def test_the_write_ahead_log_does_not_grow_without_bound(path: str) -> None:
    store = SQLiteStore(path)
    log = LogUnits("a", await store.open("program"))
    largest = 0
    for _ in range(150):
        for _ in range(40):
            assert await append(store, log.unit("a", "b", text="x" * 1_000)) == STORED
        largest = max(largest, _size(path + "-wal"))
    (count,) = (await store.query("select count(*) from entries")).rows
    await store.close()

    assert count == (12_000,)
    assert largest < 64 * 1024 * 1024  # without checkpoints: about 250 MB
    assert _size(path + "-wal") == 0


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


def _size(path: str) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0


class _locked:  # noqa: N801 - used like a function
    """The write lock of the file, held by another connection."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> None:
        self._db.execute("begin immediate")

    def __exit__(self, *_: object) -> None:
        self._db.close()
