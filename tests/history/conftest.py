"""A store of each kind, and a desk of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from tests.history.support import Desk


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(str(tmp_path / "history.db"))
    yield made
    await made.close()


@pytest.fixture
async def desk() -> Desk:
    return Desk()
