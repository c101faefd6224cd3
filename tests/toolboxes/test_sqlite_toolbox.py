"""A SQLite database as a toolbox: what a call gives, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.ids import Name
from agentos.toolboxes.base import Failed
from agentos.toolboxes.results import render
from agentos.toolboxes.sqlite import SqliteToolbox
from tests.toolboxes.sqlite_support import opened, query, rows, three_notes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return three_notes(tmp_path)


def test_a_reading_toolbox_offers_one_pure_tool_that_reads(path: Path) -> None:
    toolbox = SqliteToolbox("kb", path=path, access="read-only", description="What we know.")
    (spec,) = toolbox.tools()

    assert (spec.name, spec.toolbox) == ("kb_query", "kb")
    assert (spec.effect, spec.access) == (EffectClass.PURE, Access.READ)
    assert spec.description.startswith("What we know.\nRuns one reading SQL statement")
    assert spec.schema["required"] == ["sql"]
    assert toolbox.sharing is ToolboxSharing.READ_WRITE


def test_a_writing_toolbox_offers_one_tool_that_writes_once(path: Path) -> None:
    (spec,) = SqliteToolbox("kb", path=path, access="read-write", tool="sqlite_kb_query").tools()

    assert spec.name == "sqlite_kb_query"
    assert (spec.effect, spec.access) == (EffectClass.ONCE, Access.WRITE)


async def test_a_query_gives_columns_rows_and_their_number(path: Path) -> None:
    async with opened(path) as toolbox:
        assert await query(toolbox, "SELECT id, text FROM notes WHERE id < 3 ORDER BY id") == {
            "columns": ["id", "text"],
            "rows": [[1, "one"], [2, "two"]],
            "row_count": 2,
        }


@pytest.mark.parametrize(
    ("sql", "parameters", "row"),
    [
        ("SELECT ?, ?2, ?", ["a", 1, None], ["a", 1, None]),
        ("SELECT :a, @b, $c", {":a": 1, "b": 2.5, "$c": True}, [1, 2.5, 1]),
        ("SELECT hex(?)", [{"blob": "00ff"}], ["00FF"]),
        ("SELECT ?", [2**63 - 1], [2**63 - 1]),
        ("SELECT 'x; DROP TABLE notes' -- ; ?", [], ["x; DROP TABLE notes"]),
        ("SELECT ?;  -- the end", ["'; DELETE FROM notes --"], ["'; DELETE FROM notes --"]),
        ("VALUES (1)", None, [1]),
        ("/* a word */ SELECT 1 ;", None, [1]),
    ],
)
async def test_parameters_bind_values_and_never_sql(path: Path, sql: str, parameters: Any, row: list[Any]) -> None:
    async with opened(path) as toolbox:
        assert (await query(toolbox, sql, parameters))["rows"] == [row]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ([2**63], "parameter 1 is beyond the 64 bits"),
        ({"a": -(2**63) - 1}, "parameter a is beyond the 64 bits"),
        ([[1]], "parameter 1 is a list"),
        ([{"a": 1}], "parameter 1 is an object"),
        ([{"blob": "xyz"}], "parameter 1: a blob is written in hexadecimal"),
        (["\ud800"], "parameter 1 holds half a character"),
        ("x", "parameters is a list for"),
    ],
)
async def test_a_parameter_that_has_no_value_in_sqlite_is_a_failed_call(path: Path, parameters: Any, why: str) -> None:
    async with opened(path) as toolbox:
        failed = await query(toolbox, "SELECT ?", parameters)

    assert failed.kind == "invalid"
    assert failed.text.startswith(why)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("NULL", None),
        ("9007199254740993", 9007199254740993),
        ("-9223372036854775808", -(2**63)),
        ("9e999", "Infinity"),
        ("-9e999", "-Infinity"),
        ("9e999 - 9e999", None),
        ("x''", {"blob": "", "bytes": 0}),
        ("x'00ff'", {"blob": "00ff", "bytes": 2}),
        ("zeroblob(1000)", {"blob": "00" * 256, "bytes": 1000}),
        ("CAST(x'6869ff' AS TEXT)", {"text": "hi\ufffd", "blob": "6869ff", "bytes": 3}),
        ("CAST(x'eda080' AS TEXT)", {"text": "\ufffd\ufffd\ufffd", "blob": "eda080", "bytes": 3}),
        ("'a' || char(0) || 'b'", "a\0b"),
        ("'𝄞é'", "𝄞é"),
    ],
)
async def test_every_value_has_a_form_in_json(path: Path, expression: str, value: Any) -> None:
    async with opened(path) as toolbox:
        result = await query(toolbox, f"SELECT {expression} AS v")

    assert result == {"columns": ["v"], "rows": [[value]], "row_count": 1}
    assert render(result, 10_000).whole is None


async def test_what_was_written_stays_and_is_counted(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        written = await query(toolbox, "INSERT INTO notes (text) VALUES (?), (?)", ["four", "five"])
        returned = await query(toolbox, "DELETE FROM notes WHERE id < 3 RETURNING text")
        none = await query(toolbox, "UPDATE notes SET text = 'x' WHERE id = 99")
        with_ = await query(toolbox, "WITH n(t) AS (VALUES ('six')) INSERT INTO notes (text) SELECT t FROM n")
        read = await query(toolbox, "SELECT count(*) FROM notes")

    assert written == {"columns": [], "rows": [], "row_count": 0, "changes": 2}
    assert (returned["rows"], returned["changes"]) == ([["one"], ["two"]], 2)
    assert (none["changes"], with_["changes"]) == (0, 1)
    assert read == {"columns": ["count(*)"], "rows": [[4]], "row_count": 1}
    assert rows(path) == ["three", "four", "five", "six"]


async def test_a_schema_is_changed_and_searched_like_any_other(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        for sql in (
            "ALTER TABLE notes ADD COLUMN seen INTEGER DEFAULT 0",
            "CREATE INDEX seen ON notes (seen)",
            "CREATE VIEW unseen AS SELECT text FROM notes WHERE seen = 0",
            "CREATE VIRTUAL TABLE words USING fts5(text)",
            "INSERT INTO words SELECT text FROM notes",
            "CREATE TRIGGER more AFTER INSERT ON notes BEGIN INSERT INTO words VALUES (new.text); END",
            "INSERT INTO notes (text) VALUES ('a whale')",
            "PRAGMA user_version = 3",
            "ANALYZE",
            "REINDEX",
        ):
            assert isinstance(await query(toolbox, sql), dict), sql
        found = await query(toolbox, "SELECT text FROM words WHERE words MATCH 'whale'")
        version = await query(toolbox, "PRAGMA user_version")
    async with opened(path) as toolbox:
        assert (await query(toolbox, "SELECT text FROM words WHERE words MATCH 'wh*'"))["rows"] == [["a whale"]]
        assert (await query(toolbox, "SELECT count(*) FROM unseen"))["rows"] == [[4]]
        assert (await query(toolbox, "SELECT value FROM json_each('[1,2]')"))["row_count"] == 2

    assert (found["rows"], version["rows"]) == ([["a whale"]], [[3]])


async def test_foreign_keys_hold(path: Path) -> None:
    async with opened(path, "read-write") as toolbox:
        await query(toolbox, "CREATE TABLE tags (note REFERENCES notes (id))")
        failed = await query(toolbox, "INSERT INTO tags VALUES (99)")

    assert failed == Failed(Name("sql"), "FOREIGN KEY constraint failed")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("INSERT INTO notes (text) VALUES ('four'), ('one')", "UNIQUE constraint failed: notes.text"),
        ("SELECT ?", "Incorrect number of bindings supplied"),
        ("SELECT :a", "Incorrect number of bindings supplied|You did not supply a value for binding"),
        ("", "no statement: the text is empty or a comment"),
        ("-- nothing", "no statement"),
        (" ; ", "no statement"),
        ("VACUUM", "cannot VACUUM from within a transaction"),
        ("SELECT 1\0", "the query contains a null character|embedded null character"),
        ("SELECT '\ud800'", "surrogates not allowed"),
        ("UPDATE sqlite_schema SET sql = ''", "table sqlite_master may not be modified"),
    ],
)
async def test_what_sqlite_refuses_is_a_failed_call_in_its_words(path: Path, sql: str, why: str) -> None:
    async with opened(path, "read-write") as toolbox:
        failed = await query(toolbox, sql)
        after = await query(toolbox, "SELECT count(*) FROM notes")

    assert failed.kind == "sql"
    assert any(words in failed.text for words in why.split("|"))
    assert after["rows"] == [[3]]
    assert rows(path) == ["one", "two", "three"]


async def test_another_tool_or_no_sql_is_a_failed_call(path: Path) -> None:
    async with opened(path) as toolbox:
        unknown = await toolbox.call(Name("other"), {"sql": "SELECT 1"}, None)  # type: ignore[arg-type]
        empty = await toolbox.call(Name("notes_query"), {}, None)  # type: ignore[arg-type]

    assert unknown == Failed(Name("unknown_tool"), "toolbox notes has no tool other")
    assert empty == Failed(Name("invalid"), "sql is the text of one statement")
