"""What a SQLite store makes of the file that it is given."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from agentos.errors import StoreDamaged, StoreTooNew, StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append

LETTER = b"a letter to a friend\n" * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


async def test_a_new_file_and_its_side_files_are_for_their_owner_alone(path: Path) -> None:
    store = SQLiteStore(str(path))
    writer = await store.open("program")
    await append(store, LogUnits("a", writer).unit())
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await store.close()

    assert modes == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", f"store.db-writer-{writer}"], 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a directory; name a file"):
        await SQLiteStore(str(tmp_path)).open("program")


@pytest.mark.parametrize("place", ["{}/file/store.db", "/proc/agentos/store.db"])
async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailable, match=r"cannot make .*store\.db: "):
        await SQLiteStore(place.format(tmp_path)).open("program")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    _write(path, LETTER)

    with pytest.raises(StoreDamaged, match="not a database"):
        await SQLiteStore(str(path)).open("program")
    assert _read(path) == LETTER


@pytest.mark.parametrize("sql", ["create table theirs (x)", "pragma user_version = 1", "pragma application_id = 7"])
async def test_the_database_of_another_program_is_refused_and_left_alone(path: Path, sql: str) -> None:
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.execute("create table empty (x)")
    db.execute("drop table empty")
    db.execute(sql)
    db.close()
    before = _read(path)

    with pytest.raises(StoreDamaged, match="another program"):
        await SQLiteStore(str(path)).open("program")
    assert _read(path) == before


async def test_a_newer_store_is_refused_with_both_versions(path: Path) -> None:
    store = SQLiteStore(str(path))
    await store.open("program")
    await store.close()
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 7")
    db.close()

    with pytest.raises(StoreTooNew, match="schema version 7, this program knows up to 3"):
        await store.open("program")
    with pytest.raises(StoreTooNew):
        await SQLiteStore(str(path)).query("select 1")


async def test_a_damaged_file_is_said_to_be_damaged(path: Path) -> None:
    store = SQLiteStore(str(path))
    writer = await store.open("program")
    for name in "abcdefgh":
        await append(store, LogUnits(name, writer).unit(text="x" * 5000))
    await store.close()
    content = bytearray(_read(path))
    content[4096:] = b"\xff" * (len(content) - 4096)
    _write(path, content)

    with pytest.raises(StoreDamaged, match="malformed"):
        await store.open("program")


async def test_a_store_is_read_without_a_writer(path: Path) -> None:
    store = SQLiteStore(str(path))
    writer = await store.open("program")
    log = LogUnits("a", writer)
    await append(store, log.unit(text="hello"))
    await store.close()
    reader = SQLiteStore(str(path))
    entries = await reader.entries(log.id)
    writers = await reader.query("select count(*) from writers")
    await reader.close()

    assert [entry.seq for entry in entries] == [1]
    assert writers.rows == [(1,)]
    with pytest.raises(StoreUnavailable, match="closed"):
        await reader.log(log.id)


async def test_a_missing_file_is_not_made_by_reading(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        await SQLiteStore(str(path)).open_logs()

    assert not _exists(path)


async def test_a_store_in_sqlites_memory_is_read_and_queried() -> None:
    store = SQLiteStore()
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit(text="hello"))
    first = await store.query("select text from messages")
    verdicts = await append(store, log.unit(text="again"))
    second = await store.query("select text from messages")
    entries = await store.entries(log.id)
    await store.close()

    assert (first.rows, second.rows) == ([("hello",)], [("hello",), ("again",)])
    assert (verdicts, len(entries)) == ([Verdict.STORED], 2)


def _exists(path: Path) -> bool:
    return path.exists()


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _write(path: Path, content: bytes | bytearray) -> None:
    path.write_bytes(content)
