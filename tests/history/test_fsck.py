"""fsck finds what is not where it belongs, says what may be done, and makes of the log what the log can tell."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentos.events.entry import Registry
from agentos.history import Checked, check_store, copy_store, heads_digest, repair_store, verify_store
from agentos.history.fsck.mending import tables_of
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.mending import Mendable
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.postgres import PostgresServer
from tests.history.copy_support import Left, again, whole
from tests.history.support import Desk, assert_history_holds, office

CLERK = "(select min(n) from conversations where agent = 'clerk')"
MENDED = [
    f"update conversations set state = 'closed', turns = 9 where n = {CLERK}",
    f"delete from conversations where n = {CLERK}",
    "update turns set outcome = 'failed'",
    "delete from turns",
    (
        "insert into turns (n, seq, state, steps, calls, input_tokens, output_tokens, started_at, context)"
        f" values ({CLERK}, 77, 'open', 0, 0, 0, 0, 1, 'x')"
    ),
    "update calls set tool = 'shred', status = 'failed'",
    "delete from calls",
    "update calls set resolution = 'done'",
    "update components set body = '{}'",
    "delete from components",
    f"insert into components (n, entity, type, body) values ({CLERK}, 'turn_1', 'turn_state', '{{}}')",
    "update messages set role = 'tool', turn = 1, call = 5",
    f"insert into messages (n, seq, role, turn, call, salt, text) values ({CLERK}, 3, 'user', 3, 0, x'00', 'never said')",
    f"insert into payloads (n, seq, i, name, salt, body) values ({CLERK}, 3, 7, 'text', x'00', 'never said')",
    f"insert into wakeups select id, 'retry', 3, 0, 1 from logs where n = {CLERK}",
    "delete from wakeups",
    "update wakeups set due_at = 1",
    "update inbox set body = 'kept', salt = x'00' where seq is not null",
]
NOT_MENDED = [
    (f"update entries set head = head || ' ' where n = {CLERK} and seq = 5", "entries are never rewritten"),
    (f"delete from entries where n = {CLERK} and seq = 5", "entries are never rewritten"),
    (f"update logs set seq = seq - 1 where n = {CLERK}", "heads are never rewritten"),
    (f"update messages set text = 'I never said that' where n = {CLERK}", "a body stands in one place alone"),
    ("update payloads set body = '{}' where name = 'arguments'", "a body stands in one place alone"),
    ("delete from definitions", "nothing else holds a definition"),
    (
        "delete from logs where n = (select max(n) from conversations where agent = 'aide')",
        "the log that it belonged to is gone",
    ),
]


def edited(store: Store, sql: str) -> Store:
    """The store with something changed by hand, as another process finds it."""
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as db:
        assert db.execute(sql).rowcount > 0, sql
        db.commit()
    return again(store)


async def repaired(store: Store) -> Checked:
    """What is left after a repair; the store may be looked at afterwards."""
    checked = await check_store(store)
    assert checked.to_mend, [str(finding) for finding in checked.findings]
    await store.open("a repairer")
    await repair_store(store, checked)
    return await check_store(store)


async def test_a_store_in_order_has_no_findings_and_tells_what_nobody_drives(left: Left) -> None:
    checked = await check_store(left.store)

    assert checked.ok, [str(finding) for finding in checked.findings]
    assert {left.parked, left.running} <= {one.log for one in checked.left}
    assert all("run --resume" in str(one) for one in checked.left)


@pytest.mark.parametrize("sql", MENDED)
async def test_what_the_log_tells_is_made_anew_from_it(left: Left, sql: str) -> None:
    before, heads = await whole(left.store), await heads_digest(left.store)
    found = edited(left.store, sql)
    checked = await check_store(found)
    after = await repaired(found)

    assert all(finding.mend for finding in checked.findings), [str(finding) for finding in checked.findings]
    assert after.ok, [str(finding) for finding in after.findings]
    assert await heads_digest(found) == heads
    assert {**await whole(found), "wakeups": 0} == {**before, "wakeups": 0}  # those that a call waits for are not told
    await found.close()


@pytest.mark.parametrize(("sql", "why"), NOT_MENDED)
async def test_what_only_the_log_tells_is_never_made_up(left: Left, sql: str, why: str) -> None:
    found = edited(left.store, sql)
    checked = await check_store(found)
    kept = await whole(found)
    await found.open("a repairer")
    await repair_store(found, checked)

    assert any(why in finding.why_not and not finding.mend for finding in checked.findings)
    assert (await whole(found))["entries"] == kept["entries"]
    assert not (await check_store(found)).ok
    await found.close()


async def test_nothing_is_made_of_a_log_that_is_not_whole(left: Left) -> None:
    found = edited(
        edited(left.store, "delete from calls"), f"update entries set digest = x'00' where n = {CLERK} and seq = 4"
    )
    checked = await check_store(found)
    await found.close()

    assert left.settled not in checked.to_mend
    assert any("its log is not whole" in finding.why_not for finding in checked.findings)


async def test_calls_without_a_result_are_named(tmp_path: Path, desk: Desk) -> None:
    """The kind of an entry is changed in head and column alike, with digests anew: verify has nothing to say."""
    path = tmp_path / "pairs.db"
    made = SQLiteStore(str(path))
    async with office(made, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
    store = edited(SQLiteStore(str(path)), "update entries set kind = kind where kind = 'call.finished'")
    sound = await check_store(store)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "update entries set head = replace(head, 'call.finished', 'call.progress') where kind = 'call.finished'"
        )
        db.commit()
    checked = await check_store(store)
    await store.close()

    assert sound.ok
    pairs = [finding.difference for finding in checked.findings if finding.difference.field == "pair"]
    assert [(one.log, one.seq) for one in pairs] == [(clerk.id, 11)]
    assert "without a result for calls [6]" in str(pairs[0])


async def test_a_repair_beside_a_kernel_at_work_leaves_its_turns_alone(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "busy.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        found = edited(SQLiteStore(str(path)), "delete from calls")
        after = await repaired(found)
        await found.close()
        await clerk.ask("note text=b")
    store = SQLiteStore(str(path))
    await assert_history_holds(store)
    await store.close()

    assert after.ok
    assert desk.notes == ["a", "b"]


async def test_a_log_that_moved_on_is_left_as_it_is(left: Left) -> None:
    store = again(left.store)
    await store.open("somebody")
    row = await store.log(left.settled)
    assert row is not None
    assert isinstance(store, Mendable)
    tables = await tables_of(store, row, Registry())
    refused = await store.mend(left.settled, row.seq - 1, row.digest, tables)
    done = await store.mend(left.settled, row.seq, row.digest, tables)
    report = await verify_store(store)
    await store.close()

    assert (refused, done) == (False, True)
    assert report.ok


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """A new handle on the same store."""
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: memory
    urls = {"file": f"file:{tmp_path / 'folder'}", "sqlite": f"sqlite:///{tmp_path / 'kind.db'}"}
    url = urls.get(request.param)
    if url is None:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_schema_url()
    return lambda: open_store(url)


async def test_every_kind_of_store_is_checked(left: Left, kind: Callable[[], Store]) -> None:
    """A database is mended; the others have their tables of their entries at any time."""
    await copy_store(left.store, kind())
    store = kind()
    await store.open("a repairer")
    checked = await check_store(store)
    mendable = isinstance(store, Mendable)
    rows = {table: (await store.query(f"select * from {table} order by 1, 2")).rows for table in TABLES}
    for row in await store.logs() if mendable else ():
        assert isinstance(store, Mendable)
        assert await store.mend(row.id, row.seq, row.digest, await tables_of(store, row, Registry()))
    again_ = {table: (await store.query(f"select * from {table} order by 1, 2")).rows for table in TABLES}
    await store.close()

    assert checked.ok, [str(finding) for finding in checked.findings]
    assert {table: sorted(map(repr, found)) for table, found in again_.items()} == {
        table: sorted(map(repr, found)) for table, found in rows.items()
    }
    assert mendable is (type(store).__name__ in ("SQLiteStore", "PostgreSQLStore"))


TABLES = ("conversations", "turns", "calls", "components", "messages", "payloads", "wakeups", "inbox")
