"""Bounds of a SQLite toolbox: each is told by its name, and what fits is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.toolboxes.results import render
from tests.toolboxes.sqlite_support import ENDLESS, opened, query, rows, three_notes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return three_notes(tmp_path)


async def test_rows_beyond_a_limit_are_counted_and_left_out(path: Path) -> None:
    numbers = f"{ENDLESS} SELECT x FROM c LIMIT"
    async with opened(path, rows_max=10, count_max=1_000) as toolbox:
        some = await query(toolbox, f"{numbers} 10")
        cut = await query(toolbox, f"{numbers} 900")
        endless = await query(toolbox, f"{ENDLESS} SELECT x FROM c")

    assert (some["row_count"], len(some["rows"]), "truncated" in some) == (10, 10, False)
    assert (cut["row_count"], len(cut["rows"])) == (900, 10)
    assert cut["truncated"] == "only the first 10 of 900 rows are shown (rows_max 10); add WHERE or LIMIT"
    assert (endless["row_count"], len(endless["rows"])) == (None, 10)
    assert endless["truncated"].startswith("only the first 10 of at least 1,000 rows are shown")


async def test_c24_five_megabytes_of_rows_are_shown_within_one_limit(path: Path) -> None:
    async with opened(path, result_chars=5_000) as toolbox:
        many = await query(toolbox, f"{ENDLESS} SELECT x, hex(zeroblob(250)) FROM c LIMIT 10000")
        one = await query(toolbox, "SELECT hex(zeroblob(2500000)) AS a, hex(zeroblob(10)) AS b, 7 AS c")

    assert many["row_count"] == 10_000
    assert "result_chars 5,000" in many["truncated"]
    assert 0 < len(many["rows"]) < 10
    assert render(many, 6_000).whole is None
    assert (one["rows"][0][1:], one["row_count"]) == (["00" * 10, 7], 1)
    assert "of 5,000,000 characters left out here" in one["rows"][0][0]
    assert render(one, 6_000).whole is None


async def test_a_long_text_is_cut_in_its_middle(path: Path) -> None:
    async with opened(path, text_chars=200) as toolbox:
        ((text,),) = (await query(toolbox, "SELECT 'begin' || hex(zeroblob(5000)) || 'end'"))["rows"]

    assert (text[:5], text[-3:], len(text) <= 200) == ("begin", "end", True)


async def test_writing_goes_on_when_not_all_that_it_returns_is_shown(path: Path) -> None:
    async with opened(path, "read-write", rows_max=5, count_max=7) as toolbox:
        result = await query(
            toolbox, f"{ENDLESS} INSERT INTO notes (text) SELECT 'n' || x FROM c LIMIT 1000 RETURNING id"
        )

    assert (len(result["rows"]), result["row_count"], result["changes"]) == (5, None, 1000)
    assert rows(path, "SELECT count(*) FROM notes") == [1003]


async def test_a_value_or_a_statement_over_its_limit_is_refused_by_its_name(path: Path) -> None:
    async with opened(path, value_bytes=10_000, sql_bytes=1_000) as toolbox:
        value = await query(toolbox, "SELECT zeroblob(20000)")
        parameter = await query(toolbox, "SELECT ?", ["x" * 20_000])
        sql = await query(toolbox, f"SELECT '{'x' * 2_000}'")

    assert value.text == "string or blob too big (limits: value_bytes 10000, sql_bytes 1000)"
    assert "value_bytes 10000" in parameter.text
    assert "sql_bytes 1000" in sql.text


async def test_a_database_that_would_grow_over_its_limit_stays_as_it_was(path: Path) -> None:
    async with opened(path, "read-write", database_bytes=1024 * 1024) as toolbox:
        failed = await query(toolbox, "INSERT INTO notes (text) VALUES (hex(zeroblob(1000000)))")

    assert failed.kind == "sql"
    assert failed.text == "database or disk is full (limits: database_bytes 1048576, if the disk is not full)"
    assert rows(path) == ["one", "two", "three"]


async def test_a_query_that_takes_too_long_gives_what_it_has(path: Path) -> None:
    async with opened(path, time_s=0.1) as toolbox:
        some = await query(toolbox, f"{ENDLESS} SELECT x FROM c WHERE x < 4 OR x % 100000000 = 0")
        none = await query(toolbox, f"{ENDLESS} SELECT count(*) FROM c")
        next_ = await query(toolbox, "SELECT 1")

    assert none.text == "it ran longer than 0.1 s (time_s) and was stopped; nothing was changed"
    assert some["rows"] == [] or some["rows"] == [[1], [2], [3]]
    assert "time_s: it was stopped after 0.1 s" in some["truncated"]
    assert next_["rows"] == [[1]]


async def test_a_statement_that_takes_too_long_changes_nothing(path: Path) -> None:
    async with opened(path, "read-write", time_s=0.1) as toolbox:
        failed = await query(toolbox, f"{ENDLESS} INSERT INTO notes (text) SELECT 'n' || x FROM c")
        next_ = await query(toolbox, "INSERT INTO notes (text) VALUES ('four')")

    assert failed.kind == "limit"
    assert next_["changes"] == 1
    assert rows(path) == ["one", "two", "three", "four"]
