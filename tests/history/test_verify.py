"""Whatever is edited in a store, verify names its log, seq, table and field, and nothing when nothing is edited."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentos.history import Report, verify_store
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from tests.history.support import Desk, crash, office

CLERK = "(select n from logs join conversations using (n) where agent = 'clerk')"
AIDE = "(select n from logs join conversations using (n) where agent = 'aide')"
AGENT = "type = 'agent_state' and entity = (select id from logs where n = 3)"
PROMPT = "kind = 'context' and body like '%Keep order%'"
CALL = (
    "turn, step, ordinal, tool, toolbox, effect, status, kind, attempt, child, started_at, finished_at, 5, 1, 8, parent,"
    " resolution"
)


class Edit(NamedTuple):
    """What is done, and what has to be named: whose log, seq, table and field."""

    sql: str
    log: str
    seq: int
    table: str
    field: str


def changed(table: str, seq: int, assignment: str, field: str = "") -> Edit:
    """One column of one row of the clerk's log; its name stands first in the assignment."""
    sql = f"update {table} set {assignment} where seq = {seq} and n = {CLERK}"
    return Edit(sql, "clerk", seq, table, field or assignment.split(maxsplit=1)[0])


def deleted(table: str, seq: int) -> Edit:
    return Edit(f"delete from {table} where seq = {seq} and n = {CLERK}", "clerk", seq, table, "row")


def added(table: str, seq: int, columns: str, like: int) -> Edit:
    sql = f"insert into {table} select n, {columns} from {table} where seq = {like} and n = {CLERK}"
    return Edit(sql, "clerk", seq, table, "row")


def in_row(table: str, assignment: str, agent: str = "clerk") -> Edit:
    """A table with one row for each log."""
    n = CLERK if agent == "clerk" else AIDE
    return Edit(f"update {table} set {assignment} where n = {n}", agent, 0, table, assignment.split(maxsplit=1)[0])


ENTRIES = [
    changed("entries", 4, "head = replace(head, '\"messages\":1', '\"messages\":2')"),
    changed("entries", 11, "head = head || ' '"),
    changed("entries", 24, "head = head || ' '"),
    changed("entries", 5, "head = 'no head'"),
    changed("entries", 5, "digest = randomblob(32)"),
    changed("entries", 24, "digest = randomblob(32)"),
    changed("entries", 5, "digest = 'text'"),
    changed("entries", 7, "kind = 'call.doubted'"),
    changed("entries", 7, "turn = 0"),
    changed("entries", 7, "call = 3"),
    changed("entries", 7, "at = at + 1"),
    changed("entries", 7, "unit = 8"),
    changed("entries", 7, "head = cast(head as blob)"),
    deleted("entries", 6),
    deleted("entries", 2),
    deleted("entries", 24),
    Edit(
        "delete from logs where id = (select id from conversations where agent = 'aide')",
        "number 6",
        0,
        "entries",
        "row",
    ),
]
BODIES = [
    changed("payloads", 5, "body = 'other'"),
    changed(
        "payloads", 15, f"body = (select body from payloads where n = {CLERK} and seq = 15 and i = 3 - payloads.i)"
    ),
    changed("payloads", 5, "salt = null", "body"),
    changed("payloads", 5, "body = null"),
    changed("payloads", 5, "name = 'text'"),
    deleted("payloads", 5),
    added("payloads", 5, "seq, 7, name, salt, body", like=5),
    added("payloads", 99, "99, i, name, salt, body", like=5),
    changed("messages", 8, "text = text || '!'"),
    changed("messages", 8, "role = 'user'"),
    changed("messages", 2, "role = 'tool'"),
    changed("messages", 8, "turn = 8"),
    changed("messages", 8, "call = 8"),
    changed("messages", 8, "salt = randomblob(16)", "text"),
    changed("messages", 8, "salt = null", "text"),
    deleted("messages", 8),
    added("messages", 99, "99, role, turn, call, salt, text", like=8),
]
ROWS = [
    changed("calls", 6, "status = 'failed'"),
    changed("calls", 6, "parent = 3"),
    changed("calls", 6, "resolution = 'done'"),
    changed("calls", 6, "finished_at = finished_at + 1"),
    changed("calls", 6, "result_seq = null"),
    changed("calls", 16, "child = null"),
    deleted("calls", 6),
    added("calls", 5, f"5, {CALL}", like=6),
    changed("turns", 3, "outcome = 'failed'"),
    changed("turns", 3, "context = '0'"),
    changed("turns", 3, "input_tokens = 1.5"),
    changed("turns", 3, "finished_at = null"),
    deleted("turns", 3),
    in_row("conversations", "turns = turns + 1"),
    in_row("conversations", "state = 'running'"),
    in_row("conversations", "parent = null", "aide"),
    in_row("conversations", "updated_at = 0"),
    Edit("delete from conversations where agent = 'clerk'", "clerk", 0, "conversations", "row"),
    in_row("logs", "seq = seq - 1"),
    in_row("logs", "digest = randomblob(32)"),
    in_row("logs", "owner = 77"),
    in_row("logs", "root = id", "aide"),
    in_row("logs", "parent_call = null", "aide"),
    in_row("logs", "tenant = 'other'"),
    in_row("logs", "kind = 'agent'"),
    in_row("logs", "upto = 3"),
    in_row("logs", "forked_from = (select id from logs where parent_call is not null)"),
    Edit("update logs set tenant = 'other' where kind = 'agent'", "agent", 0, "logs", "tenant"),
    changed("messages", 8, "text = cast(text as blob)"),
    changed("payloads", 5, "salt = '0123456789abcdef'", "body"),
    Edit(f"update components set body = '{{\"version\":2}}' where {AGENT}", "agent", 0, "components", "body"),
    Edit(f"delete from components where {AGENT}", "agent", 0, "components", "row"),
    Edit(
        f"insert into components select n, entity, 'other', body from components where {AGENT}",
        "agent", 0, "components", "row",
    ),
]  # fmt: skip
WAITING = [
    Edit(f"update definitions set body = body || ' ' where {PROMPT}", "definitions", 0, "definitions", "body"),
    Edit(f"delete from definitions where {PROMPT}", "clerk", 2, "definitions", "row"),
    Edit(f"update definitions set kind = 'toolset' where {PROMPT}", "clerk", 2, "definitions", "kind"),
    Edit("delete from definitions where kind = 'toolset'", "toolbox", 1, "definitions", "row"),
    Edit("update inbox set seq = 99", "clerk", 99, "inbox", "seq"),
    Edit("update inbox set body = 'kept'", "aide", 4, "inbox", "body"),
    Edit(
        f"insert into inbox (log, key, kind, salt, body) select id, 'x', 'input', x'', '' from logs where n = {CLERK}",
        "clerk", 0, "inbox", "body",
    ),
    Edit(
        f"insert into inbox (log, key, kind) select id, 'x', 'input' from logs where n = {CLERK}",
        "clerk", 0, "inbox", "body",
    ),
    Edit(
        f"insert into wakeups select id, 'retry', 3, 0, 1 from logs where n = {CLERK}",
        "clerk", 3, "wakeups", "row",
    ),
    Edit(f"update logs set seq = seq + 1 where n = {CLERK}", "clerk", 25, "entries", "row"),
]  # fmt: skip
EDITS = [*ENTRIES, *BODIES, *ROWS, *WAITING]


def name_of(edit: Edit) -> str:
    what = edit.sql.removesuffix(f" and n = {CLERK}").replace(CLERK, "clerk").replace(AIDE, "aide")
    return f"{edit.table}.{edit.field}: {what}"


@pytest.fixture
async def written(tmp_path: Path, desk: Desk) -> Path:
    """The file of a store with a clerk's two turns, the second with two calls, one of them to an aide."""
    path = tmp_path / "written.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        await clerk.ask("ask_aide task='note text=b'\nnote text=c")
    return path


async def verified(path: Path, edit: str = "") -> Report:
    if edit:
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute(edit).rowcount > 0
        db.close()
    store = SQLiteStore(str(path))
    try:
        return await verify_store(store)
    finally:
        await store.close()


def named(path: Path, report: Report) -> set[tuple[str, int, str, str]]:
    """Each difference, with its log by the name of the agent."""
    with closing(sqlite3.connect(path)) as db, db:
        names: dict[str, str] = dict(db.execute("select id, agent from conversations").fetchall())
    db.close()
    return {(_short(d.log, names), d.seq, d.table, d.field) for d in report.differences}


def _short(log: str, names: dict[str, str]) -> str:
    """A conversation that lost its row is the clerk's, whose row the tests delete."""
    if log in names:
        return names[log]
    kind = log.partition("_")[0]
    return {"conversation": "clerk", "log number 6": "number 6"}.get(kind, kind)


async def test_a_store_that_nobody_edited_has_no_differences(written: Path) -> None:
    report = await verified(written)

    assert report.ok, report.differences
    assert (report.logs, report.entries) == (6, 39)
    assert str(report).startswith("ok: 39 entries")


@pytest.mark.parametrize("edit", EDITS, ids=name_of)
async def test_what_was_edited_is_named(written: Path, edit: Edit) -> None:
    report = await verified(written, edit.sql)

    assert tuple(edit[1:]) in named(written, report), [str(difference) for difference in report.differences]
    assert "note text" not in str(report.differences)


@pytest.mark.parametrize("edit", [*BODIES, *ROWS], ids=name_of)
async def test_an_edited_row_is_named_with_nothing_else(written: Path, edit: Edit) -> None:
    report = await verified(written, edit.sql)

    assert {(log, seq, table) for log, seq, table, _ in named(written, report)} == {edit[1:4]}


async def test_a_head_that_is_edited_is_one_broken_link_of_the_chain(written: Path) -> None:
    report = await verified(written, changed("entries", 7, "head = head || ' '").sql)

    assert [(d.seq, d.table, d.field) for d in report.differences] == [(7, "entries", "head")]


async def test_an_open_turn_and_what_waits_are_no_difference(store: Store, desk: Desk) -> None:
    limits: dict[str, Any] = {"turn_s": 3_600.0}
    async with office(store, desk, clerk=limits) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a\nask_aide task='wait text=b'"))
        await desk.until_started(2)
        report = await verify_store(store)
        found = await crash(kernel)
        await asyncio.gather(asking, return_exceptions=True)
    after = await verify_store(found)
    await found.close()

    assert report.ok, report.differences
    assert after.ok, after.differences


async def test_a_missing_wake_up_of_an_open_turn_is_named(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "open.db"
    async with office(SQLiteStore(str(path)), desk, clerk={"turn_s": 3_600.0}) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a"))
        await desk.until_started(1)
        await crash(kernel)
        await asyncio.gather(asking, return_exceptions=True)
    report = await verified(path, "delete from wakeups")

    assert [(d.log, d.seq, d.table, d.field) for d in report.differences] == [(clerk.id, 3, "wakeups", "row")]


async def test_a_store_at_work_is_verified_without_false_differences(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "busy.db"
    async with office(SQLiteStore(str(path)), desk, settings=Settings(snapshot_entries=50)) as kernel:
        clerks = [await kernel.start("clerk") for _ in range(5)]

        async def work() -> None:
            while True:
                await asyncio.gather(*(clerk.ask("note text=a\nask_helper task='note text=b'") for clerk in clerks))
                await asyncio.sleep(0.05)

        working = asyncio.ensure_future(work())
        reports = [await verified(path)]
        while len(reports) < 6 or reports[-1].entries == reports[0].entries:
            reports.append(await verified(path))
        working.cancel()

    assert reports[0].entries < reports[-1].entries
    assert all(report.ok for report in reports), [str(d) for report in reports for d in report.differences]


async def test_only_so_many_differences_are_kept(written: Path) -> None:
    with closing(sqlite3.connect(written)) as db, db:
        db.execute("update messages set text = 'x'")
    db.close()
    store = SQLiteStore(str(written))
    report = await verify_store(store, differences_max=3)
    await store.close()

    assert len(report.differences) == 3
    assert report.more > 3
