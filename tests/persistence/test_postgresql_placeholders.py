"""From question marks to numbers."""

from __future__ import annotations

import time

import pytest

from agentos.persistence.postgresql.placeholders import numbered


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select ?", "select $1"),
        ("select ?, ?", "select $1, $2"),
        ("select ?2, ?1, ?", "select $2, $1, $3"),
        ("select ?1, ?1", "select $1, $1"),
        ("select '?', ?", "select '?', $1"),
        ("select 'it''s ?', ?", "select 'it''s ?', $1"),
        (r"select E'it\'s ?', ?", r"select E'it\'s ?', $1"),
        (r"select 'back\', ?", r"select 'back\', $1"),
        ("select E'a'\n'\\' ?', ?", "select E'a'\n'\\' ?', $1"),
        ("select E'a' -- ?\r\n '\\'?', ?", "select E'a' -- ?\r\n '\\'?', $1"),
        ("select 'a'\n'\\', ?", "select 'a'\n'\\', $1"),
        ("select 1 -- ?\r, ?", "select 1 -- ?\r, $1"),
        ("select $\u00a0$ ' ? $\u00a0$, ?", "select $\u00a0$ ' ? $\u00a0$, $1"),
        ("select 1 as a\u00a0$$, ? as b\u00a0$$", "select 1 as a\u00a0$$, $1 as b\u00a0$$"),
        ('select "?", "a""?", ?', 'select "?", "a""?", $1'),
        ("select 1 -- ?\n, ?", "select 1 -- ?\n, $1"),
        ("select /* ? /* ? */ ? */ ?", "select /* ? /* ? */ ? */ $1"),
        ("select $$ ? $$, ?", "select $$ ? $$, $1"),
        ("select $a$ ? $$ ? $b$ $a$, ?", "select $a$ ? $$ ? $b$ $a$, $1"),
        ("select a$b$ from t where b$c = ?", "select a$b$ from t where b$c = $1"),
        ("select name'?' = ?", "select name'?' = $1"),
        ("select 'open ?", "select 'open $1"),
        ("select /* open ?", "select /* open ?"),
        ("select $a$ open ?", "select $a$ open $1"),
        ("select 1", "select 1"),
    ],
)
def test_only_a_question_mark_that_stands_for_a_value_becomes_a_number(sql: str, expected: str) -> None:
    assert numbered(sql) == expected


@pytest.mark.parametrize("piece", ["'", '"', "$a$", "$", "/*", "*/", "--", "?", "''", "E'\\", "E''\n", "E'' -- \n"])
def test_strange_statements_are_read_in_a_time_that_grows_with_them(piece: str) -> None:
    started = time.process_time()
    numbered(piece * (100_000 // len(piece)))

    assert time.process_time() - started < 5
