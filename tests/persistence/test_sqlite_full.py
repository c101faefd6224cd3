"""F07, F08: a full disk and a limit of file sizes lose nothing that was acknowledged, and the store goes on afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.errors import StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits, append
from tests.persistence.children import Start, end

LONG = "x" * 300_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open("program")
    yield store
    await store.close()


@pytest.mark.parametrize("text", ["small", LONG])
async def test_a_full_disk_stores_nothing_of_the_batch_and_is_told_with_the_path(
    store: SQLiteStore, path: str, text: str
) -> None:
    log, other = LogUnits("a", 1), LogUnits("b", 1)
    await append(store, log.unit(text="first"))
    batch = [log.unit(text=text), other.unit(text="y" * 20_000)]
    _allow_pages(store, 1)
    with pytest.raises(StoreUnavailable, match=r"disk is full \(SQLITE_FULL\): free space where .* goes on") as full:
        await append(store, *batch)
    row, no_row = await store.log(log.id), await store.log(other.id)
    _allow_pages(store, 1_000_000)

    assert str(full.value).count(path) == 2
    assert "yyy" not in str(full.value)
    assert row is not None
    assert (row.seq, no_row) == (1, None)
    assert await append(store, *batch) == [Verdict.STORED, Verdict.STORED]


async def test_a_disk_that_fills_up_under_load_keeps_every_acknowledged_unit(store: SQLiteStore) -> None:
    logs = [LogUnits(str(i), 1) for i in range(4)]
    await append(store, *(log.unit() for log in logs))
    _allow_pages(store, 40)
    kept: list[int] = []

    async def write() -> None:
        for i in range(1_000):
            units = [log.unit(text="x" * 1_000) for log in logs[: 1 + i % 4]]
            await append(store, *units)
            kept.append(len(units))

    with pytest.raises(StoreUnavailable, match="disk is full"):
        await write()
    (said,) = (await store.query("select count(*) from messages")).rows
    _allow_pages(store, 1_000_000)
    rows = {row.id: row for row in await store.logs()}
    verdicts = await append(store, *(log.owned(rows[log.id]).unit(text="after") for log in logs))

    assert len(kept) > 10
    assert said == (sum(kept),)
    assert verdicts == [Verdict.STORED] * 4


LIMITED = """
import resource

async def main():
    store = SQLiteStore(path)
    log = LogUnits("a", await store.open("program"))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    kept, refused = 0, ""
    while not refused:
        unit = log.unit(text="x" * random.choice([10, 5_000]))
        try:
            assert await append(store, unit) == [Verdict.STORED]
            kept += 1
        except StoreUnavailable as error:
            refused = str(error)
    during = len(await store.entries(log.id))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    again = await append(store, unit)
    await store.close()
    say(kept=kept, refused=refused, during=during, again=again == [Verdict.STORED])

asyncio.run(main())
"""


async def test_a_limit_of_file_sizes_is_told_and_the_same_unit_is_stored_once_it_is_raised(
    path: str, start: Start
) -> None:
    report = end(start(LIMITED))
    store = SQLiteStore(path)
    entries = await store.entries(LogUnits("a", 1).id)
    await store.close()

    assert report["kept"] > 20
    assert report["during"] == report["kept"]
    assert report["again"]
    assert len(entries) == report["kept"] + 1
    assert f"store sqlite:///{path}: disk I/O error" in report["refused"]
    assert "has reached the limit of 2000000 bytes (ulimit -f); what was acknowledged is kept" in report["refused"]


def _allow_pages(store: SQLiteStore, more: int) -> None:
    """SQLite answers as it does on a full disk once the file has so many pages more."""
    assert store._writer is not None
    db = store._writer.db
    (pages,) = db.execute("pragma page_count").fetchone()
    db.execute(f"pragma max_page_count = {pages + more}")
