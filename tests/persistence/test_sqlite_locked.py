"""F16, F17: a file that another process has locked is waited for up to a named limit, and then works again."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import agentos
from agentos.errors import StoreBusy
from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from tests.persistence.children import CHILD_S, Start, read, starter, tell

STORED = [Verdict.STORED]
HOLDER = """
db = sqlite3.connect(path, isolation_level=None)
db.execute("begin immediate")
say(holds=True)
sys.stdin.readline()
db.execute("rollback")
say(holds=False)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    with starter(path) as start:
        yield start


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(str(path), settings=Settings(busy_timeout_ms=200))
    await store.open("program")
    yield store
    await store.close()


async def test_a_lock_that_another_process_holds_for_a_while_is_waited_for(path: Path, start: Start) -> None:
    store = SQLiteStore(str(path), settings=Settings(busy_timeout_ms=int(CHILD_S * 1000)))
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit())
    holder = start(HOLDER)
    read(holder)
    waiting = store.append([log.unit()])
    assert isinstance(waiting, asyncio.Future)
    posting = asyncio.ensure_future(store.post(post_of(log.id, "k")))
    await asyncio.sleep(0.1)
    early = waiting.done(), posting.done()
    tell(holder)

    assert early == (False, False)
    assert await waiting == STORED
    assert await posting
    assert store.append([log.unit()]) == STORED
    await store.close()


async def test_a_lock_that_is_held_for_ever_is_busy_after_the_limit_and_the_store_works_again(
    store: SQLiteStore, start: Start
) -> None:
    log = LogUnits("a", 1)
    await append(store, log.unit())
    holder = start(HOLDER)
    read(holder)
    unit = log.unit(text="kept by the caller")

    for _ in range(2):
        with pytest.raises(StoreBusy, match=r"more than 200 ms \(busy_timeout_ms\)"):
            await append(store, unit)
    with pytest.raises(StoreBusy):
        await store.post(post_of(log.id, "k"))
    with pytest.raises(StoreBusy):
        await store.claim(log.id)
    assert len(await store.entries(log.id)) == 1  # readers need no lock
    holder.kill()
    holder.wait(CHILD_S)
    assert await append(store, unit) == STORED
    assert await store.post(post_of(log.id, "k"))


async def test_a_locked_file_is_busy_when_it_is_opened_too(store: SQLiteStore, path: Path, start: Start) -> None:
    holder = start(HOLDER)
    read(holder)
    second = SQLiteStore(str(path), settings=Settings(busy_timeout_ms=100))
    with pytest.raises(StoreBusy, match="busy_timeout_ms"):
        await second.open("second")
    tell(holder)
    read(holder)

    assert await second.open("second") == 2
    await second.close()


async def test_each_transaction_takes_the_write_lock_before_it_reads(path: Path) -> None:
    """F17: a transaction that read first is refused at once when another process wrote meanwhile."""
    seen: list[str] = []
    store = SQLiteStore(str(path))
    log = LogUnits("a", await store.open("program"))
    assert store._writer is not None
    store._writer.db.set_trace_callback(seen.append)
    await append(store, log.unit(text="x", posts=[post_of(log.id, "k")]))
    await append(store, log.unit(text="x" * 300_000, taken=["k"]), LogUnits("b", 1).unit())
    await store.post(post_of(log.id, "l"))
    await store.claim(log.id)
    await store.declare_dead(7)
    await store.close()

    inside = False
    for statement in seen:
        word = statement.split()[0].upper()
        assert word != "BEGIN" or statement == "BEGIN IMMEDIATE"
        inside = word == "BEGIN" or (inside and word != "COMMIT")
        assert inside or word in ("BEGIN", "COMMIT", "PRAGMA"), statement
    assert seen.count("BEGIN IMMEDIATE") == seen.count("COMMIT") == 6


def test_nothing_in_the_package_begins_a_transaction_by_reading() -> None:
    begins = [
        f"{file.name}: {found.group()}"
        for file in Path(agentos.__file__).parent.joinpath("persistence").rglob("*.py")
        for found in re.finditer(r"['\"]BEGIN\b[^'\"]*['\"]", file.read_text("utf-8"))
    ]

    assert begins
    assert [begin for begin in begins if "BEGIN IMMEDIATE" not in begin] == []


def test_a_transaction_that_read_first_would_indeed_fail(path: Path) -> None:
    """What the two tests above are for, as SQLite does it: the busy timeout does not help."""
    one, other = (sqlite3.connect(path, isolation_level=None, timeout=CHILD_S) for _ in range(2))
    one.execute("pragma journal_mode=wal")
    one.execute("create table x (y)")
    one.execute("begin")
    one.execute("select * from x").fetchall()
    other.execute("insert into x values (1)")

    with pytest.raises(sqlite3.OperationalError) as refused:
        one.execute("insert into x values (2)")
    assert refused.value.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"
    one.close()
    other.close()
