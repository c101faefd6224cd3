"""The part of the contract of stores about batches of every size, and what is read of them; see `store_contract`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentos.ids import LogId
from agentos.persistence.base import Store, Verdict, WakeupRow
from agentos.testing.log_units import AT, SALT, SECOND, LogUnits, append, opened, post_of

STORED, CONFLICT = Verdict.STORED, Verdict.CONFLICT
MEBIBYTE = 1024 * 1024
HOSTILE = [
    "x') OR '1'='1",
    'x") OR "1"="1',
    "'; DROP TABLE entries; --",
    "a' UNION SELECT id FROM logs --",
    "%",
    "_",
    "$1 ? :name @name",
    "a\\'b\\",
    "{0} %s {name}",
    "../../etc/passwd",
    "new\nline\ttab",
    "žluťoučký 🐎",
]
"""Texts that mean something to SQL, to its patterns and placeholders, to formats, or to a file system."""


class ReadingContract:
    """Whatever goes in comes out whole, in order and in parts."""

    async def test_an_empty_batch_does_nothing(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())

            assert await append(store) == []
            assert await append(store, log.unit()) == [STORED]

    async def test_units_of_one_log_build_on_each_other_within_a_batch(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            batch = [log.unit("a", text="one"), other.unit("x"), log.unit("b", "c", text="two"), log.unit("d")]

            assert await append(store, *batch) == [STORED] * 4
            entries = await store.entries(log.id)
            assert [(entry.kind, entry.unit) for entry in entries] == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]
            row = await store.log(log.id)
            assert row is not None
            assert (row.seq, row.digest) == (4, log.digest)

    async def test_a_unit_on_one_that_is_left_out_is_left_out_too(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, log.unit(), other.unit())
            log.unit("lost")
            batch = [log.unit("a"), other.unit("x"), log.unit("b"), other.unit("y")]

            assert await append(store, *batch) == [CONFLICT, STORED, CONFLICT, STORED]
            assert [entry.seq for entry in await store.entries(log.id)] == [1]
            assert [entry.kind for entry in await store.entries(other.id, 1)] == ["x", "y"]

    @pytest.mark.parametrize("logs", [1, 1_000])
    async def test_a_thousand_units_at_once(self, store_factory: Callable[[], Store], logs: int) -> None:
        async with opened(store_factory) as (store, writer):
            all_ = [LogUnits(str(i), writer) for i in range(logs)]
            units = [all_[i % logs].unit("a", "b", text=str(i)) for i in range(1_000)]

            assert await append(store, *units) == [STORED] * 1_000
            heads = {row.id: (row.seq, row.digest) for row in await store.logs()}
            assert heads == {log.id: (log.seq, log.digest) for log in all_}
            assert (await store.query("select count(*), count(distinct text) from messages")).rows == [(1_000, 1_000)]
            last = await store.entries(all_[-1].id, all_[-1].seq - 2)
            assert [entry.kind for entry in last] == ["a", "b"]
            assert last[0].payloads == [(0, "text", SALT, "999")]

    async def test_bodies_of_several_megabytes_come_back_whole(self, store_factory: Callable[[], Store]) -> None:
        said = "".join(f"{i:07x}\n" for i in range(3 * MEBIBYTE // 8))
        kept = '"' + "žluťoučký kůň 🐎 " * (MEBIBYTE // 8) + '"'
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            payloads = [(2, 0, "whole", SALT, kept), (2, 1, "again", SALT, said)]
            batch = log.unit("a", "b", text=said, payloads=payloads), log.unit("after", text="small")

            assert await append(store, *batch) == [STORED, STORED]
            first, second, third = await store.entries(log.id)
            # Not compared with == as a whole: a failure would print megabytes.
            bodies = [body for _, _, _, body in first.payloads + second.payloads]
            assert [body == wanted for body, wanted in zip(bodies, (said, kept, said), strict=True)] == [True] * 3
            assert third.payloads == [(0, "text", SALT, "small")]

    async def test_definitions_are_read_in_pages_by_digest(self, store_factory: Callable[[], Store]) -> None:
        known = [(f"{(i * 7) % 25:02x}", "agent" if i % 2 else "rules", f'{{"i":{i}}}') for i in range(25)]
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(definitions=known[:20]))
            await append(store, log.unit(definitions=known[10:]))
            pages, after = [], ""
            while page := await store.definitions(after, 10):
                pages.append(page)
                after = page[-1][0]

            assert [len(page) for page in pages] == [10, 10, 5]
            assert [row for page in pages for row in page] == sorted(known)
            assert await store.definitions() == sorted(known)
            assert await store.definitions("18") == []

    async def test_entries_are_read_by_their_kinds(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, log.unit("a", "a_c", "abc", text="said"), log.unit("b", "a", "A"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, fork.unit("c", "a"))
            asked: list[tuple[list[str], int, int | None, int | None]] = [
                (["a"], 0, None, None), (["a", "c"], 1, None, None), (["a"], 0, 7, None), (["a", "b"], 0, None, 2),
                (["a_c"], 0, None, None), (["b,a"], 0, None, None), (["%"], 0, None, None), ([], 0, None, None),
            ]  # fmt: skip
            found = [
                [entry.seq for entry in await store.entries(fork.id, after, upto, limit, kinds)]
                for kinds, after, upto, limit in asked
            ]

            assert found == [[1, 5, 8], [5, 7, 8], [1, 5], [1, 4], [2], [], [], []]
            (first,) = await store.entries(fork.id, limit=1, kinds={"a"})
            assert first.payloads == [(0, "text", SALT, "said")]

    async def test_the_last_snapshot_up_to_a_seq_is_found(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, log.unit("a", "snapshot", "b"), log.unit("snapshot", "c"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, fork.unit("d", "snapshot"), log.unit("snapshot"))
            found = [await store.last_snapshot(fork.id, upto) for upto in (0, 1, 2, 3, 4, 6, 7, None)]

            assert found == [0, 0, 2, 2, 4, 4, 7, 7]
            assert await store.last_snapshot(log.id) == 6

    async def test_what_was_decided_of_a_call_in_doubt_stays(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            call = (2, 1, 0, 0, "note", "notes", "once", "unknown", None, 1, None, AT, AT + 1, None, None, None, None)
            calls = [call, (3, *call[1:])]
            await append(store, log.unit("x", "y", "z", calls=calls), other.unit("x", "y", "z", calls=calls))
            await append(store, log.unit(resolved=[(2, "done")]))
            await append(store, log.unit(calls=[(*call[:8], "later", *call[9:])]))
            rows = (await store.query("select conversation, id, resolution from tool_calls")).rows

            assert sorted(resolution for _, _, resolution in rows if resolution) == ["done"]
            assert [(log_, id_[-2:]) for log_, id_, resolution in rows if resolution] == [(log.id, "_2")]

    async def test_order_is_that_of_the_append_whatever_the_clock_said(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            frozen = [log.unit(text=f"frozen {i}") for i in range(11)]
            backward = [log.unit(text=f"backward {i}", role="tool") for i in range(3)]
            for unit in frozen:
                unit.entries = [(*row[:5], AT, *row[6:]) for row in unit.entries]
            for i, unit in enumerate(backward):
                unit.entries = [(*row[:5], AT - i * SECOND // 25, *row[6:]) for row in unit.entries]
            await append(store, *frozen)
            await append(store, *backward)
            texts = [body for entry in await store.entries(log.id) for _, _, _, body in entry.payloads]
            last_ten = [body for entry in await store.entries(log.id, log.seq - 10) for *_, body in entry.payloads]
            history = (
                await store.query("select text from history where conversation = ? order by seq", (log.id,))
            ).rows

            assert texts == [f"frozen {i}" for i in range(11)] + [f"backward {i}" for i in range(3)]
            assert last_ten == texts[-10:]
            assert [text for (text,) in history] == texts

    @pytest.mark.parametrize("text", HOSTILE)
    async def test_a_text_that_looks_like_sql_is_only_a_text(
        self, store_factory: Callable[[], Store], text: str
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log, bystander = _named(text, writer), LogUnits("bystander", writer)
            due = WakeupRow(log=text, reason=text, turn=1, call=0, due_at=1)
            unit = log.unit(text, text=text, wakeups=[due], definitions=[(text, text, text)])
            unit.payloads = [(1, 1, text, SALT, text)]
            unit.components = [(text, text, text)]
            await append(store, bystander.unit(posts=[post_of(bystander.id, "k")], definitions=[("d", "agent", "{}")]))

            assert await append(store, unit) == [STORED]
            assert await store.post(post_of(text, text, text)) is True
            assert await store.post(post_of(text, text, text)) is False
            (entry,) = await store.entries(text, kinds=[text])
            assert (entry.kind, entry.payloads[1:]) == (text, [(1, text, SALT, text)])
            assert [row.id for row in await store.logs(text)] == [text]
            assert [row.body for row in await store.inbox(text)] == [text]
            assert (await store.inbox_seq(text, text), await store.inbox_seq(bystander.id, text)) == (0, None)
            assert await store.wakeups(text) == [due]
            assert (await store.definition(text), await store.definition(text + "'")) == ((text, text), None)
            assert await store.claim(text) is not None
            found = await store.query("select type from components where entity = ?", (text,))
            assert found.rows == [(text,)]
            assert await append(store, bystander.unit(), log.unit()) == [STORED, Verdict.FENCED]

    async def test_a_filter_that_looks_like_sql_finds_nothing(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(text="kept", posts=[post_of(log.id, "k")], definitions=[("d", "agent", "{}")]))
            for text in HOSTILE:
                assert await store.log(text) is None
                assert await store.logs(text) == []
                assert await store.entries(text) == []
                assert await store.entries(log.id, kinds=[text]) == []
                assert await store.inbox(text) == []
                assert await store.inbox_seq(log.id, text) is None
                assert await store.wakeups(text) == []
                assert await store.definition(text) is None
                assert await store.last_snapshot(text) == 0
                assert await store.claim(text) is None
                assert (await store.query("select 1 from messages where text = ?", (text,))).rows == []

            assert len(await store.entries(log.id)) == 1


def _named(id_: str, writer: int) -> LogUnits:
    """A log with this id and kind."""
    log = LogUnits(id_, writer)
    assert log.create is not None
    log.id = log.create.id = LogId(id_)
    log.create.kind = id_
    return log
