"""SQLite stores in several processes: none loses a row, a dead writer's logs go on, and every process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append

CHILD_S = 30.0
PRELUDE = """
import asyncio, itertools, json, random, sys, time
from agentos.persistence.base import InboxRow, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import SALT, LogUnits, append, opened

path = sys.argv[1]

def say(**words):
    print(json.dumps(words), flush=True)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that run a script on store.db in tmp_path; none outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PRELUDE + script, str(tmp_path / "store.db"), *arguments]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


WRITERS = """
name, seconds, tasks = sys.argv[2], float(sys.argv[3]), 8

async def main():
    async with opened(lambda: SQLiteStore(path)) as (store, writer):
        logs = [LogUnits(f"{name}-{i}", writer) for i in range(tasks)]
        shared = LogUnits("shared", writer)
        said = 0
        if name == "a":
            assert await append(store, shared.unit()) == [Verdict.STORED]
        end = time.monotonic() + seconds

        async def post():
            for i in itertools.count():
                if time.monotonic() > end:
                    return i
                assert await store.post(InboxRow(log=shared.id, key=f"{name}-{i}", kind="input", salt=SALT, body="x"))
                await asyncio.sleep(random.uniform(0, 0.005))

        posting = asyncio.ensure_future(post())
        while time.monotonic() < end or not posting.done():
            some = random.sample(logs, random.randint(1, tasks))
            units = [log.unit("a", "b", text="x" * random.choice([10] * 7 + [40_000])) for log in some]
            said += len(units)
            if name == "a":
                units.append(shared.unit(taken=[row.key for row in await store.inbox(shared.id)]))
            verdicts = await append(store, *units)
            assert verdicts == [Verdict.STORED] * len(units), verdicts
            await asyncio.sleep(0)
        say(said=said, posted=await posting, heads={log.id: log.seq for log in logs})

asyncio.run(main())
"""


async def test_two_processes_write_one_file_and_no_row_is_lost_or_doubled(tmp_path: Path, start: Start) -> None:
    children = [start(WRITERS, name, "3") for name in "ab"]
    reports = [_end(child) for child in children]
    store = SQLiteStore(str(tmp_path / "store.db"))
    heads: dict[str, int] = {}
    for report in reports:
        heads |= report["heads"]
    for log, head in heads.items():
        entries = await store.entries(log)
        row = await store.log(log)
        assert [entry.seq for entry in entries] == list(range(1, head + 1))
        assert row is not None
        assert (row.seq, row.digest) == (head, entries[-1].digest)
    said = await store.query("select count(*) from messages")
    posted = await store.query("select count(*), count(distinct log || key) from inbox")
    late = await store.query("select max(seq) from inbox where body is not null and seq is not null")
    await store.close()

    total = sum(report["posted"] for report in reports)
    assert said.rows == [(sum(report["said"] for report in reports),)]
    assert posted.rows == [(total, total)]
    assert late.rows == [(None,)]
    assert all(report["said"] > 100 and report["posted"] > 20 for report in reports), reports


OWNER = """
async def main():
    async with opened(lambda: SQLiteStore(path)) as (store, writer):
        await append(store, LogUnits("a", writer).unit())
        say(writer=writer)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_writer_is_dead_at_once_and_a_living_one_is_not(tmp_path: Path, start: Start) -> None:
    child = start(OWNER)
    dead = _read(child)["writer"]
    store = SQLiteStore(str(tmp_path / "store.db"))
    await store.open("program")
    log = LogUnits("a", dead)
    while_living = await store.claim(log.id)
    child.kill()
    child.wait(CHILD_S)
    claimed = await store.claim(log.id)
    await store.close()
    left = sorted(os.listdir(tmp_path))

    assert while_living is None
    assert claimed is not None
    assert (claimed.epoch, claimed.seq) == (2, 1)
    assert left == ["store.db"]


async def test_what_a_killed_writer_left_is_cleared_by_the_next_one(tmp_path: Path, start: Start) -> None:
    child = start(OWNER)
    dead = _read(child)["writer"]
    child.kill()
    child.wait(CHILD_S)
    before = (tmp_path / f"store.db-writer-{dead}").exists()
    store = SQLiteStore(str(tmp_path / "store.db"))
    number = await store.open("program")
    ended = await store.query("select n from writers where ended_at is not null")
    await store.close()

    assert before
    assert number == dead + 1
    assert ended.rows == [(dead,)]
    assert not (tmp_path / f"store.db-writer-{dead}").exists()


async def test_an_abandoned_store_counts_as_dead(tmp_path: Path) -> None:
    first, second = (SQLiteStore(str(tmp_path / "store.db")) for _ in range(2))
    log = LogUnits("a", await first.open("first"))
    await append(first, log.unit())
    await first.entries(log.id)
    await first.query("select 1")
    await second.open("second")
    first.abandon()
    claimed = await second.claim(log.id)
    await second.close()

    assert claimed is not None
    assert claimed.epoch == 2


UNCLOSED = """
how = sys.argv[2]

async def main():
    store = SQLiteStore(path)
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit())
    await append(store, log.unit(text="x" * 300_000))
    await store.entries(log.id)
    await store.query("select 1")
    say(ready=True)
    await HOW[how](store, log)

async def raises(store, log):
    raise RuntimeError("on purpose")

async def exits(store, log):
    sys.exit(7)

async def waits(store, log):
    await asyncio.sleep(60)

async def queries(store, log):
    endless = "with recursive x(i) as (select 1 union all select i from x) select count(*) from x"
    asyncio.ensure_future(store.query(endless))
    await asyncio.sleep(0.1)
    sys.exit(7)

async def writes_to_a_locked_file(store, log):
    import sqlite3
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("begin immediate")
    store.append([log.unit()])
    await asyncio.sleep(0.1)
    sys.exit(7)

HOW = {function.__name__: function for function in (raises, exits, waits, queries, writes_to_a_locked_file)}
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("how", "code"), [("raises", 1), ("exits", 7), ("waits", 130), ("queries", 7), ("writes_to_a_locked_file", 7)]
)
def test_a_process_ends_though_its_store_was_not_closed(start: Start, how: str, code: int) -> None:
    child = start(UNCLOSED, how)
    _read(child)
    if how == "waits":
        child.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, errors = child.communicate(timeout=CHILD_S)

    assert time.monotonic() - started < 2
    assert child.returncode == code
    assert [line for line in errors.splitlines() if "Thread" in line or "Exception ignored" in line] == []


def _read(child: subprocess.Popen[str]) -> dict[str, Any]:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, child.communicate()[1]
    words: dict[str, Any] = json.loads(line)
    return words


def _end(child: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = child.communicate(timeout=CHILD_S)
    assert child.returncode == 0, errors
    words: dict[str, Any] = json.loads(output)
    return words
