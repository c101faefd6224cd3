"""The page about SQL has every table, view and column that stores have, whatever kind they are of."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.schema import metadata
from tests.transcript import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| `([\w, ]+)` \|", re.MULTILINE)
COLUMNS_PART, _, NAMES_PART = PAGE.partition("## Names")
NAMED = {name: tuple(columns.split(", ")) for name, columns in ROW.findall(COLUMNS_PART)}
VIEWS = ("events", "conversation_turns", "tool_calls", "entities", "history")


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "file": f"file:{tmp_path}/folder", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    made = open_store(urls.get(request.param) or request.getfixturevalue("postgres").new_schema_url())
    await made.open("somebody")
    yield made
    await made.close()


def test_the_page_has_all_tables_and_views() -> None:
    assert sorted(NAMED) == sorted([*metadata.tables, *VIEWS])


async def test_every_kind_of_store_has_them_with_these_columns(store: Store) -> None:
    for name, columns in NAMED.items():
        assert (await store.query(f"select * from {name} limit 1")).columns == columns, name


def test_what_stands_for_the_earlier_names_is_there() -> None:
    rows = [line.split("|")[2] for line in NAMES_PART.splitlines() if line.startswith("| `")]
    ours = {found for row in rows for found in re.findall(r"`(\w+)\.", row)} | set(
        re.findall(r"view `(\w+)`", NAMES_PART)
    )

    assert ours >= {"history", "tool_calls", "events", "entities", "messages", "conversations"}
    assert ours <= NAMED.keys()
