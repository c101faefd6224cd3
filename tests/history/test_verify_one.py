"""One log is verified with those that it forks from, and nothing else of the store is looked at."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from agentos.errors import UnknownConversation
from agentos.history import Report, verify_store
from agentos.persistence import open_store
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from tests.history.anchor_support import KINDS, maker, work
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, office


class Written(NamedTuple):
    path: Path
    clerk: str
    other: str
    fork: str
    fork_of_fork: str


@pytest.fixture
async def written(tmp_path: Path, desk: Desk) -> Written:
    """A clerk with snapshots, another one, a fork of the first in the midst of its last turn, and a fork of that."""
    path = tmp_path / "written.db"
    async with office(SQLiteStore(str(path)), desk, settings=Settings(snapshot_entries=10)) as kernel:
        clerk, other = await kernel.start("clerk"), await kernel.start("clerk")
        for text in "abc":
            await clerk.ask(f"note text={text}")
        await other.ask("note text=other")
        ends = ends_of_units(await kernel.store.entries(clerk.id))
        first = await fork(kernel, clerk.id, ends[-3])
        assert first is not None
        again = None
        for upto in ends_of_units(await kernel.store.entries(first))[::-1]:
            again = again or await fork(kernel, first, upto)
        assert again is not None
    return Written(path, clerk.id, other.id, first, again)


async def verified(written: Written, log: str | None, edit: str = "", of: str = "") -> Report:
    if edit:
        with closing(sqlite3.connect(written.path)) as db, db:
            n = f"(select n from logs where id = '{of}')"
            assert db.execute(f"{edit} where n = {n}").rowcount > 0
    store = open_store(f"sqlite:///{written.path}")
    try:
        return await verify_store(store, log=log)
    finally:
        await store.close()


async def test_a_log_is_looked_at_with_those_that_it_forks_from(written: Written) -> None:
    reports = [await verified(written, log) for log in (written.clerk, written.fork, written.fork_of_fork)]
    whole = await verified(written, None)

    assert all(report.ok for report in (*reports, whole)), [report.differences for report in (*reports, whole)]
    assert [report.logs for report in reports] == [1, 2, 3]
    assert reports[0].entries < reports[1].entries < reports[2].entries < whole.entries


async def test_an_edit_of_a_parent_is_named_with_its_own_log(written: Written) -> None:
    report = await verified(written, written.fork_of_fork, "update messages set text = 'other'", written.clerk)

    assert {(one.log, one.table, one.field) for one in report.differences} == {(written.clerk, "messages", "text")}


async def test_what_was_edited_in_another_log_is_not_looked_at(written: Written) -> None:
    report = await verified(written, written.clerk, "update turns set state = 'open'", written.other)
    whole = await verified(written, None)

    assert report.ok, report.differences
    assert {one.log for one in whole.differences} == {written.other}


@pytest.mark.parametrize(
    ("edit", "table", "field"),
    [
        ("insert into wakeups select id, 'retry', 3, 0, 1 from logs", "wakeups", "row"),
        ("insert into inbox (log, key, kind) select id, 'x', 'input' from logs", "inbox", "body"),
        ("update payloads set body = 'x'", "payloads", "body"),
    ],
)
async def test_what_waits_for_the_log_belongs_to_it(written: Written, edit: str, table: str, field: str) -> None:
    report = await verified(written, written.clerk, edit, written.clerk)

    assert {(one.log, one.table, one.field) for one in report.differences} == {(written.clerk, table, field)}
    assert (await verified(written, written.other)).ok


async def test_a_definition_that_the_log_names_is_looked_at(written: Written) -> None:
    with closing(sqlite3.connect(written.path)) as db, db:
        assert db.execute("update definitions set body = body || ' ' where kind = 'context'").rowcount > 0
    report = await verified(written, written.clerk)

    assert {(one.log, one.table, one.field) for one in report.differences} == {("definitions", "definitions", "body")}


async def test_a_log_that_is_not_there_is_no_log_without_a_difference(written: Written) -> None:
    with pytest.raises(UnknownConversation):
        await verified(written, "conversation_nobody")


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_store_verifies_one_log(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, desk: Desk
) -> None:
    make = maker(kind, request, tmp_path)
    clerk = await work(make("store"), desk, "ask_aide task='note text=a'")
    store = make("store")
    report, whole = await verify_store(store, log=clerk), await verify_store(store)
    await store.close()

    assert report.ok, report.differences
    assert whole.ok, whole.differences
    assert (report.logs, report.entries) < (whole.logs, whole.entries)
