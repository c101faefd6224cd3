"""F18: what is done to the files of an open store is told, and nothing is stored where nobody finds it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentos.errors import StoreDamaged, StoreError, StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append, post_of

LONG = "x" * 300_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(str(path))
    await store.open("program")
    yield store
    await store.close()


@pytest.fixture
async def log(store: SQLiteStore) -> LogUnits:
    log = LogUnits("a", 1)
    await append(store, log.unit(text="first"))
    return log


def _delete(path: Path) -> None:
    path.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def _replace(path: Path) -> None:
    other = path.with_name("other.db")
    sqlite3.connect(other).close()
    shutil.copy(path, other)
    other.replace(path)


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _cut_off_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def _remove_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def _replace_log(path: Path) -> None:
    _remove_log(path)
    Path(f"{path}-wal").touch()


def _remove_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


DEEDS: list[tuple[Callable[[Path], None], type[StoreError], str]] = [
    (_delete, StoreUnavailable, r"store\.db was deleted or moved away while it was open"),
    (_move, StoreUnavailable, r"store\.db was deleted or moved away while it was open"),
    (_replace, StoreUnavailable, r"store\.db was replaced by another file while it was open"),
    (_truncate, StoreDamaged, r"store\.db was truncated from \d+ to 0 bytes while it was open"),
    (_cut_off_a_page, StoreDamaged, r"store\.db was truncated from \d+ to \d+ bytes while it was open"),
    (_remove_log, StoreDamaged, r"store\.db-wal was removed while the store was open; close it now"),
    (_replace_log, StoreDamaged, r"store\.db-wal was replaced while the store was open"),
    (_remove_index, StoreDamaged, r"store\.db-shm was removed while the store was open"),
]


@pytest.mark.parametrize(("deed", "error", "words"), DEEDS, ids=[deed.__name__ for deed, _, _ in DEEDS])
async def test_whatever_was_done_to_the_file_is_told_by_every_write_and_read(
    store: SQLiteStore, log: LogUnits, path: Path, deed: Callable[[Path], None], error: type[StoreError], words: str
) -> None:
    await store.entries(log.id)
    await store.query("select 1")
    _copy_log_back(store)
    await append(store, log.unit())
    deed(path)

    for text in ("small", LONG):
        with pytest.raises(error, match=words):
            await append(store, log.unit(text=text))
    with pytest.raises(error, match=words):
        await store.post(post_of(log.id, "k"))
    with pytest.raises(error, match=words):
        await store.claim(log.id)
    for read in (store.entries(log.id), store.log(log.id), store.inbox(), store.query("select text from messages")):
        with pytest.raises(error, match=words):
            await read


@pytest.mark.parametrize(("deed", "error", "words"), DEEDS, ids=[deed.__name__ for deed, _, _ in DEEDS])
async def test_a_first_read_after_the_deed_is_no_empty_history(
    store: SQLiteStore, log: LogUnits, path: Path, deed: Callable[[Path], None], error: type[StoreError], words: str
) -> None:
    _copy_log_back(store)
    await append(store, log.unit())
    deed(path)

    with pytest.raises(StoreError):
        await store.entries(log.id)
    with pytest.raises(StoreError):
        await store.query("select text from messages")


async def test_a_file_that_is_taken_away_within_a_transaction_gets_no_verdict(path: Path) -> None:
    deeds: list[Callable[[Path], None]] = []
    store = SQLiteStore(str(path), point=lambda name: deeds.pop()(path) if deeds and name == "exec" else None)
    log = LogUnits("a", await store.open("program"))
    deeds.append(_delete)
    with pytest.raises(StoreUnavailable, match="was deleted"):
        await append(store, log.unit())
    await store.close()

    assert not _exists(path)


async def test_a_reader_alone_is_told_too(store: SQLiteStore, log: LogUnits, path: Path) -> None:
    await store.close()
    reader = SQLiteStore(str(path))
    before = await reader.entries(log.id)
    _replace(path)

    assert len(before) == 1
    with pytest.raises(StoreUnavailable, match="replaced"):
        await reader.entries(log.id)
    await reader.close()


@pytest.mark.parametrize("deed", [_remove_log, _remove_index, _move])
async def test_what_was_acknowledged_is_in_the_file_after_the_close(
    store: SQLiteStore, log: LogUnits, path: Path, deed: Callable[[Path], None]
) -> None:
    for _ in range(20):
        await append(store, log.unit(text="acknowledged"))
    deed(path)
    with pytest.raises(StoreError):
        await append(store, log.unit(text="refused"))
    await store.close()
    again = SQLiteStore(str(path.with_name("elsewhere.db") if deed is _move else path))
    texts = (await again.query("select text, count(*) from messages group by text order by 2")).rows
    await again.close()

    assert texts == [("first", 1), ("acknowledged", 20)]


async def test_the_file_that_replaced_ours_is_left_as_it_is(store: SQLiteStore, log: LogUnits, path: Path) -> None:
    _copy_log_back(store)
    _replace(path)
    before = _content(path)
    with pytest.raises(StoreUnavailable, match="replaced"):
        await append(store, log.unit())
    await store.close()

    assert _content(path) == before


async def test_a_file_that_is_put_back_goes_on(store: SQLiteStore, log: LogUnits, path: Path) -> None:
    _move(path)
    unit = log.unit()
    with pytest.raises(StoreUnavailable):
        await append(store, unit)
    path.with_name("elsewhere.db").rename(path)

    assert await append(store, unit) == [Verdict.STORED]
    assert len(await store.entries(log.id)) == 2


async def test_a_file_that_another_program_vacuumed_goes_on(store: SQLiteStore, log: LogUnits, path: Path) -> None:
    await append(store, log.unit(text=LONG))
    await store.entries(log.id)
    _copy_log_back(store)
    await append(store, log.unit())
    before = _size(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("update messages set text = '' where length(text) > 1000")
    other.execute("vacuum")
    other.execute("pragma wal_checkpoint(truncate)")
    other.close()

    assert _size(path) < before
    assert await append(store, log.unit()) == [Verdict.STORED]
    assert len(await store.entries(log.id)) == 4


def _copy_log_back(store: SQLiteStore) -> None:
    """So that the file holds all, and not its log."""
    assert store._writer is not None
    store._writer.db.execute("pragma wal_checkpoint(passive)")


def _exists(path: Path) -> bool:
    return path.exists()


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _size(path: Path) -> int:
    return path.stat().st_size
