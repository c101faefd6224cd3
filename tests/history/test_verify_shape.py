"""What stands beside the rows of a database and could hide or change them is named, and no value ends the look at others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from agentos.errors import StoreDamaged
from agentos.history import Report, verify_store
from agentos.persistence.sqlite import SQLiteStore
from tests.history.support import Desk, office

CLERK = "(select n from logs join conversations using (n) where agent = 'clerk')"
SECRET = "the key is under the mat"


class Edit(NamedTuple):
    """What is done, and the table and field that have to be named; whose is `store` where it belongs to no log."""

    sql: str
    table: str
    field: str
    whose: str = "store"


HIDING = [
    Edit("create trigger x after insert on messages begin delete from messages; end", "schema", "x"),
    Edit("drop view history", "schema", "history"),
    Edit("drop view tool_calls; create view tool_calls as select * from calls limit 0", "schema", "tool_calls"),
    Edit("alter table messages rename to m; create view messages as select * from m limit 1", "schema", "messages"),
    Edit("alter table messages add column said text generated always as ('lie') virtual", "schema", "messages"),
    Edit("drop index logs_forks", "schema", "logs_forks"),
]
TYPES = [
    Edit("update logs set epoch = 'two' where kind = 'agent'", "logs", "epoch", "agent"),
    Edit("update logs set epoch = 2.5 where kind = 'agent'", "logs", "epoch", "agent"),
    Edit("update logs set id = cast(id as blob) where kind = 'agent'", "logs", "id"),
    Edit("update logs set seq = 'ten' where kind = 'agent'", "logs", "seq", "agent"),
    Edit(f"update entries set seq = 'ten' where seq = 10 and n = {CLERK}", "entries", "seq", "conversation"),
    Edit(f"update entries set seq = 9.5 where seq = 10 and n = {CLERK}", "entries", "seq", "conversation"),
    Edit(f"update entries set n = 'two' where seq = 10 and n = {CLERK}", "entries", "n"),
    Edit(f"update calls set n = x'02' where n = {CLERK}", "calls", "n"),
    Edit("update definitions set body = cast(body as blob)", "definitions", "body"),
    Edit("update writers set pid = 'one'", "writers", "pid"),
]
OUT_OF_SIGHT = [
    Edit(
        f"insert into entries select n, -5, unit, kind, turn, call, at, head, digest from entries where n = {CLERK} limit 1",
        "entries", "row", "conversation",
    ),
    Edit(
        "insert into entries select 1, -5, unit, kind, turn, call, at, head, digest from entries where n = 1",
        "entries", "row", "toolbox",
    ),
    Edit("insert into messages select 1, -5, role, 0, 0, salt, text from messages limit 1", "messages", "row", "toolbox"),
    Edit("insert into components values (1, '', '', '{}')", "components", "row", "toolbox"),
    Edit("update logs set n = -n where kind = 'agent'", "logs", "n", "agent"),
    Edit(f"update logs set forked_from = id, upto = 3 where n = {CLERK}", "logs", "units", "conversation"),
]  # fmt: skip


def name_of(edit: Edit) -> str:
    return f"{edit.table}.{edit.field}: {edit.sql.replace(CLERK, 'clerk')[:60]}"


@pytest.fixture
async def written(tmp_path: Path, desk: Desk) -> Path:
    path = tmp_path / "written.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(f"note text='{SECRET}'")
    return path


async def verified(path: Path, log: str | None = None) -> Report:
    store = SQLiteStore(str(path))
    try:
        return await verify_store(store, log=log)
    finally:
        await store.close()


def edited(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(sql)


def named(report: Report) -> set[tuple[str, str, str]]:
    return {(one.log.partition("_")[0], one.table, one.field) for one in report.differences}


@pytest.mark.parametrize("edit", [*HIDING, *TYPES, *OUT_OF_SIGHT], ids=name_of)
async def test_what_hides_or_changes_rows_is_named(written: Path, edit: Edit) -> None:
    edited(written, edit.sql)
    report = await verified(written)

    assert (edit.whose, edit.table, edit.field) in named(report), [str(one) for one in report.differences]
    assert SECRET not in str(report.differences)


async def test_what_others_keep_beside_the_tables_is_no_difference(written: Path) -> None:
    edited(written, "create view mine as select 1; create table notes (a); create index i on calls (tool); analyze")
    report = await verified(written)

    assert report.ok, report.differences


async def test_a_second_entry_of_one_seq_is_named_and_hides_no_other_edit(written: Path) -> None:
    edited(
        written,
        "alter table entries rename to old; create table entries as select * from old order by n, seq;"
        f"insert into entries select * from old where seq = 4 and n = {CLERK}; update calls set status = 'failed'",
    )
    report = await verified(written)

    assert {("conversation", "entries", "row"), ("store", "schema", "entries")} <= named(report)


async def test_a_row_that_an_index_does_not_know_is_named(written: Path) -> None:
    with closing(sqlite3.connect(written)) as db, db:
        db.execute("pragma writable_schema = on")
        index = db.execute("select * from sqlite_schema where name = 'conversations_agent'").fetchone()
        db.execute("delete from sqlite_schema where name = 'conversations_agent'")
    edited(written, "update conversations set updated_at = updated_at + 1")
    with closing(sqlite3.connect(written)) as db, db:
        db.execute("pragma writable_schema = on")
        db.execute("insert into sqlite_schema values (?, ?, ?, ?, ?)", index)
    report = await verified(written)

    assert ("store", "schema", "pages") in named(report), report.differences


async def test_a_value_that_is_no_text_is_named_with_its_log_alone_and_not_told(written: Path) -> None:
    edited(written, f"update messages set text = cast(x'ff' || text as text) where seq = 2 and n = {CLERK}")
    report = await verified(written)

    assert named(report) == {("conversation", "logs", "units")}
    assert [one.stored for one in report.differences] == ["column text has a value that is no text in UTF-8"]


async def test_a_reading_of_such_a_value_does_not_tell_it(written: Path) -> None:
    edited(written, "update messages set text = cast(text || x'ff' as text)")
    store = SQLiteStore(str(written))
    ((clerk,),) = (await store.query("select id from conversations")).rows
    with pytest.raises(StoreDamaged) as reading:
        await store.entries(clerk)
    with pytest.raises(StoreDamaged) as asking:
        await store.query("select text from messages")
    await store.close()

    assert SECRET not in f"{reading.value} {asking.value}"


async def test_one_log_is_looked_at_with_the_schema_and_not_with_the_rows_of_others(written: Path) -> None:
    with closing(sqlite3.connect(written)) as db:
        ((clerk,),) = db.execute("select id from conversations").fetchall()
    edited(written, "update logs set epoch = 'two' where kind = 'agent'; drop view history")
    report = await verified(written, clerk)

    assert named(report) == {("store", "schema", "history")}


async def test_one_log_that_cannot_be_compared_is_named_by_its_type(written: Path) -> None:
    with closing(sqlite3.connect(written)) as db:
        ((clerk,),) = db.execute("select id from conversations").fetchall()
    edited(written, f"update logs set seq = 'ten' where n = {CLERK}")
    report = await verified(written, clerk)

    assert ("conversation", "logs", "seq") in named(report), report.differences
