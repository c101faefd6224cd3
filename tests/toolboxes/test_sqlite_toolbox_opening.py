"""Opening, closing and reopening the database of a SQLite toolbox."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import ConfigurationError
from agentos.persistence.sqlite.file import APPLICATION_ID
from agentos.resources.kinds.sqlite_connection.link import STORE_APPLICATION_ID
from agentos.toolboxes.sqlite import SqliteToolbox
from tests.toolboxes.sqlite_support import ENDLESS, made, opened, query, rows, three_notes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return three_notes(tmp_path)


async def test_a_name_that_means_something_in_an_address_is_the_name_of_a_file(tmp_path: Path) -> None:
    path = made(
        tmp_path / "a?mode=rwc&x=%41#b é.db", "CREATE TABLE notes (id, text); INSERT INTO notes VALUES (1, 'odd')"
    )

    async with opened(path) as toolbox:
        assert (await query(toolbox, "SELECT text FROM notes"))["rows"] == [["odd"]]
        assert (await query(toolbox, "DELETE FROM notes")).kind == "refused"
    assert os.listdir(tmp_path) == [path.name]


async def test_a_missing_database_is_made_by_a_writing_toolbox(tmp_path: Path) -> None:
    toolbox = SqliteToolbox("kb", path=tmp_path / "new.db", access="read-write")
    await toolbox.open()
    await query(toolbox, "CREATE TABLE t (a)")
    assert (await query(toolbox, "PRAGMA journal_mode"))["rows"] == [["wal"]]
    await toolbox.close()

    assert rows(tmp_path / "new.db", "SELECT name FROM sqlite_schema") == ["t"]
    assert os.listdir(tmp_path) == ["new.db"]


@pytest.mark.parametrize("kind", ["missing", "directory", "text", "fifo"])
async def test_a_file_that_is_no_database_is_an_error_at_opening_that_names_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.db"
    if kind == "directory":
        path.mkdir()
    elif kind == "text":
        path.write_text("no database at all, " * 100)
    elif kind == "fifo":
        os.mkfifo(path)
    before = set(threading.enumerate())

    with pytest.raises(ConfigurationError, match=rf"toolbox kb: .*{path}"):
        await SqliteToolbox("kb", path=path, access="read-only").open()

    assert set(threading.enumerate()) <= before
    assert path.exists() is (kind != "missing")


async def test_a_folder_that_is_missing_is_an_error_at_opening(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"toolbox kb: the folder of .*/none/x.db does not exist; make it"):
        await SqliteToolbox("kb", path=tmp_path / "none/x.db", access="read-write").open()


def test_another_access_is_an_error(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="toolbox kb: access is 'snapshot'; it is read-only or read-write"):
        SqliteToolbox("kb", path=path, access="snapshot")  # type: ignore[arg-type]


async def test_a_store_of_agentos_may_be_read_and_not_written(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    reading = SqliteToolbox("kb", path=path, access="read-only")
    await reading.open()
    assert (await query(reading, "SELECT count(*) FROM notes"))["rows"] == [[3]]
    await reading.close()

    assert STORE_APPLICATION_ID == APPLICATION_ID
    with pytest.raises(ConfigurationError, match="it is a store of agentos, which no tool may write to"):
        await SqliteToolbox("kb", path=path, access="read-write").open()


async def test_a_file_that_goes_or_is_replaced_is_noticed_by_the_next_call(path: Path) -> None:
    async with opened(path) as toolbox:
        await query(toolbox, "SELECT 1")
        os.rename(path, f"{path}.old")
        gone = await query(toolbox, "SELECT text FROM notes")
        with closing(sqlite3.connect(path)) as db:
            db.executescript("CREATE TABLE notes (text); INSERT INTO notes VALUES ('another')")
        replaced = await query(toolbox, "SELECT text FROM notes")

    assert gone.kind == "gone"
    assert str(path) in gone.text
    assert replaced["rows"] == [["another"]]


async def test_closing_twice_is_closing_once_and_a_closed_toolbox_opens_again(path: Path) -> None:
    before = set(threading.enumerate())
    toolbox = SqliteToolbox("notes", path=path, access="read-only")
    await toolbox.open()
    await query(toolbox, "SELECT 1")
    await toolbox.close()
    await toolbox.close()

    assert set(threading.enumerate()) <= before
    assert (await query(toolbox, "SELECT 1")).kind == "closed"
    await toolbox.open()
    assert (await query(toolbox, "SELECT 1"))["rows"] == [[1]]
    await toolbox.close()


async def test_the_loop_goes_on_while_a_query_runs(path: Path) -> None:
    async with opened(path, time_s=60) as toolbox:
        running = asyncio.create_task(query(toolbox, f"{ENDLESS} SELECT count(*) FROM c"))
        for _ in range(5):
            await asyncio.sleep(0.005)
        went_on = not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert went_on
