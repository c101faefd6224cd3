"""Search: what was said is found in stores of every kind, and nothing is shown that the store has no longer."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import QueryRefused
from agentos.events.model import ModelReply
from agentos.history import Found, Hit, Search, Wanted, search_store
from agentos.history.search import indexing as indexing_module
from agentos.history.search.indexing import Indexing
from agentos.ids import call_id
from agentos.persistence import search_place
from agentos.persistence.base import Store, StoredEntry
from agentos.persistence.memory import MemoryStore
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_place import turn_at
from agentos.persistence.search_rows import Asked
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.clock import ManualClock
from tests.history.support import Desk, advance, office, settled


def whats(found: Found) -> set[tuple[str, str, str | None]]:
    return {(hit.role, hit.part, hit.tool) for hit in found.hits}


def marked(hit: Hit) -> list[str]:
    return [hit.snippet[begin:end] for begin, end in hit.marks]


async def test_all_that_was_said_is_found_in_every_kind_of_store(any_store: Store, desk: Desk) -> None:
    async with office(any_store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text='walrus \\u0000 Åland 日本語'\nask_helper task='note text=walrus'")
        other = await kernel.start("aide")
        await other.ask("note text=penguin")
        found = await search_store(any_store, "WALRUS", limit=100)
        deep = await search_store(any_store, "walrus", Wanted(agent="helper"))
        mine = await search_store(any_store, "aland 本語", Wanted(root=clerk.id, state="idle"))
        none = await search_store(any_store, "penguin", Wanted(root=clerk.id))
        closed = await search_store(any_store, "penguin", Wanted(state="closed"))
        results = await search_store(any_store, "noted penguin", Wanted(tool="note", role="tool"))

    assert whats(found) >= {
        ("user", "text", None),
        ("assistant", "arguments", "note"),
        ("tool", "result", "note"),
        ("assistant", "arguments", "ask_helper"),
        ("tool", "result", "ask_helper"),
        ("assistant", "text", None),
    }
    assert {hit.agent for hit in found.hits} == {"clerk", "helper"}
    assert all(word.lower() == "walrus" for hit in found.hits for word in marked(hit))
    assert {hit.agent for hit in deep.hits} == {"helper"}
    assert {hit.conversation for hit in mine.hits} == {clerk.id}
    assert none.hits == closed.hits == ()
    (one,) = results.hits
    assert (one.conversation, one.snippet, marked(one), one.state) == (
        other.id,
        "noted penguin",
        ["noted", "penguin"],
        "idle",
    )
    assert (one.turn or "").startswith("turn_")
    assert (one.call or "").startswith("call_")


async def test_each_hit_is_where_it_says(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus\nfail text=walrus")
        found = await search_store(store, "walrus", limit=100)
        stored = {entry.seq: entry for entry in await store.entries(clerk.id)}

    assert {hit.conversation for hit in found.hits} == {clerk.id}
    for hit in found.hits:
        body = next(body for i, _, _, body in stored[hit.seq].payloads if i == hit.i)
        assert "walrus" in str(body)


async def test_only_logs_that_moved_are_read_and_only_from_where_they_were(
    store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []
    entries = store.entries

    async def noted(log: str, after: int = 0, *more: object, **named: object) -> list[StoredEntry]:
        read.append((log, after))
        return await entries(log, after, *more, **named)  # type: ignore[arg-type]

    async with office(store, desk) as kernel:
        clerk, aide = await kernel.start("clerk"), await kernel.start("aide")
        await clerk.ask("note text=one")
        await aide.ask("note text=two")
        first = await search_store(store, "nothing")
        row = await store.log(aide.id)
        await aide.ask("note text=three")
        monkeypatch.setattr(store, "entries", noted)
        second = await search_store(store, "nothing")
        again = await search_store(store, "nothing")
        monkeypatch.undo()
        whole = await search_store(store, "nothing", rebuild=True)

    assert row is not None
    assert read == [(aide.id, row.seq - 1), (aide.id, row.seq)]
    assert first.texts < second.texts == again.texts == whole.texts


async def test_what_is_indexed_in_small_batches_is_the_same(
    store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Indexing] = []
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(5):
            await clerk.ask(f"note text='ball {n}'")
        whole = await search_store(store, "ball", limit=100, newest=True)
        monkeypatch.setattr(indexing_module, "PAGE_ENTRIES", 3)
        monkeypatch.setattr(indexing_module, "BATCH_TEXTS", 2)
        parts = await search_store(store, "ball", limit=100, newest=True, rebuild=True, tell=told.append)

    assert parts.hits == whole.hits
    assert len(told) > 5
    assert told[-1] == Indexing(1, 1, whole.texts)


async def test_the_best_come_first_or_the_newest_and_pages_are_the_whole(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(store, desk, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(6):
            await advance(clock, 60)
            await clerk.ask(f"note text='{'ball ' * (n % 3 + 1)}{'other words ' * 5}'")
        best = await search_store(store, "ball", limit=100)
        newest = await search_store(store, "ball", limit=100, newest=True)
        pages: list[Found] = []
        while not pages or pages[-1].more:
            after = pages[-1].hits[-1].cursor if pages else None
            pages.append(await search_store(store, "ball", limit=4, after=after))
        late = await search_store(store, "ball", Wanted(since=newest.hits[0].at), limit=100)
        early = await search_store(store, "ball", Wanted(until=newest.hits[0].at), limit=100)

    assert [hit for page in pages for hit in page.hits] == list(best.hits)
    assert [hit.at for hit in newest.hits] == sorted((hit.at for hit in best.hits), reverse=True)
    assert set(newest.hits) == set(best.hits)
    assert len(late.hits) + len(early.hits) == len(best.hits)
    assert 0 < len(late.hits) < len(early.hits)


async def test_what_a_fork_shares_is_found_once_and_names_the_fork(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        fork = await kernel.fork(clerk.id)
        await clerk.ask("note text=penguin")
        forked = await kernel.get(fork.id)
        await forked.ask("note text=seal")
        second = await kernel.fork(fork.id)
        shared = await search_store(store, "walrus", limit=100)
        own = await search_store(store, "seal", limit=100)
        later = await search_store(store, "penguin", limit=100)

    assert {hit.conversation for hit in shared.hits} == {clerk.id}
    assert len({(hit.seq, hit.i) for hit in shared.hits}) == len(shared.hits)
    assert {hit.forks for hit in shared.hits} == {(fork.id, second.id)}
    assert {(hit.conversation, hit.forks) for hit in own.hits} == {(fork.id, (second.id,))}
    assert {(hit.conversation, hit.forks) for hit in later.hits} == {(clerk.id, ())}


async def test_a_call_that_a_parent_began_and_a_fork_ended_has_its_tool(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=walrus"))
        await desk.until_started(1)
        (call,) = {entry.call for entry in await kernel.history(clerk.id) if entry.call}
        fork = await kernel.fork(clerk.id, replace_results={call_id(clerk.id, call): "a penguin instead"})
        await kernel.outcome(fork.id)
        desk.gate.set()
        await asking
        found = await search_store(store, "penguin", Wanted(tool="wait", role="tool"))

    assert [(hit.conversation, hit.part, hit.tool) for hit in found.hits] == [(fork.id, "result", "wait")]


async def test_thinking_is_searched_when_it_is_asked_for(store: Store, desk: Desk) -> None:
    async with office(store, desk, reply=lambda _: ModelReply(text="yes", thinking="a walrus perhaps")) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("what is it?")
        plain = await search_store(store, "walrus")
        found = await search_store(store, "walrus", Wanted(thinking=True))

    assert plain.hits == ()
    assert whats(found) == {("assistant", "thinking", None)}


async def test_a_body_that_changed_or_went_is_not_shown_and_leaves_the_index(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        await clerk.ask("note text='walrus again'")
        before = await search_store(store, "walrus", limit=100)
    await store.close()
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as db, db:
        db.execute("update messages set salt = null, text = null where role = 'user'")
        db.execute("update payloads set body = replace(body, 'walrus', 'seal')")
    changed = SQLiteStore(store.url.removeprefix("sqlite:///"))
    after = await search_store(changed, "walrus", limit=4)
    with closing(SearchIndex(SearchIndex.beside(store.url))) as index:
        left = index.hits(Asked(match='"walrus"'), 100, 10)
    await changed.close()

    assert {hit.role for hit in before.hits} == {"user", "assistant", "tool"}
    assert {(hit.role, hit.part) for hit in after.hits} == {("tool", "result"), ("assistant", "text")}
    assert {(hit.seq, hit.i) for hit in left} == {(hit.seq, hit.i) for hit in after.hits}


async def test_an_erase_takes_texts_out_of_the_index_and_so_does_the_next_search(
    store: SQLiteStore, desk: Desk
) -> None:
    async with office(store, desk) as kernel:
        clerk, other = await kernel.start("clerk"), await kernel.start("clerk")
        await clerk.ask("note text=xylocanary\nask_helper task='note text=xylocanary'")
        await other.ask("note text=ordinary")
        await search_store(store, "ordinary")
        await settled(kernel, [clerk.id])
        before = _bytes(_index_of(store))
        await kernel.erase(clerk.id)
        told = _bytes(_index_of(store))
        _write(_index_of(store), before)  # as an index that was not told of the erase
        found = await search_store(store, "xylocanary")
        rest = await search_store(store, "ordinary")

    assert b"xylocanary" in before
    assert b"locanary" not in told
    assert found.hits == ()
    assert rest.hits
    assert b"locanary" not in _bytes(_index_of(store))


async def test_a_store_that_was_put_back_is_indexed_as_it_is(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=early")
    await store.close()
    file = Path(store.url.removeprefix("sqlite:///"))
    backup = _bytes(file)
    await _asked_more(file, desk, "note text=walrus")
    put_back = await _searched(file, "walrus")
    _write(file, backup)
    gone = await _searched(file, "walrus")
    await _asked_more(file, desk, "note text=seal", "note text=seal", "note text=seal")
    other = await _searched(file, "walrus"), await _searched(file, "seal"), await _searched(file, "early")

    assert put_back.hits
    assert gone.hits == ()
    assert other[0].hits == ()
    assert len(other[1].hits) == 12
    assert len(other[2].hits) == 4


async def test_a_damaged_index_is_made_anew_and_the_answer_is_whole(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(f"note text='walrus {'and many other words ' * 2_000}'")
        whole = await search_store(store, "walrus")
        sound = _bytes(_index_of(store))
        _write(_index_of(store), sound[:4_096] + b"\xff" * (len(sound) - 4_096))
        again = await search_store(store, "walrus")

    assert whole.hits
    assert again == whole


async def test_while_another_process_indexes_what_is_there_is_read(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        first = await search_store(store, "walrus")
        await clerk.ask("note text=penguin")
        with turn_at(Path(first.index)):
            beside = await search_store(store, "walrus")
            unknown = await search_store(store, "penguin", rebuild=True)
        after = await search_store(store, "penguin")

    assert (first.behind, beside.behind, after.behind) == (False, True, False)
    assert beside.hits == first.hits
    assert unknown.hits == ()
    assert after.hits


async def test_an_index_that_cannot_be_kept_is_made_in_memory_and_said(
    store: SQLiteStore, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        monkeypatch.setattr(search_place, "_locked", refused)
        found = await search_store(store, "walrus")

    assert found.hits
    assert (found.index, found.unkept) == ("memory", str(_index_of(store)))
    assert _index_of(store).name not in os.listdir(_index_of(store).parent)


async def test_one_search_object_keeps_its_index_in_memory(desk: Desk) -> None:
    told: list[Indexing] = []
    async with office(MemoryStore(), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        with closing(Search(kernel.store)) as search:
            found = [await search.find("walrus", tell=told.append) for _ in range(2)]
            await clerk.ask("note text=walrus")
            more = await search.find("walrus", tell=told.append)

    assert found[0] == found[1]
    assert len(more.hits) > len(found[0].hits)
    assert [indexing.texts for indexing in told] == [found[0].texts, more.texts - found[0].texts]


async def test_searches_at_once_agree(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=walrus")
        with closing(Search(store)) as search:
            found = await asyncio.gather(*[search.find("walrus") for _ in range(8)])
        again = await search_store(store, "walrus")

    assert {one.hits for one in found if not one.behind} == {again.hits}
    assert [name for name in os.listdir(_index_of(store).parent) if "search" in name] == [_index_of(store).name]


@pytest.mark.parametrize(
    ("words", "options", "why"),
    [
        ("-", {}, "name a word"),
        ("ball", {"limit": 0}, "1 to 1,000 hits"),
        ("ball", {"limit": 1_001}, "1 to 1,000 hits"),
        ("ball", {"after": "conversation_x"}, "is no cursor"),
        ("ball", {"after": "conversation_x:1:0"}, "no hit of these words any more"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    store: SQLiteStore, desk: Desk, words: str, options: Any, why: str
) -> None:
    async with office(store, desk):
        with pytest.raises(QueryRefused, match=why):
            await search_store(store, words, **options)


def _index_of(store: Store) -> Path:
    path = SearchIndex.beside(store.url)
    assert path is not None
    return path


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def _asked_more(file: Path, desk: Desk, *words: str) -> None:
    store = SQLiteStore(str(file))
    async with office(store, desk) as kernel:
        for id_ in await kernel.conversations():
            for word in words:
                await (await kernel.get(id_)).ask(word)
    await store.close()


async def _searched(file: Path, words: str) -> Found:
    store = SQLiteStore(str(file))
    try:
        return await search_store(store, words, limit=100)
    finally:
        await store.close()
