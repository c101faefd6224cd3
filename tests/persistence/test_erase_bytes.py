"""Nothing that was erased is in any file of a store, however the erasing was disturbed."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from agentos.persistence import open_store
from agentos.persistence.base import Durability, Store
from agentos.persistence.file import FileStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from tests.persistence.erase_support import bodies, erasing, files_with, fill, stored

EMBEDDED = [
    *(("sqlite", durability) for durability in Durability),
    *(("file", durability) for durability in Durability),
]


def make(kind: str, durability: Durability, folder: Path) -> Store:
    settings = Settings(wal_copy_bytes=64 * 1024)
    if kind == "sqlite":
        return SQLiteStore(str(folder / "store.db"), durability=durability, settings=settings)
    return FileStore(str(folder / "store"), durability=durability, settings=settings, segment_bytes=100_000)


@pytest.mark.parametrize(("kind", "durability"), EMBEDDED)
async def test_what_was_erased_is_in_no_file_of_the_store(tmp_path: Path, kind: str, durability: Durability) -> None:
    store = make(kind, durability, tmp_path)
    log = await fill(store, await store.open("program"))
    there = files_with(tmp_path)
    await stored(store, erasing(log))
    is_settled = await store.settle_erased()
    while_open = files_with(tmp_path)
    left = await bodies(store, log)
    await store.close()

    assert there
    assert (is_settled, while_open) == (True, [])
    assert files_with(tmp_path) == []
    assert left == {None}


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_closing_is_enough(tmp_path: Path, kind: str) -> None:
    store = make(kind, Durability.NORMAL, tmp_path)
    log = await fill(store, await store.open("program"))
    await stored(store, erasing(log))
    await store.close()

    assert files_with(tmp_path) == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_of_many_logs_that_are_erased_one_after_the_other_nothing_is_left(tmp_path: Path, kind: str) -> None:
    """Rows of one log are moved about when others beside them go."""
    store = make(kind, Durability.NORMAL, tmp_path)
    writer = await store.open("program")
    logs = [await fill(store, writer, name=f"log {i}", rounds=4) for i in range(12)]
    for log in logs[::2] + logs[1::2]:
        await stored(store, erasing(log))
    is_settled = await store.settle_erased()
    found = files_with(tmp_path)
    await store.close()

    assert (is_settled, found) == (True, [])


async def test_a_reader_holds_the_write_ahead_log_back_and_the_store_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(str(path), settings=Settings(busy_timeout_ms=100))
    log = await fill(store, await store.open("program"))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from messages").fetchall()
    await stored(store, erasing(log))
    while_reading = await store.settle_erased()
    still = files_with(tmp_path)
    reader.execute("commit")
    after = await store.settle_erased()
    found = files_with(tmp_path)
    reader.close()
    await store.close()

    assert (while_reading, after) == (False, True)
    assert still
    assert found == []


async def test_a_log_that_was_held_back_is_emptied_by_itself_once_the_reader_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.persistence.sqlite.checkpoints.TRUNCATE_AGAIN_S", 0.01)
    path = tmp_path / "store.db"
    store = SQLiteStore(str(path))
    log = await fill(store, await store.open("program"), rounds=2)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from messages").fetchall()
    await stored(store, erasing(log))
    still = files_with(tmp_path)
    reader.execute("commit")
    reader.close()
    for _ in range(1_000):
        if not files_with(tmp_path):
            break
        await asyncio.sleep(0.01)
    found = files_with(tmp_path)
    await store.close()

    assert still
    assert found == []


async def test_a_close_that_leaves_erased_bytes_says_so_and_the_next_one_takes_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStore(str(path))
    log = await fill(store, await store.open("program"), rounds=2)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from messages").fetchall()
    await stored(store, erasing(log))
    await store.close()
    told, still = caplog.text, files_with(tmp_path)
    reader.execute("commit")
    reader.close()
    again = SQLiteStore(str(path))
    await again.open("program")
    await again.close()

    assert "erased texts are still there" in told
    assert still
    assert files_with(tmp_path) == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_compacting_leaves_a_whole_store_without_it(tmp_path: Path, kind: str) -> None:
    store = make(kind, Durability.NORMAL, tmp_path)
    log = await fill(store, await store.open("program"))
    before = await store.query("select n, seq, head from entries order by n, seq")
    await stored(store, erasing(log))
    is_done = await store.compact()
    found = files_with(tmp_path)
    await store.close()
    store = open_store(store.url)
    after = await store.query("select n, seq, head from entries where kind <> 'payload.erased' order by n, seq")
    await store.close()

    assert (is_done, found) == (True, [])
    assert after.rows == before.rows
