"""F19: the write-ahead log of a SQLite store is copied back beside the writer, and a long reader that prevents it is told."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.persistence.sqlite.checkpoints import WAL_OVERGROWN
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append
from tests.persistence.children import CHILD_S, Start, read
from tests.support import until

STORED = [Verdict.STORED]
MIB = 1024 * 1024
SMALL = Settings(wal_copy_bytes=MIB // 4, wal_warn_bytes=4 * MIB)
READER = """
db = sqlite3.connect(path, isolation_level=None)
db.execute("begin")
say(count=db.execute("select count(*) from entries").fetchone()[0])
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


async def test_the_log_does_not_grow_without_bound(path: str) -> None:
    store = SQLiteStore(path)
    log = LogUnits("a", await store.open("program"))
    largest = 0
    for _ in range(150):
        for _ in range(40):
            assert await append(store, log.unit("a", "b", text="x" * 1_000)) == STORED
        largest = max(largest, _log_bytes(path))
    (count,) = (await store.query("select count(*) from entries")).rows
    await store.close()

    assert count == (12_000,)
    assert largest < 64 * MIB  # without checkpoints: about 250 MB
    assert _log_bytes(path) == 0


async def test_the_limit_of_the_log_is_a_setting(path: str) -> None:
    store = SQLiteStore(path, settings=SMALL)
    log = LogUnits("a", await store.open("program"))
    largest = 0
    for _ in range(2_000):
        assert await append(store, log.unit(text="x" * 1_000)) == STORED
        largest = max(largest, _log_bytes(path))
    await store.close()

    assert largest < WAL_OVERGROWN * SMALL.wal_copy_bytes + MIB // 4


async def test_ten_thousand_writes_beside_a_long_reader_are_told_in_one_line_and_end_with_it(
    path: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    store = SQLiteStore(path, settings=SMALL)
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit())
    reader = start(READER)
    seen_by_reader = read(reader)["count"]
    with caplog.at_level(logging.WARNING):
        for _ in range(2_500):
            assert await append(store, log.unit("a", "b", "c", "d")) == STORED
    beside = _log_bytes(path)
    reader.kill()
    reader.wait(CHILD_S)
    for _ in range(500):
        assert await append(store, log.unit()) == STORED
    after = _log_bytes(path)
    (count,) = (await store.query("select count(*) from entries")).rows
    await store.close()

    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{path}-wal has " in line
    assert "wal_warn_bytes is 4194304" in line
    assert "a reader of another program keeps its view open: end it" in line
    assert (seen_by_reader, count) == (1, (10_501,))
    assert beside > SMALL.wal_warn_bytes
    assert after <= WAL_OVERGROWN * SMALL.wal_copy_bytes + MIB


async def test_the_log_is_copied_back_on_a_thread_of_its_own(path: str) -> None:
    threads: set[str] = set()

    def point(name: str) -> None:
        if name == "checkpoint":
            threads.add(threading.current_thread().name)

    store = SQLiteStore(path, settings=Settings(wal_copy_bytes=64 * 1024, inline_bytes_max=MIB), point=point)
    log = LogUnits("a", await store.open("program"))
    for _ in range(200):
        assert await append(store, log.unit(text="x" * 1_000)) == STORED
    await until(lambda: "agentos checkpoints" in threads)  # the thread may not have come to it yet
    during = set(threads)
    await store.close()

    assert "agentos checkpoints" in during
    assert threading.current_thread().name not in during


def _log_bytes(path: str) -> int:
    return os.stat(path + "-wal").st_size if os.path.exists(path + "-wal") else 0
