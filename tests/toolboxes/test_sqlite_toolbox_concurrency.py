"""A SQLite toolbox under several callers, other processes' locks, and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.ids import Name
from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess
from agentos.resources.kinds.sqlite_connection.link import SqliteLimits, open_link
from agentos.toolboxes.base import Failed
from agentos.toolboxes.sqlite import SqliteToolbox
from agentos.toolboxes.sqlite.query import Query
from tests.toolboxes.sqlite_support import ENDLESS, first_link, made, opened, query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(tmp_path / "notes.db", "CREATE TABLE notes (n INTEGER); INSERT INTO notes VALUES (0);")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection that holds the write lock."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE notes SET n = n + 1000")
        yield db


def descriptors_open() -> int:
    """How many descriptors this process has open; 0 where the system does not tell."""
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_readers_read_while_one_writer_writes_and_each_sees_whole_transactions(path: Path) -> None:
    async with opened(path, "read-write") as writing, opened(path, "read-only") as reading:
        seen: list[int] = []

        async def read() -> None:
            for _ in range(25):
                result = await query(reading, "SELECT count(*) % 10, max(n) FROM notes WHERE n > 0")
                assert result["rows"][0][0] == 0
                seen.append(result["rows"][0][1] or 0)

        async def write() -> None:
            for n in range(1, 26):
                values = ",".join(f"({10 * n + i})" for i in range(10))
                assert (await query(writing, f"INSERT INTO notes VALUES {values}"))["changes"] == 10

        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(read())
            group.create_task(write())
        last = await query(reading, "SELECT max(n) FROM notes")

    assert len(seen) == 150
    assert last["rows"] == [[259]]


async def test_readers_work_side_by_side_up_to_their_limit(path: Path) -> None:
    async with opened(path, "read-only", readers_max=2) as toolbox:
        endless = [asyncio.create_task(query(toolbox, f"{ENDLESS} SELECT count(*) FROM c")) for _ in range(2)]
        await asyncio.sleep(0.05)
        third = asyncio.create_task(query(toolbox, "SELECT 1"))
        await asyncio.sleep(0.05)
        waited = not third.done()
        await cancelled(endless[0])
        result = await third
        await cancelled(endless[1])

    assert waited
    assert result["rows"] == [[1]]


@pytest.mark.parametrize("access", ["read-only", "read-write"])
async def test_a_cancelled_query_ends_and_frees_the_toolbox(
    path: Path, access: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path, access, readers_max=1) as toolbox:
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} SELECT count(*) FROM c"))
        await asyncio.sleep(0.05)
        await cancelled(running)
        after = await query(toolbox, "SELECT n FROM notes")

    assert after["rows"] == [[0]]
    assert caplog.records == []


async def test_a_cancelled_write_leaves_no_transaction_open_and_nothing_changed(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} INSERT INTO notes SELECT x FROM c"))
        await asyncio.sleep(0.05)
        await cancelled(running)
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("UPDATE notes SET n = 5")
            other.commit()
        after = await query(toolbox, "SELECT n FROM notes")

    assert after["rows"] == [[5]]


@pytest.mark.parametrize("delay_ms", range(0, 24, 2))
async def test_a_write_that_is_cancelled_at_any_moment_is_whole_or_not_at_all(path: Path, delay_ms: int) -> None:
    async with opened(path, "read-write") as toolbox:
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} INSERT INTO notes SELECT x FROM c LIMIT 20000"))
        await asyncio.sleep(delay_ms / 1000)
        running.cancel()
        await asyncio.wait([running])
        count = (await query(toolbox, "SELECT count(*) FROM notes"))["rows"][0][0]
        again = await query(toolbox, "INSERT INTO notes VALUES (1)")

    assert count in (1, 20_001)
    assert again["changes"] == 1


async def test_a_cancelled_query_is_interrupted_even_where_it_does_not_look_at_the_time(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path, "read-only") as toolbox:
        first_link(toolbox).db.set_progress_handler(None, 0)
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} SELECT count(*) FROM c"))
        await asyncio.sleep(0.05)
        await cancelled(running)
        after = await query(toolbox, "SELECT n FROM notes")

    assert after["rows"] == [[0]]
    assert caplog.records == []


def test_a_query_that_is_stopped_before_it_begins_changes_nothing(path: Path) -> None:
    access, limits = DatabaseAccess.READ_WRITE, SqliteLimits()
    link = open_link(path, access, limits)
    stopped = Query("INSERT INTO notes VALUES (1)", [], access, limits)
    stopped.stop()

    with closing(link.db):
        assert stopped.run(link) == Failed(Name("limit"), "it was cancelled; nothing was changed")
        assert not link.db.in_transaction
        assert link.db.execute("SELECT n FROM notes").fetchall() == [(0,)]


async def test_a_call_cancelled_before_it_has_a_connection_does_nothing(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        first = asyncio.create_task(query(toolbox, f"{ENDLESS} SELECT count(*) FROM c"))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(query(toolbox, "INSERT INTO notes VALUES (7)"))
        await asyncio.sleep(0.02)
        await cancelled(second)
        await cancelled(first)
        after = await query(toolbox, "SELECT n FROM notes")

    assert after["rows"] == [[0]]


async def test_a_task_that_is_cancelled_twice_still_waits_for_the_end_of_its_query(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} INSERT INTO notes SELECT x FROM c"))
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.sleep(0)
        await cancelled(running)
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")  # raises when a transaction is still open


async def test_a_statement_that_does_not_look_up_is_left_behind_after_its_grace(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    entered = threading.Event()
    toolbox = SqliteToolbox("notes", path=path, access="read-only", limits=SqliteLimits(stop_s=0.05))
    await toolbox.open()
    link = first_link(toolbox)

    def stubborn() -> int:
        entered.set()
        release.wait(60)
        return 1

    link.db.create_function("stubborn", 0, stubborn)
    running = asyncio.create_task(query(toolbox, "SELECT stubborn()"))
    await asyncio.to_thread(entered.wait, 60)
    with caplog.at_level(logging.WARNING, "agentos"):
        await cancelled(running)
    other = await query(toolbox, "SELECT n FROM notes")
    await toolbox.close()
    release.set()
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("agentos-tool")]:
        await asyncio.to_thread(thread.join, 60)

    assert "tool notes_query goes on in its thread" in caplog.text
    assert other["rows"] == [[0]]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        link.db.execute("SELECT 1")


async def test_f16_a_lock_of_another_process_is_waited_for_up_to_a_limit(path: Path) -> None:
    async with opened(path, "read-write", busy_s=0.05) as toolbox:
        with locked(path) as other:
            busy = await query(toolbox, "INSERT INTO notes VALUES (1)")
            read = await query(toolbox, "SELECT n FROM notes")
            other.execute("COMMIT")
        after = await query(toolbox, "INSERT INTO notes VALUES (1)")

    assert busy.kind == "busy"
    assert busy.text == ("another process held a lock on the database longer than 0.05 s (busy_s); nothing was changed")
    assert read["rows"] == [[0]]
    assert after["changes"] == 1


async def test_f16_a_lock_that_goes_in_time_only_delays(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        with locked(path) as other:
            writing = asyncio.create_task(query(toolbox, "UPDATE notes SET n = n + 1"))
            await asyncio.sleep(0.1)
            waited = not writing.done()
            other.execute("COMMIT")
            result = await writing
        after = await query(toolbox, "SELECT n FROM notes")

    assert waited
    assert (result["changes"], after["rows"]) == (1, [[1001]])


async def test_waiting_for_a_lock_ends_with_a_cancellation(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(path, "read-write", busy_s=60) as toolbox:
        with locked(path):
            writing = asyncio.create_task(query(toolbox, "INSERT INTO notes VALUES (1)"))
            await asyncio.sleep(0.05)
            await cancelled(writing)
        after = await query(toolbox, "SELECT n FROM notes")

    assert after["rows"] == [[0]]
    assert caplog.records == []


async def test_writers_of_two_toolboxes_lose_no_update(path: Path) -> None:
    async with opened(path, "read-write") as one, opened(path, "read-write") as two:
        results = await asyncio.gather(
            *(query(toolbox, "UPDATE notes SET n = n + 1") for _ in range(20) for toolbox in (one, two))
        )
        after = await query(one, "SELECT n FROM notes")

    assert [result["changes"] for result in results] == [1] * 40
    assert after["rows"] == [[40]]


async def test_nothing_is_left_of_a_closed_toolbox(path: Path) -> None:
    descriptors = descriptors_open()
    threads = set(threading.enumerate())
    async with opened(path, "read-write") as toolbox:
        await query(toolbox, "INSERT INTO notes VALUES (1)")
        await query(toolbox, "SELECT n FROM notes")

    assert set(threading.enumerate()) <= threads
    assert descriptors_open() <= descriptors  # one of an earlier test may go meanwhile
    assert os.listdir(path.parent) == ["notes.db"]
