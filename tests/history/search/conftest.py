"""Stores of every kind whose search index has a place of its own, and a SQLite store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
async def any_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    urls = {"memory": "memory:", "file": f"file:{tmp_path}/folder", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    made = open_store(urls.get(request.param) or request.getfixturevalue("postgres").new_schema_url())
    yield made
    await made.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    made = SQLiteStore(str(tmp_path / "history.db"))
    yield made
    await made.close()
