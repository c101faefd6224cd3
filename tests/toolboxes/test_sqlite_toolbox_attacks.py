"""Ways out of a SQLite toolbox (attack S16): what the authorizer refuses, and what then has not happened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess, Guard
from agentos.resources.kinds.sqlite_connection.link import SqliteLimits, open_link
from agentos.toolboxes.base import Failed
from tests.toolboxes.sqlite_support import made, opened, query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(
        tmp_path / "db" / "notes.db",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes (text) VALUES ('one'), ('two');"
        "CREATE VIEW v AS SELECT text FROM notes;"
        "CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN INSERT INTO notes (text) VALUES (new.text); END;"
        "CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES ('one');",
    )


async def tried(path: Path, access: Any, *statements: str) -> list[Any]:
    async with opened(path, access, time_s=5) as toolbox:
        return [await query(toolbox, sql) for sql in statements]


def contents(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return [
            db.execute("SELECT * FROM notes").fetchall(),
            db.execute("SELECT text FROM words").fetchall(),
            db.execute("SELECT type, name, sql FROM sqlite_schema").fetchall(),
            db.execute("PRAGMA user_version").fetchall(),
            db.execute("PRAGMA application_id").fetchall(),
        ]


REFUSED_EVERYWHERE = [
    ("ATTACH 'OUT' AS e", "ATTACH or VACUUM INTO"),
    ("ATTACH DATABASE ':memory:' AS e", "ATTACH or VACUUM INTO"),
    ("aTTach/**/'OUT'as e", "ATTACH or VACUUM INTO"),
    ("EXPLAIN ATTACH 'OUT' AS e", "ATTACH or VACUUM INTO"),
    ("DETACH main", "DETACH"),
    ("BEGIN", "a transaction of its own"),
    ("BEGIN EXCLUSIVE", "a transaction of its own"),
    ("COMMIT", "a transaction of its own"),
    ("END", "a transaction of its own"),
    ("ROLLBACK", "a transaction of its own"),
    ("SAVEPOINT s", "a savepoint"),
    ("RELEASE s", "a savepoint"),
    ("CREATE TEMP TABLE x (a)", "a temporary table"),
    ("CREATE TEMPORARY TABLE x AS SELECT * FROM notes", "a temporary table"),
    ("CREATE TEMP VIEW x AS SELECT 1", "a temporary table"),
    ("CREATE TEMP TRIGGER x AFTER INSERT ON notes BEGIN SELECT 1; END", "a temporary table"),
    ("SELECT load_extension('OUT')", "the function load_extension"),
    ("SELECT fts3_tokenizer('simple', x'00')", "the function fts3_tokenizer"),
    ("PRAGMA writable_schema = ON", "PRAGMA writable_schema"),
    ("PRAGMA writable_schema", "PRAGMA writable_schema"),
    ("PRAGMA main.writable_schema(1)", "PRAGMA writable_schema"),
    ("/* x */ pragma JOURNAL_MODE=off", "PRAGMA journal_mode"),
    ("PRAGMA journal_mode(DELETE)", "PRAGMA journal_mode"),
    ("PRAGMA query_only = OFF", "PRAGMA query_only"),
    ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys"),
    ("PRAGMA ignore_check_constraints = 1", "PRAGMA ignore_check_constraints"),
    ("PRAGMA trusted_schema = ON", "PRAGMA trusted_schema"),
    ("PRAGMA synchronous = OFF", "PRAGMA synchronous"),
    ("PRAGMA max_page_count = 1000000000", "PRAGMA max_page_count"),
    ("PRAGMA temp_store_directory = 'OUT'", "PRAGMA temp_store_directory"),
    ("PRAGMA mmap_size = 1000000000000", "PRAGMA mmap_size"),
    ("PRAGMA cache_size = 1000000000", "PRAGMA cache_size"),
    ("PRAGMA hard_heap_limit = 1", "PRAGMA hard_heap_limit"),
    ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA locking_mode"),
    ("PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint"),
    ("PRAGMA application_id = 1634168691", "PRAGMA application_id with a value"),
    ("PRAGMA encoding = 'UTF-16'", "PRAGMA encoding with a value"),
    ("PRAGMA database_list", "PRAGMA database_list"),
    ("SELECT * FROM pragma_database_list", "PRAGMA database_list"),
    ("PRAGMA page_size = 512", "PRAGMA page_size with a value"),
    ("PRAGMA schema_version = 1", "PRAGMA schema_version with a value"),
    ("SELECT 1; SELECT 2", "a second statement"),
    ("SELECT 1; DROP TABLE notes", "a second statement"),
    ("SELECT 1;;", "a second statement"),
    ("SELECT 1; -- x\nDELETE FROM notes", "a second statement"),
    ("SELECT 1; COMMIT; ATTACH 'OUT' AS e", "a second statement"),
]
REFUSED_TO_READERS = [
    ("WITH x AS (SELECT 1) DELETE FROM notes", "DELETE notes"),
    ("WITH x(a) AS (VALUES (9)) INSERT INTO notes SELECT a, a FROM x", "INSERT notes"),
    ("WITH x AS (SELECT 1) UPDATE notes SET text = 'x'", "UPDATE notes"),
    ("-- SELECT\nDELETE FROM notes", "DELETE notes"),
    ("EXPLAIN DELETE FROM notes", "DELETE notes"),
    ("EXPLAIN QUERY PLAN DELETE FROM notes", "DELETE notes"),
    ("DELETE FROM notes RETURNING text", "DELETE notes"),
    ("REPLACE INTO notes VALUES (1, 'x')", "INSERT notes"),
    ("INSERT INTO v VALUES ('x')", "INSERT v"),
    ("INSERT INTO words VALUES ('x')", "INSERT words"),
    ("INSERT INTO words (words) VALUES ('optimize')", "INSERT words"),
    ("CREATE TABLE x (a)", "INSERT sqlite_master"),
    ("CREATE TABLE x AS SELECT 1", "INSERT sqlite_master"),
    ("CREATE INDEX x ON notes (text)", "INSERT sqlite_master"),
    ("CREATE VIEW x AS SELECT 1", "INSERT sqlite_master"),
    ("CREATE VIRTUAL TABLE x USING fts5(a)", "INSERT sqlite_master"),
    ("DROP TABLE notes", "DELETE sqlite_master"),
    ("ALTER TABLE notes RENAME TO y", "ALTER TABLE notes"),
    ("ALTER TABLE notes ADD COLUMN y", "ALTER TABLE notes"),
    ("ANALYZE", "INSERT sqlite_master"),
    ("PRAGMA user_version = 5", "PRAGMA user_version with a value"),
    ("VACUUM", "VACUUM"),
    ("VACUUM INTO 'OUT'", "ATTACH or VACUUM INTO"),
]
REFUSED_TO_WRITERS = [
    ("CREATE VIRTUAL TABLE x USING dbstat", "CREATE VIRTUAL TABLE ... USING dbstat"),
    ("CREATE VIRTUAL TABLE x USING csv(filename='OUT')", "CREATE VIRTUAL TABLE ... USING csv"),
    ("CREATE TABLE temp.x (a)", "a temporary table"),
]


def ids(cases: list[tuple[str, str]]) -> list[str]:
    return [f"{n}-{sql[:30]}" for n, (sql, _) in enumerate(cases)]


async def refused(path: Path, access: str, sql: str, what: str) -> None:
    out = path.parent / "out.db"
    before = contents(path)
    failed, after = await tried(path, access, sql.replace("OUT", str(out)), "SELECT count(*) FROM notes")

    assert isinstance(failed, Failed)
    assert (failed.kind, failed.text.startswith(what)) == ("refused", True), failed
    assert " is refused here; " in failed.text
    assert after["rows"] == [[2]]
    assert contents(path) == before
    assert not out.exists()


@pytest.mark.parametrize("access", ["read-only", "read-write"])
@pytest.mark.parametrize(("sql", "what"), REFUSED_EVERYWHERE, ids=ids(REFUSED_EVERYWHERE))
async def test_s16_what_reaches_beyond_one_statement_on_one_file_is_refused(
    path: Path, access: str, sql: str, what: str
) -> None:
    await refused(path, access, sql, what)


@pytest.mark.parametrize(("sql", "what"), REFUSED_TO_READERS, ids=ids(REFUSED_TO_READERS))
async def test_s16_what_would_write_is_refused_to_a_reader_by_what_it_does(path: Path, sql: str, what: str) -> None:
    await refused(path, "read-only", sql, what)


@pytest.mark.parametrize(("sql", "what"), REFUSED_TO_WRITERS, ids=ids(REFUSED_TO_WRITERS))
async def test_s16_what_a_writer_may_not_make_is_refused(path: Path, sql: str, what: str) -> None:
    await refused(path, "read-write", sql, what)


@pytest.mark.parametrize(
    "sql",
    ["VACUUM INTO 'OUT'", "VACUUM main INTO 'OUT'", "UPDATE sqlite_master SET sql = 'x'", "DELETE FROM sqlite_schema"],
)
@pytest.mark.parametrize("access", ["read-only", "read-write"])
async def test_s16_what_sqlite_itself_refuses_leaves_nothing_either(path: Path, access: str, sql: str) -> None:
    out = path.parent / "out.db"
    before = contents(path)
    (failed,) = await tried(path, access, sql.replace("OUT", str(out)))

    assert isinstance(failed, Failed)
    assert contents(path) == before
    assert not out.exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT text FROM v",
        "EXPLAIN SELECT 1",
        "EXPLAIN QUERY PLAN SELECT * FROM notes",
        "PRAGMA table_info(notes)",
        "pragma Table_XInfo('notes')",
        "SELECT name FROM pragma_table_info('notes')",
        "PRAGMA user_version",
        "PRAGMA main.user_version",
        "PRAGMA integrity_check",
        "SELECT sql FROM sqlite_schema",
        "SELECT text FROM words WHERE words MATCH 'one'",
        "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 3) SELECT x FROM c",
        "SELECT 'ATTACH; PRAGMA writable_schema; DELETE FROM notes'",
        'SELECT 1 AS "DELETE" -- ; DROP TABLE notes',
    ],
)
async def test_what_only_reads_is_let_through_whatever_words_are_in_it(path: Path, sql: str) -> None:
    for access in ("read-only", "read-write"):
        (result,) = await tried(path, access, sql)
        assert isinstance(result, dict), result
        assert result["row_count"] >= 1
        assert "changes" not in result


async def test_s16_a_refused_statement_is_refused_again_and_not_taken_from_a_cache(path: Path) -> None:
    sql = "BEGIN"
    results = await tried(path, "read-write", "SELECT 1", sql, "INSERT INTO notes (text) VALUES ('x')", sql, "COMMIT")

    assert [isinstance(result, Failed) for result in results] == [False, True, False, True, True]


async def test_a_malicious_view_cannot_call_what_reaches_outside(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE VIEW evil AS SELECT load_extension('x') AS a")
        db.commit()

    (failed,) = await tried(path, "read-only", "SELECT * FROM evil")

    assert isinstance(failed, Failed)
    assert "load_extension" in failed.text


async def test_a_bomb_of_views_is_refused_and_not_expanded(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE VIEW v0 AS SELECT text FROM notes")
        for n in range(1, 40):
            db.execute(f"CREATE VIEW v{n} AS SELECT x.text FROM v{n - 1} AS x, v{n - 1} AS y")
        db.commit()

    (failed,) = await tried(path, "read-only", "SELECT * FROM v39")

    assert isinstance(failed, Failed)
    assert failed.kind == "sql"


@pytest.mark.parametrize("statement", ["DELETE FROM notes", "CREATE TABLE x (a)", "PRAGMA user_version = 3"])
def test_s16_behind_the_guard_of_a_reader_the_file_itself_is_open_to_read(path: Path, statement: str) -> None:
    link = open_link(path, DatabaseAccess.READ_ONLY, SqliteLimits())

    with closing(link.db):
        assert link.own("PRAGMA query_only").fetchone() == (1,)
        link.own("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="attempt to write a readonly database"):
            link.own(statement)


@pytest.mark.parametrize("access", DatabaseAccess)
def test_s16_behind_the_guard_nothing_can_be_attached(path: Path, access: DatabaseAccess) -> None:
    link = open_link(path, access, SqliteLimits())

    with closing(link.db), pytest.raises(sqlite3.OperationalError, match="too many attached databases - max 0"):
        link.own("ATTACH ':memory:' AS x")


@pytest.mark.parametrize("action", [sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE])
def test_s16_raw_pages_are_not_written_where_sqlite_offers_them(action: int) -> None:
    guard = Guard(DatabaseAccess.READ_WRITE)

    assert guard.authorize(action, "SQLite_dbpage", None, "main", None) == sqlite3.SQLITE_DENY
    assert guard.authorize(action, "notes", None, "main", None) == sqlite3.SQLITE_OK


def test_s16_an_action_that_sqlite_learns_later_is_refused() -> None:
    for access in DatabaseAccess:
        guard = Guard(access)

        assert guard.authorize(999, "x", None, "main", None) == sqlite3.SQLITE_DENY
        assert guard.refused == "action 999 of SQLite x"
