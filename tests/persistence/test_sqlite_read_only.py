"""F09: a store in a folder that cannot be written to is read where that is safe, and said to be closed where it is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append
from tests.persistence.children import Start, end, read, starter, tell

UNPRIVILEGED = """
import ctypes

def obey_modes():
    '''Drops what lets root pass by the modes of files; does nothing for others.'''
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
    none = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capset(ctypes.byref(Header(0x20080522, 0)), ctypes.byref(none)) == 0, ctypes.get_errno()

obey_modes()

async def told(work):
    try:
        answer = await work
        return len(answer) if isinstance(answer, list) else answer
    except StoreUnavailable as error:
        return f"{type(error).__name__}: {error}"
"""
READS = """
async def main():
    store = SQLiteStore(path)
    log = LogUnits("a", 1).id
    queried = await told(store.query("select text from messages"))
    say(entries=await told(store.entries(log)), queried=getattr(queried, "rows", queried))
    if sys.stdin.readline().strip() == "again":
        say(entries=await told(store.entries(log)))
    await store.close()
    opened = await told(SQLiteStore(path).open("program"))
    say(opened=opened)

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "folder"
    folder.mkdir()
    yield folder
    folder.chmod(stat.S_IRWXU)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    with starter(folder / "store.db") as start:
        yield start


async def test_a_store_that_nobody_writes_to_is_read_in_a_folder_that_cannot_be_written_to(
    folder: Path, start: Start
) -> None:
    await _filled(folder / "store.db")
    _set_mode(folder, 0o500)
    child = start(UNPRIVILEGED + READS)
    first = read(child)
    tell(child)

    assert first == {"entries": 1, "queried": [["hello"]]}
    assert "cannot make files in" in end(child)["opened"]
    assert sorted(os.listdir(folder)) == ["store.db"]


async def test_what_is_read_without_locks_must_not_change(folder: Path, start: Start) -> None:
    log = await _filled(folder / "store.db")
    _set_mode(folder, 0o500)
    child = start(UNPRIVILEGED + READS)
    read(child)
    _set_mode(folder, 0o700)
    store = SQLiteStore(str(folder / "store.db"))
    log.owner = await store.open("program")
    await store.close()
    tell(child, "again")

    assert "changed while it was read without locks" in read(child)["entries"]


async def test_a_log_that_is_not_copied_back_is_never_passed_over(folder: Path, start: Start) -> None:
    store = SQLiteStore(str(folder / "store.db"))
    await append(store, LogUnits("a", await store.open("program")).unit(text="hello"))
    copy = folder / "copy"
    copy.mkdir()
    for name in ("store.db", "store.db-wal"):
        (copy / name).write_bytes((folder / name).read_bytes())
    await store.close()
    for name in ("store.db", "store.db-wal"):
        (copy / name).replace(folder / name)
    copy.rmdir()
    _set_mode(folder, 0o500)
    child = start(UNPRIVILEGED + READS)
    first = read(child)
    tell(child)
    end(child)

    for told in first.values():
        assert "has a write-ahead log in use" in told
        assert "copy the file and its -wal to a folder of yours" in told


async def test_a_store_that_is_being_written_is_read_with_locks(folder: Path, start: Start) -> None:
    store = SQLiteStore(str(folder / "store.db"))
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit(text="hello"))
    _set_mode(folder, 0o500)
    child = start(UNPRIVILEGED + READS)
    first = read(child)
    verdicts = [await append(store, log.unit()), await append(store, log.unit())]
    tell(child, "again")
    again = read(child)
    _set_mode(folder, 0o700)
    await store.close()

    assert first == {"entries": 1, "queried": [["hello"]]}
    assert verdicts == [[Verdict.STORED]] * 2
    assert again == {"entries": 3}


async def test_a_file_that_may_not_be_read_or_written_is_named(folder: Path, start: Start) -> None:
    await _filled(folder / "store.db")
    _set_mode(folder / "store.db", 0o000)
    closed = start(UNPRIVILEGED + READS)
    first = read(closed)
    tell(closed)
    opened = end(closed)["opened"]
    _set_mode(folder / "store.db", 0o400)
    readable = start(UNPRIVILEGED + READS)
    second = read(readable)
    tell(readable)

    for told in first.values():
        assert f"cannot read {folder}/store.db: Permission denied" in told
    assert f"cannot write to {folder}/store.db: Permission denied" in opened
    assert second == {"entries": 1, "queried": [["hello"]]}
    assert f"cannot write to {folder}/store.db: Permission denied" in end(readable)["opened"]


async def _filled(path: Path) -> LogUnits:
    store = SQLiteStore(str(path))
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit(text="hello"))
    await store.close()
    return log


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
