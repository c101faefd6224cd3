"""SQLite stores in several processes: none loses a row, a dead writer's logs go on, and every process ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append
from tests.persistence.children import CHILD_S, Start, end, read

ROUNDS, TASKS = 40, 8
WRITERS = """
name, rounds, tasks = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

async def main():
    async with opened(lambda: SQLiteStore(path)) as (store, writer):
        shared = LogUnits("shared", writer)
        if name == "a":
            assert await append(store, shared.unit()) == [Verdict.STORED]

        async def work(i):
            log = LogUnits(f"{name}-{i}", writer)
            for round in range(rounds):
                text = "x" * random.choice([10] * 7 + [300_000])
                assert await append(store, log.unit("a", "b", text=text)) == [Verdict.STORED]
                assert await store.post(post_of(shared.id, f"{name}-{i}-{round}"))
                await asyncio.sleep(random.uniform(0, 0.005))
            return log.id, log.seq

        async def take():
            taken = 0
            while taken < 2 * tasks * rounds:
                if keys := [row.key for row in await store.inbox(shared.id)]:
                    assert await append(store, shared.unit(*["input.received"] * len(keys), taken=keys)) == [
                        Verdict.STORED
                    ]
                    taken += len(keys)
                await asyncio.sleep(0.001)
            return shared.id, shared.seq

        jobs = [work(i) for i in range(tasks)] + ([take()] if name == "a" else [])
        say(heads=dict(await asyncio.gather(*jobs)))

asyncio.run(main())
"""


async def test_two_processes_of_eight_tasks_write_one_file_and_no_row_is_lost_or_doubled(
    tmp_path: Path, start: Start
) -> None:
    """C26: each of the sixteen tasks has a log of its own and commands one that the first process owns."""
    children = [start(WRITERS, name, str(ROUNDS), str(TASKS)) for name in "ab"]
    heads = {log: seq for child in children for log, seq in end(child)["heads"].items()}
    store = SQLiteStore(str(tmp_path / "store.db"))
    for log, head in heads.items():
        entries, row = await store.entries(log), await store.log(log)
        assert [entry.seq for entry in entries] == list(range(1, head + 1))
        assert row is not None
        assert (row.seq, row.digest) == (head, entries[-1].digest)
    said = await store.query("select count(*) from messages")
    posted = await store.query("select count(*), count(distinct log || key), count(seq), count(body) from inbox")
    await store.close()

    total = 2 * TASKS * ROUNDS
    assert said.rows == [(total,)]
    assert posted.rows == [(total, total, total, 0)]
    assert sorted(heads.values()) == [2 * ROUNDS] * 2 * TASKS + [1 + total]


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
    dead = read(child)["writer"]
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
    dead = read(child)["writer"]
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
async def test_a_process_ends_though_its_store_was_not_closed_and_what_it_wrote_is_there(
    tmp_path: Path, start: Start, how: str, code: int
) -> None:
    """C47: SQLite's threads are daemons, the one of aiosqlite too."""
    child = start(UNCLOSED, how)
    read(child)
    if how == "waits":
        child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=CHILD_S)

    assert child.returncode == code
    assert errors.count("Traceback") == (how == "raises"), errors
    assert [line for line in errors.splitlines() if "Thread" in line or "Exception ignored" in line] == []
    store = SQLiteStore(str(tmp_path / "store.db"))
    await store.open("program")
    row = await store.claim(LogUnits("a", 1).id)
    await store.close()
    assert row is not None
    assert row.seq == 2
