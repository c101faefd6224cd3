"""A write that fails stores nothing, leaves the segment as it was, and the store goes on (F07, F08)."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.errors import StoreBusy, StoreUnavailable
from agentos.persistence import open_store
from agentos.persistence.base import Durability
from agentos.persistence.file import FileStore
from agentos.persistence.file.lock import FolderLock
from agentos.persistence.file.segments import Piece, Segments
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of
from tests.persistence.file_support import STORED, open_file, said, segment, store_of_three_logs, texts


class Faults:
    """Raises at the steps that are listed, once each."""

    def __init__(self) -> None:
        self.at: list[str] = []
        self.error = errno.ENOSPC

    def __call__(self, step: str) -> None:
        if step in self.at:
            self.at.remove(step)
            raise OSError(self.error, os.strerror(self.error))


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if happened():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never happened")


@pytest.mark.parametrize("durability", Durability)
@pytest.mark.parametrize(("step", "number"), [("write", errno.ENOSPC), ("write", errno.EIO), ("fsync", errno.EIO)])
async def test_a_failed_append_stores_nothing_and_the_next_one_works(
    tmp_path: Path, durability: Durability, step: str, number: int
) -> None:
    if step == "fsync" and durability is not Durability.FULL:
        return  # what is not synced at once is tested below
    path, faults = tmp_path / "store", Faults()
    async with open_file(path, durability=durability, point=faults) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="one"))
        before = segment(path).read_bytes()
        unit = log.unit(text="two")
        faults.at, faults.error = [step], number
        with pytest.raises(StoreUnavailable, match=errno.errorcode[number]):
            await append(store, unit)
        after = segment(path).read_bytes()
        between = await texts(store, log)
        faults.at = [step]
        with pytest.raises(StoreUnavailable):
            await store.post(post_of(log.id, "k"))
        posted = await store.post(post_of(log.id, "k"))
        verdicts = await append(store, unit)
    async with open_file(path) as (store, _):
        again = await texts(store, log)

    assert after == before
    assert (between, posted, verdicts) == (["one"], True, STORED)
    assert again == ["one", "two"]


async def test_a_failed_roll_to_the_next_segment_stores_nothing_and_is_done_again(tmp_path: Path) -> None:
    path, faults = tmp_path / "store", Faults()
    async with open_file(path, point=faults, segment_bytes=100) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="0"))
        for i, steps in enumerate((["create"], ["write"], ["fsync"], ["fsync", "fsync"]), 1):
            unit = log.unit(text=str(i))
            faults.at = steps
            while faults.at:
                with pytest.raises(StoreUnavailable):
                    await append(store, unit)
            assert await append(store, unit) == STORED
    async with open_file(path) as (store, _):
        assert await texts(store, log) == [str(i) for i in range(5)]
        assert await store.damages() == []


LIMITED = """
import asyncio, json, os, resource, sys
from agentos.errors import StoreUnavailable
from agentos.persistence.file import FileStore
from agentos.testing.log_units import LogUnits, append

async def main():
    path = sys.argv[1]
    store = FileStore(path)
    log = LogUnits("a", await store.open("program"))
    segment = os.path.join(path, "segments", "00000001.jsonl")
    await append(store, log.unit(text="one"))
    size = os.path.getsize(segment)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3_000, resource.RLIM_INFINITY))
    unit = log.unit(text="x" * 10_000)
    try:
        await append(store, unit)
    except StoreUnavailable as error:
        print(json.dumps({"error": str(error), "same": os.path.getsize(segment) == size}))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(json.dumps([verdict.value for verdict in await append(store, unit)]))
    await store.close()

asyncio.run(main())
"""


async def test_a_write_that_the_system_cuts_short_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", LIMITED, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=60,
    )
    told, verdicts = (json.loads(line) for line in ran.stdout.splitlines())
    async with open_file(path) as (store, writer):
        found = await texts(store, LogUnits("a", writer))

    assert "EFBIG" in told["error"]
    assert told["same"]
    assert verdicts == ["stored"]
    assert found == ["one", "x" * 10_000]


async def test_a_lost_sync_is_told_and_made_up_for_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.persistence.file.store.SYNC_S", 0.001)
    steps: list[str] = []
    faults = Faults()

    def point(step: str) -> None:
        steps.append(step)
        faults(step)

    async with open_file(tmp_path / "store", durability=Durability.NORMAL, point=point) as (store, writer):
        log = LogUnits("a", writer)
        while "fsync" in steps:
            steps.remove("fsync")
        faults.at, faults.error = ["fsync"], errno.EIO
        assert await append(store, log.unit()) == STORED
        assert steps[-1] == "write"
        await until(lambda: bool(caplog.records))
        assert await append(store, log.unit()) == STORED
        await until(lambda: steps.count("fsync") >= 2)

    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "EIO" in caplog.text


async def _after_a_failed_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FileStore, LogUnits, Faults, int]:
    """A store with one unit that was acknowledged and could not be synced, and where its line begins."""
    monkeypatch.setattr("agentos.persistence.file.store.SYNC_S", 0.001)
    faults = Faults()
    store = FileStore(str(path), durability=Durability.NORMAL, point=faults)
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit(text="one"))
    await until(lambda: store._syncing is None and not store._worker.pending)  # type: ignore[union-attr]
    start = segment(path).stat().st_size
    faults.at, faults.error = ["fsync"], errno.EIO
    assert await append(store, log.unit(text="two")) == STORED
    await until(lambda: not faults.at and not store._worker.pending)  # type: ignore[union-attr]
    return store, log, faults, start


async def test_what_a_failed_sync_was_for_is_written_again_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may hold pages for written that are not: a sync that works later says nothing of them."""
    path = tmp_path / "store"
    store, log, faults, start = await _after_a_failed_sync(path, monkeypatch)
    written: list[tuple[bytes, int]] = []
    monkeypatch.setattr(
        "agentos.persistence.file.tail.write_all", lambda _, data, offset: written.append((data, offset))
    )
    faults.at = ["fsync"]
    with pytest.raises(StoreUnavailable, match="EIO"):
        await append(store, log.unit(text="three"))
    line = segment(path).read_bytes()[start:]
    await store.close()

    assert written[:2] == [(line, start)] * 2  # at the append, which did not get to its own line, and at the close
    assert [b'"op":"end"' in data for data, _ in written[2:]] == [True]


async def test_what_did_not_reach_the_disk_is_told_and_nothing_is_added_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    store, log, _, start = await _after_a_failed_sync(path, monkeypatch)
    with segment(path).open("r+b") as file:  # the system let go of the page, and reads what the disk has
        file.seek(start)
        file.write(b"\0" * 100)
    size, unit = segment(path).stat().st_size, log.unit(text="three")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"lines from offset {start} on did not reach the disk"):
            await append(store, unit)
        assert segment(path).stat().st_size == size
    await store.close()
    async with open_file(path) as (again, _):
        found = await texts(again, log)

    assert found == ["one"]
    assert "may not survive a power cut" in caplog.text


async def test_a_segment_that_another_writer_ended_is_synced_before_the_next_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.persistence.file.store.SYNC_S", 3_600.0)
    path = tmp_path / "store"
    steps: list[str] = []
    async with (
        open_file(path, durability=Durability.NORMAL, point=steps.append) as (store, writer),
        open_file(path, durability=Durability.RELAXED, segment_bytes=100) as (other, second),
    ):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="one"))
        await append(other, LogUnits("b", second).unit(text="in the next segment"))
        steps.clear()
        await append(store, log.unit(text="two"))
        seen = list(steps)

    assert segment(path, 2).exists()
    assert seen == ["fsync", "write"]


@pytest.mark.parametrize(("durability", "syncs"), [("full", 3), ("normal", 0), ("relaxed", 0)])
async def test_what_is_synced_before_the_verdict_is_what_the_durability_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, syncs: int
) -> None:
    monkeypatch.setattr("agentos.persistence.file.store.SYNC_S", 3_600.0)
    steps: list[str] = []
    store = FileStore(str(tmp_path / "store"), durability=Durability(durability), point=steps.append)
    log = LogUnits("a", await store.open("program"))
    steps.clear()
    for _ in range(3):
        await append(store, log.unit())
    before_close = steps.count("fsync")
    await store.close()

    assert before_close == syncs
    assert (steps.count("fsync") > syncs) == (durability != "relaxed")


async def test_a_relaxed_store_is_written_in_place_and_a_full_one_is_not(tmp_path: Path) -> None:
    kinds = []
    for durability in ("full", "normal", "relaxed"):
        store = open_store(f"file:{tmp_path / durability}?durability={durability}")
        log = LogUnits("a", await store.open("program"))
        answer = store.append([log.unit()])
        kinds.append(isinstance(answer, list))
        if isinstance(answer, asyncio.Future):
            await answer
        await store.close()

    assert kinds == [False, True, True]


@pytest.mark.parametrize("durability", Durability)
async def test_a_lock_that_is_held_is_waited_for_up_to_a_limit(tmp_path: Path, durability: Durability) -> None:
    path = tmp_path / "store"
    lock = FolderLock("file:test", str(path / "lock"))
    async with open_file(path, durability=durability, settings=Settings(busy_timeout_ms=50)) as (store, writer):
        log = LogUnits("a", writer)
        unit = log.unit(text="x")
        with lock.held(0):
            with pytest.raises(StoreBusy, match=r"50 ms \(busy_timeout_ms\)"):
                await append(store, unit)
            with pytest.raises(StoreBusy):
                await store.post(post_of(log.id, "k"))
            assert await store.inbox() == []  # nothing new: no lock is needed
        assert await append(store, unit) == STORED
    lock.close()


async def test_two_handles_of_one_process_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (one, first), open_file(path, durability=Durability.NORMAL) as (two, second):
        logs = [LogUnits("a", first), LogUnits("b", second)]
        for i in range(20):
            answers = [append(store, log.unit(text=str(i))) for store, log in zip((one, two), logs, strict=True)]
            assert await asyncio.gather(*answers) == [STORED, STORED]
        found = [[await texts(store, log) for log in logs] for store in (one, two)]

    assert found == [[[str(i) for i in range(20)]] * 2] * 2


async def test_a_cancelled_opening_leaves_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = FileStore(str(path))
    opening = asyncio.ensure_future(store.open("cancelled"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await until(lambda: not any(str(path) in thread.name for thread in threading.enumerate()))
    async with open_file(path) as (other, number):
        await until(lambda: os.listdir(path / "writers") == [f"{number}.lock"])
        rows = await other.writers()

    assert all(row.ended_at is not None for row in rows[:-1])


async def test_a_read_that_fails_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path)
    reader = FileStore(str(path))
    fails = [True]
    pieces = Segments.pieces

    def failing(segments: Segments, *where: int) -> Iterator[Piece]:
        for i, piece in enumerate(pieces(segments, *where)):
            if i == 7 and fails:
                fails.clear()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            yield piece

    monkeypatch.setattr(Segments, "pieces", failing)
    with pytest.raises(StoreUnavailable, match="EIO"):
        await reader.logs()
    found = [await texts(reader, log) for log in logs]
    damages = await reader.damages()
    await reader.close()

    assert found == [said(log, 4) for log in logs]
    assert damages == []


async def test_a_line_over_its_bound_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.persistence.file.writer.LINE_BYTES_MAX", 5_000)
    async with open_file(tmp_path / "store") as (store, writer):
        log, other = LogUnits("a", writer), LogUnits("b", writer)
        with pytest.raises(StoreUnavailable, match="LINE_BYTES_MAX"):
            await append(store, log.unit(text="x" * 5_000))
        assert await append(store, other.unit(text="x")) == STORED
