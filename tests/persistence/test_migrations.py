"""A store of an older version is upgraded when it is opened for writing: wholly or not at all, once, and no entry changes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hatchling.builders.wheel import WheelBuilder

from agentos.errors import StoreTooOld, StoreUnavailable
from agentos.history import verify_store
from agentos.persistence import schema
from agentos.persistence.sqlite import SQLiteStore
from agentos.persistence.sqlite import file as sqlite_file
from agentos.persistence.upgrading import migrations_folder, upgrade_sqlite
from agentos.persistence.writer_lock import WriterLock
from tests.corpus.support import STORES

ROOT = Path(__file__).parents[2]
VERSION_1 = STORES[0]
CHILD_S = 60
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 1, whose process has died."""
    return Path(shutil.copy(VERSION_1, tmp_path / "store.db"))


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Starts processes that run a script on the store; none outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", script, str(path)]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        if child.stdin is not None and not child.stdin.closed:
            child.communicate()


def version_of(path: Path) -> int:
    db = sqlite3.connect(path)
    (version,) = db.execute("pragma user_version").fetchone()
    db.close()
    return int(version)


def rows_of(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    rows = db.execute(sql).fetchall()
    db.close()
    return rows


def test_all_migrations_from_nothing_lead_to_the_packaged_schema(tmp_path: Path) -> None:
    upgrade_sqlite("sqlite:///new.db", str(tmp_path / "new.db"), schema.SCHEMA_VERSION, 1_000)
    migrated = sqlite3.connect(tmp_path / "new.db")
    packaged = sqlite_file.open_in_memory()

    assert dict(_described(migrated)) == dict(_described(packaged))
    for name in ("user_version", "application_id"):
        assert migrated.execute(f"pragma {name}").fetchone() == packaged.execute(f"pragma {name}").fetchone()
    migrated.close()
    packaged.close()


def _described(db: sqlite3.Connection) -> Iterator[tuple[str, object]]:
    """Columns in order by table, and the text of all else, whatever its line breaks."""
    for type_, name, sql in db.execute("select type, name, sql from sqlite_schema").fetchall():
        columns = db.execute('select name, type, "notnull", pk from pragma_table_info(?)', (name,)).fetchall()
        yield name, (type_, columns if type_ == "table" else " ".join((sql or "").split()))


def test_the_last_revision_is_the_version_of_the_schema() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))

    assert ScriptDirectory.from_config(config).get_heads() == [f"{schema.SCHEMA_VERSION:04d}"]


@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION))
def test_an_older_file_becomes_what_a_new_one_is(version: int, path: Path) -> None:
    shutil.copy(STORES[version - 1], path)
    before = rows_of(path, "select n, seq, head, digest from entries order by n, seq")
    upgrade_sqlite("sqlite:///store.db", str(path), schema.SCHEMA_VERSION, 1_000)
    db, packaged = sqlite3.connect(path), sqlite_file.open_in_memory()

    assert dict(_described(db)) == dict(_described(packaged))
    assert rows_of(path, "select n, seq, head, digest from entries order by n, seq") == before
    db.close()
    packaged.close()


def test_the_wheel_carries_every_revision_and_the_schema_of_each_dialect(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())

    ours = [
        path.relative_to(ROOT / "migrations") for path in (ROOT / "migrations").rglob("*.*") if path.suffix != ".pyc"
    ]
    assert len(ours) > schema.SCHEMA_VERSION
    assert {f"agentos/persistence/migrations/{path.as_posix()}" for path in ours} <= names
    assert {f"agentos/persistence/{dialect}/schema.sql" for dialect in ("sqlite", "postgresql")} <= names


async def test_an_older_store_is_upgraded_and_no_entry_changes(path: Path) -> None:
    before = rows_of(path, "select n, seq, head, digest from entries order by n, seq")
    store = SQLiteStore(str(path))
    await store.open("program")
    report = await verify_store(store)
    pinned = (await store.query("select context in (select digest from definitions) from turns")).rows
    parents = (await store.query("select distinct parent_call from tool_calls")).rows
    await store.close()

    assert version_of(path) == schema.SCHEMA_VERSION
    assert report.ok, "\n".join(map(str, report.differences))
    assert pinned == [(1,)] * 7
    assert parents == [(None,)]
    assert rows_of(path, "select n, seq, head, digest from entries order by n, seq") == before
    assert not rows_of(path, "select name from sqlite_schema where name like '%alembic%'")


async def test_an_older_store_is_not_changed_by_reading_it(path: Path) -> None:
    store = SQLiteStore(str(path))

    for read in (store.logs, lambda: store.query("select 1")):
        with pytest.raises(
            StoreTooOld, match=f"schema version 1, this program reads {schema.SCHEMA_VERSION}; 'agentos upgrade'"
        ):
            await read()
    assert version_of(path) == 1
    await store.close()


async def test_a_store_that_an_older_program_writes_to_is_left_to_it(path: Path) -> None:
    lock = WriterLock(str(path), 1)
    with pytest.raises(StoreUnavailable, match="process 1 of localhost has it open with schema version 1; end it"):
        await SQLiteStore(str(path)).open("program")
    lock.release()

    assert version_of(path) == 1
    store = SQLiteStore(str(path))
    assert await store.open("program") == 2
    await store.close()


KILLED = """
import asyncio, os, signal, sys
from alembic import command
from agentos.persistence.sqlite import SQLiteStore

upgrade = command.upgrade

def upgrade_and_die(*arguments):
    upgrade(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

command.upgrade = upgrade_and_die
asyncio.run(SQLiteStore(sys.argv[1]).open("program"))
"""


async def test_a_process_that_dies_in_an_upgrade_leaves_the_store_as_it_was(path: Path, start: Start) -> None:
    killed = start(KILLED)
    killed.communicate(timeout=CHILD_S)
    assert killed.returncode == -signal.SIGKILL

    assert version_of(path) == 1
    store = SQLiteStore(str(path))
    await store.open("program")
    report = await verify_store(store)
    await store.close()
    assert version_of(path) == schema.SCHEMA_VERSION
    assert report.ok


MANY = """
import asyncio, sys
from agentos.persistence import upgrading
from agentos.persistence.sqlite import SQLiteStore

run = upgrading.run_migrations

def say_and_run(connection):
    print("upgrades", flush=True)
    run(connection)

upgrading.run_migrations = say_and_run

async def main():
    store = SQLiteStore(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open("program")
    await store.query("select parent_call from tool_calls")
    await store.close()

asyncio.run(main())
"""


def test_of_processes_that_come_at_once_one_upgrades(path: Path, start: Start) -> None:
    children = [start(MANY) for _ in range(3)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=CHILD_S)[0] for child in children]

    assert [child.returncode for child in children] == [0, 0, 0]
    assert sorted(said) == ["", "", "upgrades\n"]
    assert version_of(path) == schema.SCHEMA_VERSION


LEAN = """
import asyncio, sys
from agentos.persistence.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open("program")
    await store.close()
    print([name for name in ("alembic", "sqlalchemy") if name in sys.modules])

asyncio.run(main())
"""


async def test_a_store_of_this_version_is_opened_without_alembic(path: Path, start: Start) -> None:
    store = SQLiteStore(str(path))
    await store.open("program")
    await store.close()

    assert start(LEAN).communicate(timeout=CHILD_S)[0] == "[]\n"
