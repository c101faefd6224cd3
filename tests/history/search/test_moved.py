"""What moved since the last search is found without the head of every conversation, in every kind of store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.history import Search
from agentos.history.search import moved as moved_module
from agentos.history.search.moved import HEADS_AT_HAND, moved_since
from agentos.persistence.base import LogRow, Store
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_rows import SQUARES, Heads, Standing
from agentos.persistence.sqlite import SQLiteStore
from tests.history.forking import fork
from tests.history.support import Desk, office


class Compared:
    """Counts how often the heads of all conversations were read."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._logs = store.logs
        monkeypatch.setattr(store, "logs", self._counted)

    async def _counted(self, kind: str | None = None) -> list[LogRow]:
        self.count += 1
        return await self._logs(kind)


async def test_all_heads_are_read_once_and_then_those_that_moved(
    any_store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(any_store, desk) as kernel:
        clerk, aide = await kernel.start("clerk"), await kernel.start("aide")
        await clerk.ask("note text=walrus\nask_helper task='note text=walrus'")
        await aide.ask("note text=penguin")
        with closing(Search(any_store)) as search:
            compared = Compared(any_store, monkeypatch)
            hits = [len((await search.find("walrus", limit=100)).hits)]
            counts = [compared.count]
            await clerk.ask("note text=walrus")
            new = await kernel.start("clerk")
            await new.ask("note text=walrus")
            forked = await fork(kernel, clerk.id, 4)
            assert forked is not None
            for _ in range(2):
                hits.append(len((await search.find("walrus", limit=100)).hits))
                counts.append(compared.count)
            monkeypatch.undo()
            whole = await search.find("walrus", limit=100, rebuild=True)

    assert counts == ([1, 2, 3] if any_store.url.startswith(HEADS_AT_HAND) else [1, 1, 1])
    assert hits[0] < hits[1] == hits[2] == len(whole.hits)


async def test_what_was_erased_leaves_the_index_of_whoever_searches_next(
    any_store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(any_store, desk) as kernel:
        clerk, aide = await kernel.start("clerk"), await kernel.start("aide")
        await clerk.ask("note text=walrus")
        await aide.ask("note text=walrus")
        with closing(Search(any_store)) as search:
            before = await search.find("walrus", limit=100)
            await kernel.erase(clerk.id)
            after = await search.find("walrus", limit=100)
            compared = Compared(any_store, monkeypatch)
            again = await search.find("walrus", limit=100)

    assert {hit.conversation for hit in before.hits} == {clerk.id, aide.id}
    assert {hit.conversation for hit in after.hits} == {hit.conversation for hit in again.hits} == {aide.id}
    assert compared.count == any_store.url.startswith(HEADS_AT_HAND)


async def test_all_are_compared_when_more_moved_than_is_looked_at_one_by_one(
    store: SQLiteStore, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved_module, "MOVED_MAX", 2)
    async with office(store, desk) as kernel:
        started = [await kernel.start("clerk") for _ in range(4)]
        with closing(Search(store)) as search:
            await search.find("walrus")
            for one in started:
                await one.ask("note text=walrus")
            compared = Compared(store, monkeypatch)
            found = await search.find("walrus", limit=100)

    assert {hit.conversation for hit in found.hits} == {one.id for one in started}
    assert compared.count == 1


@pytest.mark.parametrize(
    "change",
    [
        "update logs set seq = seq + 1 where n = (select min(n) from conversations)",
        "delete from conversations where n = (select min(n) from conversations)",
        "update conversations set updated_at = 5",
        "update logs set erased_at = 5 where n = (select min(n) from conversations)",
    ],
)
async def test_heads_that_do_not_add_up_have_all_of_them_compared(
    change: str, store: SQLiteStore, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
    index = SearchIndex.beside(store.url)
    store = SQLiteStore(store.url.removeprefix("sqlite:///"))
    with closing(Search(store)) as search, closing(SearchIndex(index)) as looking:
        await search.find("walrus")
        settled = await moved_since(store, looking)
        monkeypatch.setattr(moved_module, "CLOCKS_APART_US", -1_000)
        _edit(store, change)
        moved = await moved_since(store, looking)
    await store.close()

    assert settled.logs == {}
    assert moved.logs is None


def test_two_that_moved_by_the_same_do_not_make_up_for_one_another() -> None:
    """Nor does one that goes away and comes back elsewhere."""
    heads = Heads(0, 0, 0).moved(None, 10).moved(None, 20)

    assert heads == Heads(2, 30, 500)
    assert heads.moved(10, 12).moved(20, 18) != heads
    assert heads.moved(10, 12).moved(12, 10) == heads
    assert heads.moved(10, None) == Heads(1, 20, 400)


@pytest.mark.parametrize("sums", [moved_module._STANDS, "search_index"])
def test_the_statements_have_the_modulus_of_the_sums(sums: str) -> None:
    from agentos.persistence import search_index

    statement = search_index._HEADS if sums == "search_index" else sums

    assert f"% {SQUARES})" in statement


def test_where_a_store_stood_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with closing(SearchIndex(path)) as index:
        before = index.standing()
        index.stand(Standing(1, 2))
        index.stand(Standing(3, 4))
    with closing(SearchIndex(path)) as index:
        after: Any = index.standing()

    assert (before, after) == (None, Standing(3, 4))


def _edit(store: Store, change: str) -> None:
    import sqlite3

    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"), isolation_level=None)) as db:
        db.execute(change)
