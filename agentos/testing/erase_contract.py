"""The part of the contract of stores about units that erase; see `store_contract`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentos.errors import StoreUnavailable
from agentos.persistence.base import LogRow, Store, Unit, Verdict
from agentos.testing.log_units import AT, SALT, SECOND, LogUnits, append, opened, post_of

STORED, FENCED, CONFLICT = Verdict.STORED, Verdict.FENCED, Verdict.CONFLICT
_BODIES = "select text from messages where text is not null union all select body from payloads where body is not null"
_SALTS = (
    "select count(*) from (select salt from messages union all select salt from payloads) as s where salt is not null"
)


class EraseContract:
    """What a unit erases is gone for every reader at once, and nothing else is."""

    async def test_an_erasing_unit_takes_every_text_before_it_and_leaves_the_entries(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, said(log, "one"), said(other, "one of the other"))
            await append(store, said(log, "two"))
            before = await store.entries(log.id)
            verdicts = await append(store, erasing(log))
            after = await store.entries(log.id)

            assert verdicts == [STORED]
            assert [(entry.seq, entry.kind, entry.head, entry.digest) for entry in after[:-1]] == [
                (entry.seq, entry.kind, entry.head, entry.digest) for entry in before
            ]
            assert [entry.payloads for entry in after] == [[(0, "text", None, None), (1, "x", None, None)]] * 2 + [[]]
            assert texts(await store.entries(other.id)) == ["one of the other", "one of the other, and more"]
            assert after[-1].kind == "payload.erased"

    async def test_the_row_of_the_log_says_when(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, said(log, "one"), said(other, "one"))
            await append(store, erasing(log))
            rows = {row.id: row.erased_at for row in await store.logs()}
            found, claimed = await store.log(log.id), await store.claim(log.id)

            assert rows == {log.id: AT + 2 * SECOND, other.id: None}
            assert found is not None
            assert claimed is not None
            assert (found.erased_at, claimed.erased_at) == (AT + 2 * SECOND, AT + 2 * SECOND)
            assert (await store.query("select erased_at from logs where id = ?", (log.id,))).rows == [
                (AT + 2 * SECOND,)
            ]

    async def test_queries_see_nothing_of_it(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log, later = LogUnits("a", writer), LogUnits("b", writer)
            call: tuple[Any, ...] = (1, 1, 0, 0, "note", None, "once", "done", None, 1, None, AT, AT, 1, 1, 1, None)
            await append(store, said(log, "one", calls=[call], conversation=log.conversation()))
            seen = (await store.query(_BODIES)).rows
            await append(store, erasing(log), said(later, "two"))

            assert len(seen) == 2
            assert (await store.query(_BODIES)).rows == [("two",), ("two, and more",)]
            assert (await store.query(_SALTS)).rows == [(2,)]
            assert (await store.query("select arguments, result, status from tool_calls")).rows == [
                (None, None, "done")
            ]
            history = await store.query("select seq, text from history where conversation = ?", (log.id,))
            assert history.rows == [(1, None)]

    async def test_a_fork_reads_what_it_shares_as_erased_and_keeps_its_own(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, said(log, "shared"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, said(fork, "own"))
            await append(store, erasing(log))
            of_fork = texts(await store.entries(fork.id))
            row = await store.log(fork.id)
            history = await store.query("select text from history where conversation = ? order by seq", (fork.id,))

            assert of_fork == [None, None, "own", "own, and more"]
            assert history.rows == [(None,), ("own",)]
            assert row is not None
            assert row.erased_at is None

    async def test_erasing_a_fork_leaves_what_is_its_parents(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, said(log, "shared"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, said(fork, "own"))
            await append(store, erasing(fork))

            assert texts(await store.entries(log.id)) == ["shared", "shared, and more"]
            assert texts(await store.entries(fork.id)) == ["shared", "shared, and more", None, None]

    async def test_what_waits_for_the_log_counts_as_taken(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            posts = [post_of(log.id, "posted by a unit", "secret"), post_of(other.id, "for another", "kept")]
            await append(store, said(log, "one", posts=posts), said(other, "one"))
            await store.post(post_of(log.id, "taken before", "secret"))
            await append(store, log.unit(taken=["taken before"]))
            await store.post(post_of(log.id, "posted", "secret"))
            await append(store, erasing(log, posts=[post_of(log.id, "by itself", "secret")]))
            again = await store.post(post_of(log.id, "posted", "once more"))
            await store.post(post_of(log.id, "later", "waits"))

            keys = ("posted by a unit", "taken before", "posted", "by itself", "later")
            assert [await store.inbox_seq(log.id, key) for key in keys] == [3, 2, 3, 3, 0]
            assert not again
            assert {(row.log, row.key, row.body) for row in await store.inbox()} == {
                (other.id, "for another", "kept"),
                (log.id, "later", "waits"),
            }
            waiting = await store.query("select count(*) from inbox where body is not null")
            assert waiting.rows == [(2,)]
            assert (log.id, "posted", 3) in [(row.log, row.key, row.seq) for row in await store.taken()]

    @pytest.mark.parametrize("wrong", ["epoch", "digest"])
    async def test_a_unit_that_is_refused_erases_nothing(self, store_factory: Callable[[], Store], wrong: str) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, said(log, "one", posts=[post_of(log.id, "k", "waits")]), said(other, "one"))
            refused = erasing(log)
            if wrong == "epoch":
                refused.epoch = 7
            else:
                refused.previous = bytes(32)
            verdicts = await append(store, said(other, "two"), refused)
            row = await store.log(log.id)

            assert verdicts == [STORED, FENCED if wrong == "epoch" else CONFLICT]
            assert texts(await store.entries(log.id)) == ["one", "one, and more"]
            assert [item.body for item in await store.inbox(log.id)] == ["waits"]
            assert row is not None
            assert row.erased_at is None

    async def test_a_batch_erases_what_stands_before_and_not_what_comes_behind(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log, child = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, said(log, "one", posts=[post_of(child.id, "task", "secret")]))
            batch = [
                said(child, "of the child", taken=["task"], posts=[post_of(log.id, "end", "secret")]),
                said(log, "two"),
                erasing(log),
                erasing(child),
                said(log, "three", posts=[post_of(child.id, "late", "kept")]),
            ]
            verdicts = await append(store, *batch)

            assert verdicts == [STORED] * len(batch)
            assert texts(await store.entries(log.id)) == [None] * 4 + ["three", "three, and more"]
            assert texts(await store.entries(child.id)) == [None, None]
            assert [(row.key, row.body) for row in await store.inbox()] == [("late", "kept")]
            assert await store.inbox_seq(log.id, "end") == 3

    async def test_it_can_be_done_again(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, said(log, "one"))
            verdicts = [await append(store, erasing(log)) for _ in range(2)]
            await append(store, said(log, "two"))
            between = texts(await store.entries(log.id))
            verdicts.append(await append(store, erasing(log)))
            row = await store.log(log.id)

            assert verdicts == [[STORED]] * 3
            assert between == [None, None, "two", "two, and more"]
            assert texts(await store.entries(log.id)) == [None] * 4
            assert row is not None
            assert row.erased_at == AT + 5 * SECOND

    async def test_a_copy_of_an_erased_log_is_one(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            unit = log.unit("input.received", "payload.erased", "child.late")
            unit.messages, unit.payloads = [(1, "user", 0, 0, None, None)], [(1, 1, "x", None, None)]
            unit.erases = 1
            verdicts = await append(store, unit)
            row = await store.log(log.id)

            assert verdicts == [STORED]
            assert texts(await store.entries(log.id)) == [None, None]
            assert row is not None
            assert row.erased_at == AT + 2 * SECOND

    async def test_other_handles_and_later_ones_see_it_too(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer), opened(store_factory) as (beside, _):
            log = LogUnits("a", writer)
            await append(store, said(log, "one", posts=[post_of(log.id, "k", "secret")]))
            seen = texts(await beside.entries(log.id)), (await beside.query(_BODIES)).rows
            await append(store, erasing(log))

            assert seen == (["one", "one, and more"], [("one",), ("one, and more",)])
            assert await _found(beside, log.id) == ([None, None], [], [], AT + 2 * SECOND)
            await store.close()
            async with opened(store_factory) as (later, _):
                assert await _found(later, log.id) == ([None, None], [], [], AT + 2 * SECOND)

    @pytest.mark.parametrize("how", ["settle_erased", "compact"])
    async def test_the_store_goes_on_once_the_bytes_are_settled(
        self, store_factory: Callable[[], Store], how: str
    ) -> None:
        async with opened(store_factory) as (store, writer), opened(store_factory) as (beside, other_writer):
            log, other = LogUnits("a", writer), LogUnits("b", other_writer)
            await append(store, said(log, "one"))
            await append(beside, said(other, "kept"))
            await append(store, erasing(log))
            await getattr(store, how)()
            verdicts = [await append(store, said(log, "two")), await append(beside, said(other, "too"))]

            assert verdicts == [[STORED]] * 2
            assert texts(await beside.entries(log.id)) == [None, None, "two", "two, and more"]
            assert texts(await store.entries(other.id)) == ["kept", "kept, and more", "too", "too, and more"]

    @pytest.mark.parametrize("how", ["settle_erased", "compact"])
    async def test_a_closed_store_settles_nothing(self, store_factory: Callable[[], Store], how: str) -> None:
        async with opened(store_factory) as (store, _):
            await store.close()

            with pytest.raises(StoreUnavailable, match="closed"):
                await getattr(store, how)()


def said(log: LogUnits, text: str, **others: Any) -> Unit:
    """A unit of one entry, with a message and one more payload."""
    seq = log.seq + 1
    return log.unit(text=text, payloads=[(seq, 1, "x", SALT, f"{text}, and more")], **others)


def erasing(log: LogUnits, **others: Any) -> Unit:
    """A unit that erases all that the log has."""
    seq = log.seq
    return log.unit("payload.erased", erases=seq, **others)


def texts(entries: Sequence[Any]) -> list[str | None]:
    """The bodies of all values in order; that one has a salt and no body, or a body and no salt, is no erasing."""
    values = [(salt, body) for entry in entries for _, _, salt, body in entry.payloads]
    assert all((salt is None) == (body is None) for salt, body in values)
    return [body for _, body in values]


async def _found(store: Store, log: str) -> tuple[object, ...]:
    row: LogRow | None = await store.log(log)
    assert row is not None
    bodies = (await store.query(_BODIES)).rows
    return texts(await store.entries(log)), bodies, await store.inbox(log), row.erased_at
