"""A store with everything that a store can hold, and bundles of it, made once for each file of tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentos.history.bundle import export_bundle
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from tests.history.copy_support import Left, again, busy_store
from tests.history.support import Desk


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """A store that nobody writes to, with turns, delegations, forks, and calls that a crash cut off."""
    folder = tmp_path_factory.mktemp("source")

    async def fill() -> Left:
        found = await busy_store(SQLiteStore(str(folder / "source.db")), Desk())
        await found.store.close()
        return found

    return asyncio.run(fill())


@pytest.fixture(scope="module")
def bundles(left: Left, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with bundles: of the whole store (all.zip, redacted.zip), a conversation (talk.zip), a fork (fork.zip)."""
    folder = tmp_path_factory.mktemp("bundles")

    async def export() -> None:
        store = again(left.store)
        await export_bundle(store, folder / "all.zip")
        await export_bundle(store, folder / "redacted.zip", redact=True)
        await export_bundle(store, folder / "talk.zip", conversation=left.settled)
        await export_bundle(store, folder / "fork.zip", conversation=left.forked)
        await store.close()

    asyncio.run(export())
    return folder


@pytest.fixture
async def fresh() -> AsyncIterator[Callable[[], MemoryStore]]:
    """Makes stores in memory."""
    made: list[MemoryStore] = []

    def make() -> MemoryStore:
        made.append(MemoryStore())
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def store(fresh: Callable[[], MemoryStore]) -> MemoryStore:
    return fresh()


@pytest.fixture
async def desk() -> Desk:
    return Desk()
