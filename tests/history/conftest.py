"""A store of each kind, and a desk of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from tests.history.copy_support import Left, busy_store
from tests.history.support import Desk


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(str(tmp_path / "history.db"))
    yield made
    await made.close()


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def left(tmp_path: Path, desk: Desk) -> AsyncIterator[Left]:
    """A SQLite store with everything that a store can hold."""
    found = await busy_store(SQLiteStore(str(tmp_path / "source.db")), desk)
    yield found
    await found.store.close()


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[[str], Store]]:
    """A new SQLite store of this name, closed when the test is over."""
    async with AsyncExitStack() as stores:

        def made(name: str) -> Store:
            store = SQLiteStore(str(tmp_path / f"{name}.db"))
            stores.push_async_callback(store.close)
            return store

        yield made
