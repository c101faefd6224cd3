"""A whole store is read in one sweep, and nothing that a log by itself would show is lost at the borders of what is read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.history import Identical, pages, verify_store
from agentos.history.verify import tables
from agentos.persistence import open_store
from agentos.persistence.base import Store, StoredEntry
from agentos.persistence.scanning import Scannable
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.postgres import PostgresServer
from tests.history.support import Desk, office, replayed


async def written(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        for text in ("note text=a", "ask_aide task='note text=b'\nnote text=c"):
            await (await kernel.start("clerk")).ask(text)


async def by_log(store: Store) -> dict[str, list[StoredEntry]]:
    return {row.id: await store.entries(row.id) for row in await store.logs()}


@pytest.mark.parametrize("limit", [1, 3, 7, 1_000])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_sweep_gives_what_each_log_by_itself_gives(
    kind: str, limit: int, tmp_path: Path, postgres: PostgresServer, desk: Desk
) -> None:
    url = postgres.new_schema_url() if kind == "postgresql" else f"sqlite:///{tmp_path / 'store.db'}"
    await written(open_store(url), desk)
    store = open_store(url)
    assert isinstance(store, Scannable)
    names = dict(await pages.numbers_of(store))
    found: dict[str, list[StoredEntry]] = {log: [] for log in names.values()}
    said, after = 0, (0, 0)
    while stretches := await store.scan(after, limit):
        assert sum(len(stretch.entries) for stretch in stretches) <= limit
        for stretch in stretches:
            found[names[stretch.n]] += stretch.entries
            said += len(stretch.messages)
            assert [*stretch.columns] == [one.seq for one in stretch.entries]
        after = (stretches[-1].n, stretches[-1].entries[-1].seq)
    expected = await by_log(store)
    ((messages,),) = (await store.query("select count(*) from messages")).rows
    await store.close()

    assert found == expected
    assert said == messages


@pytest.mark.parametrize("entries", [1, 2, 5])
async def test_units_that_two_pages_share_are_verified_and_decided_again_whole(
    entries: int, tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SCANNED_ENTRIES", entries)
    path = tmp_path / "store.db"
    await written(SQLiteStore(str(path)), desk)
    store = SQLiteStore(str(path))
    report, results = await verify_store(store), await replayed(store)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update entries set turn = turn + 1 where seq = 7")
    edited = await verify_store(store)
    await store.close()

    assert report.ok, [str(one) for one in report.differences]
    assert all(isinstance(result, Identical) for result in results)
    assert {(one.seq, one.table, one.field) for one in edited.differences} == {(7, "entries", "turn")}


@pytest.mark.parametrize("rows", [1, 2, 3])
async def test_rows_of_a_log_that_lie_in_several_pages_are_all_compared(
    rows: int, tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "PAGE_ROWS", rows)
    path = tmp_path / "store.db"
    await written(SQLiteStore(str(path)), desk)
    store = SQLiteStore(str(path))
    report = await verify_store(store)
    with closing(sqlite3.connect(path)) as db, db:
        (seq,) = db.execute("select max(seq) from calls").fetchone()
        db.execute("update calls set tool = 'another' where seq = ?", (seq,))
        db.execute("delete from turns where n = (select max(n) from turns)")
    edited = await verify_store(store)
    await store.close()

    assert report.ok, [str(one) for one in report.differences]
    assert {(one.table, one.field) for one in edited.differences} == {("calls", "tool"), ("turns", "row")}


async def test_a_store_that_reads_each_log_by_itself_finds_the_same(tmp_path: Path, desk: Desk) -> None:
    await written(open_store(f"file:{tmp_path / 'folder'}"), desk)
    found = open_store(f"file:{tmp_path / 'folder'}")
    assert not isinstance(found, Scannable)
    report = await verify_store(found)
    await found.close()

    assert report.ok, [str(one) for one in report.differences]
