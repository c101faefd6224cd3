"""File stores in several processes: no torn lines, none lost or doubled, and a dead writer's logs go on (F14)."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import StoreBusy
from agentos.persistence.base import Verdict
from agentos.persistence.file import FileStore
from agentos.persistence.writer_lock import WriterLock, is_dead
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from tests.persistence.file_support import STORED, open_file, segment, texts

CHILD_S = 60.0
PRELUDE = """
import asyncio, itertools, json, os, random, signal, sys, time
from agentos.persistence.base import Durability, InboxRow, Verdict
from agentos.persistence.file import FileStore
from agentos.testing.log_units import SALT, LogUnits, append, opened

path = sys.argv[1]

def say(**words):
    print(json.dumps(words), flush=True)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that run a script on the store in tmp_path; none outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PRELUDE + script, str(tmp_path / "store"), *arguments]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


WRITERS = """
name, rounds, durability = sys.argv[2], int(sys.argv[3]), Durability(sys.argv[4])

async def main():
    make = lambda: FileStore(path, durability=durability, segment_bytes=60_000)
    async with opened(make) as (store, writer):
        logs = [LogUnits(f"{name}-{i}", writer) for i in range(8)]
        shared = LogUnits("shared", writer)
        if name == "a":
            assert await append(store, shared.unit()) == [Verdict.STORED]
        said = 0
        for i in range(rounds):
            some = random.sample(logs, random.randint(1, 8))
            units = [log.unit("a", "b", text="x" * random.choice([10] * 7 + [4_000])) for log in some]
            said += len(units)
            if name == "a":
                units.append(shared.unit(taken=[row.key for row in await store.inbox(shared.id)]))
            verdicts = await append(store, *units)
            assert verdicts == [Verdict.STORED] * len(units), verdicts
            assert await store.post(InboxRow(log=shared.id, key=f"{name}-{i}", kind="input", salt=SALT, body="x"))
        say(said=said, heads={log.id: log.seq for log in logs})

asyncio.run(main())
"""


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_two_processes_write_one_store_and_nothing_is_lost_or_doubled(
    tmp_path: Path, start: Start, durability: str
) -> None:
    rounds = 60
    children = [start(WRITERS, name, str(rounds), durability) for name in "ab"]
    reports = [_end(child) for child in children]
    store = FileStore(str(tmp_path / "store"))
    for report in reports:
        for log, head in report["heads"].items():
            entries = await store.entries(log)
            row = await store.log(log)
            assert [entry.seq for entry in entries] == list(range(1, head + 1))
            assert row is not None
            assert (row.seq, row.digest) == (head, entries[-1].digest if entries else row.digest)
    said = await store.query("select count(*) from messages")
    posted = await store.query("select count(*), count(distinct log || key) from inbox")
    damages = await store.damages()
    await store.close()

    assert said.rows == [(sum(report["said"] for report in reports),)]
    assert posted.rows == [(2 * rounds, 2 * rounds)]
    assert damages == []
    assert segment(tmp_path / "store", 2).exists()


RACERS = """
async def main():
    async with opened(lambda: FileStore(path)) as (store, writer):
        won = 0
        say(ready=writer)
        sys.stdin.readline()
        for i in range(40):
            log = LogUnits(f"race {i}", writer)
            (verdict,) = await append(store, log.unit(text=str(writer)))
            won += verdict is Verdict.STORED
            assert verdict in (Verdict.STORED, Verdict.FENCED)
            if verdict is Verdict.STORED:
                assert await append(store, log.unit(text=str(writer))) == [Verdict.STORED]
        say(won=won)

asyncio.run(main())
"""


async def test_of_two_processes_that_begin_the_same_log_one_has_it_and_the_other_is_told(
    tmp_path: Path, start: Start
) -> None:
    children = [start(RACERS) for _ in range(2)]
    numbers = [str(_read(child)["ready"]) for child in children]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    won = [_read(child)["won"] for child in children]
    for child in children:
        _, errors = child.communicate(timeout=CHILD_S)
        assert child.returncode == 0, errors
    store = FileStore(str(tmp_path / "store"))
    found = [await texts(store, LogUnits(f"race {i}", 0)) for i in range(40)]
    await store.close()

    assert sum(won) == 40
    assert all(text in [[number] * 2 for number in numbers] for text in found)
    assert [sum(text == [number] * 2 for text in found) for number in numbers] == won


DYING = """
how, after = sys.argv[2], int(sys.argv[3])
import agentos.persistence.file.tail as tail
whole = tail.write_all
left = None

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def point(step):
    global left
    if left is not None and how == step:
        left -= 1
        if left < 0:
            die()

def half(descriptor, data, offset):
    global left
    if left is not None and how == "half":
        left -= 1
        if left < 0:
            whole(descriptor, data[: len(data) * 2 // 3], offset)
            die()
    whole(descriptor, data, offset)

tail.write_all = half

async def main():
    global left
    store = FileStore(path, point=point, segment_bytes=6_000)
    writer = await store.open("program")
    logs = [LogUnits(f"{i}", writer) for i in range(3)]
    left = after
    while True:
        for log in logs:
            log_text = f"{log.seq}"
            units = [log.unit(text=log_text)]
            assert await append(store, *units) == [Verdict.STORED]
            say(acknowledged=[log.id, log.seq])

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["write", "half", "fsync", "create"])
@pytest.mark.parametrize("after", [0, 4])
async def test_a_process_that_is_killed_in_a_write_loses_nothing_that_was_acknowledged(
    tmp_path: Path, start: Start, how: str, after: int
) -> None:
    child = start(DYING, how, str(after))
    output, errors = child.communicate(timeout=CHILD_S)
    assert child.returncode == -signal.SIGKILL, errors
    acknowledged = dict(json.loads(line)["acknowledged"] for line in output.splitlines())
    async with open_file(tmp_path / "store", segment_bytes=6_000) as (store, _):
        for i in range(3):
            log = LogUnits(str(i), 0)
            row = await store.claim(log.id)
            count = len(await texts(store, log))
            assert count - acknowledged.get(log.id, 0) in ((0, 1) if how == "fsync" else (0,))
            if row is not None:
                log.create = None
                assert await append(store, log.owned(row).unit(text="more")) == STORED
        assert await store.damages() == []
        repaired = [line for line in _lines(tmp_path / "store") if line["op"] == "repaired"]

    assert len(repaired) == (how == "half")


OWNER = """
async def main():
    async with opened(lambda: FileStore(path)) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        say(writer=writer)
        sys.stdin.readline()
        say(verdicts=[verdict.value for verdict in await append(store, log.unit())])

asyncio.run(main())
"""


async def test_a_killed_writer_is_dead_at_once_and_a_living_one_is_not(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "store"
    child = start(OWNER)
    number = _read(child)["writer"]
    log = LogUnits("a", number)
    async with open_file(path) as (store, _):
        while_living = await store.claim(log.id)
        alive = [row.alive for row in await store.writers()]
        child.kill()
        child.wait(CHILD_S)
        dead = [row.alive for row in await store.writers()]
        claimed = await store.claim(log.id)
    async with open_file(path) as (store, _):
        ended = [row.ended_at is not None for row in await store.writers()]

    assert while_living is None
    assert (alive, dead, ended) == ([True, True], [False, True], [True, True, False])
    assert claimed is not None
    assert (claimed.epoch, claimed.seq) == (2, 1)
    assert os.listdir(path / "writers") == []


def test_a_dead_writer_is_dead_to_all_who_ask_at_once(tmp_path: Path) -> None:
    folder = f"{tmp_path}/"
    asking = [os.open(tmp_path / "7.lock", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    for descriptor in asking:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    while_asked = is_dead(folder, 7, clear=False)
    for descriptor in asking:
        os.close(descriptor)
    alive = WriterLock(folder, 7)
    living = is_dead(folder, 7)
    alive.release()

    assert (while_asked, living, is_dead(folder, 7)) == (True, False, True)


async def test_a_stopped_owner_that_was_declared_dead_is_fenced_when_it_wakes(tmp_path: Path, start: Start) -> None:
    child = start(OWNER)
    number = _read(child)["writer"]
    child.send_signal(signal.SIGSTOP)
    async with open_file(tmp_path / "store") as (store, _):
        before = await store.claim(LogUnits("a", number).id)
        declared = [await store.declare_dead(number), await store.declare_dead(number), await store.declare_dead(99)]
        row = await store.claim(LogUnits("a", number).id)
        child.send_signal(signal.SIGCONT)
        output, errors = child.communicate("go\n", timeout=CHILD_S)
        assert row is not None
        verdicts = await append(store, LogUnits("a", 0).owned(row).unit(create=None))

    assert child.returncode == 0, errors
    assert before is None
    assert declared == [True, False, False]
    assert json.loads(output)["verdicts"] == [Verdict.FENCED.value]
    assert verdicts == STORED


STOPPED = """
async def main():
    store = FileStore(path, point=lambda step: step == "fsync" and armed and os.kill(os.getpid(), signal.SIGSTOP))
    log = LogUnits("a", await store.open("program"))
    armed.append(True)
    say(verdicts=[verdict.value for verdict in await append(store, log.unit(text="x"))])
    armed.clear()
    await store.close()

armed = []
asyncio.run(main())
"""


async def test_a_process_that_stops_with_the_lock_is_named_as_busy_and_goes_on(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "store"
    async with open_file(path, settings=Settings(busy_timeout_ms=100)) as (store, writer):
        child = start(STOPPED)
        await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(StoreBusy, match="busy_timeout_ms"):
            await store.post(post_of("conversation_x", "k"))
        with pytest.raises(StoreBusy, match="busy_timeout_ms"):
            await store.logs()
        child.send_signal(signal.SIGCONT)
        said = _read(child)
        child.communicate(timeout=CHILD_S)
        found = await texts(store, LogUnits("a", writer))

    assert said["verdicts"] == [Verdict.STORED.value]
    assert found == ["x"]


UNCLOSED = """
how = sys.argv[2]

async def main():
    store = FileStore(path, durability=Durability.NORMAL)
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit())
    await store.query("select 1")
    say(ready=True)
    if how == "raises":
        raise RuntimeError("on purpose")
    if how == "exits":
        sys.exit(7)
    await asyncio.sleep(60)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("how", "code"), [("raises", 1), ("exits", 7), ("waits", 130)])
def test_a_process_ends_though_its_store_was_not_closed(start: Start, how: str, code: int) -> None:
    child = start(UNCLOSED, how)
    _read(child)
    if how == "waits":
        child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=CHILD_S)

    assert child.returncode == code
    assert [line for line in errors.splitlines() if "Thread" in line or "Exception ignored" in line] == []


def _lines(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "segments").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


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
