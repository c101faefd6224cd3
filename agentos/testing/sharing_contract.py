"""The part of the contract of stores that lets logs, writers and processes work together; see `store_contract`."""

from __future__ import annotations

from collections.abc import Callable

from agentos.persistence.base import Store, Verdict
from agentos.testing.log_units import LogUnits, append, opened, post_of, wakeup_of

STORED, FENCED = Verdict.STORED, Verdict.FENCED


class SharingContract:
    """Inbox, wake-ups, definitions, and whose a log is."""

    async def test_a_taken_post_is_remembered_by_its_key_alone(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            sender, receiver = LogUnits("sender", writer), LogUnits("receiver", writer)
            row = post_of(receiver.id, "k")
            await append(store, sender.unit(posts=[row]), receiver.unit())
            before = await store.inbox(), await store.inbox_seq(receiver.id, "k")
            taking = receiver.unit("a", "b", taken=["k"])
            await append(store, taking)

            assert before == ([row], 0)
            assert await store.inbox() == []
            assert await store.inbox_seq(receiver.id, "k") == taking.seq
            assert await store.inbox_seq(receiver.id, "unknown") is None
            assert await store.post(post_of(receiver.id, "k", "again")) is False
            assert (await store.query("select salt, body, seq from inbox")).rows == [(None, None, taking.seq)]

    async def test_a_key_is_posted_once_and_the_first_body_stands(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, _):
            posted = [await store.post(post_of("log", "k", body)) for body in ("first", "second")]
            elsewhere = await store.post(post_of("other", "k", "third"))

            assert (posted, elsewhere) == ([True, False], True)
            assert [row.body for row in await store.inbox("log")] == ["first"]

    async def test_what_waits_is_listed_oldest_first(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await store.post(post_of(log.id, "z"))
            await append(store, log.unit(posts=[post_of(log.id, "m"), post_of("other", "b")]))
            await store.post(post_of(log.id, "a"))

            assert [row.key for row in await store.inbox(log.id)] == ["z", "m", "a"]
            assert [row.key for row in await store.inbox()] == ["z", "m", "b", "a"]

    async def test_a_unit_may_post_and_take_the_same_key(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(posts=[post_of(log.id, "k")], taken=["k"]))

            assert await store.inbox() == []
            assert await store.inbox_seq(log.id, "k") == 1

    async def test_wakeups_are_set_moved_and_ended(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            retry, deadline, later = (
                wakeup_of(log.id, "retry", 30),
                wakeup_of(log.id, "deadline", 20),
                wakeup_of(log.id, "retry", 10),
            )
            await append(store, log.unit(wakeups=[retry, deadline]))
            set_ = await store.wakeups()
            await append(store, log.unit(wakeups=[later]))
            moved = await store.wakeups()
            await append(store, log.unit(woken=[later, deadline], wakeups=[retry]))

            assert (set_, moved, await store.wakeups()) == ([deadline, retry], [later, deadline], [retry])

    async def test_a_definition_stands_once(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(definitions=[("d", "agent", "first")]))
            await append(store, log.unit(definitions=[("d", "agent", "second"), ("e", "rules", "{}")]))

            assert await store.definition("d") == ("agent", "first")
            assert await store.definition("e") == ("rules", "{}")

    async def test_a_living_writer_keeps_its_logs(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer), opened(store_factory) as (other, _):
            log = LogUnits("a", writer)
            await append(store, log.unit())
            row = await store.claim(log.id)

            assert row is not None
            assert (row.owner, row.epoch, row.seq, row.digest) == (writer, 2, 1, log.digest)
            assert await other.claim(log.id) is None
            assert await other.claim("conversation_unknown") is None
            assert await append(store, log.unit()) == [FENCED]
            assert await append(store, log.owned(row).unit()) == [STORED]

    async def test_the_log_of_a_closed_writer_can_be_claimed_by_one(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())
        async with opened(store_factory) as (second, number), opened(store_factory) as (third, _):
            rows = [await second.claim(log.id), await third.claim(log.id)]

            assert rows[0] is not None
            assert (rows[0].owner, rows[0].epoch, rows[1]) == (number, 2, None)
            assert await append(third, log.unit()) == [FENCED]
            assert await append(second, log.owned(rows[0]).unit()) == [STORED]

    async def test_a_log_that_nobody_owns_can_be_claimed(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", 0)
            await append(store, log.unit())
            row = await store.claim(log.id)

            assert row is not None
            assert (row.owner, row.epoch) == (writer, 2)

    async def test_only_what_others_wrote_is_a_change(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer), opened(store_factory) as (other, _):
            store.changed()
            log = LogUnits("a", writer)
            await append(store, log.unit())
            await store.post(post_of(log.id, "mine"))
            await store.entries(log.id)
            after_own = store.changed()
            await other.post(post_of(log.id, "theirs"))

            assert (after_own, store.changed(), store.changed()) == (False, True, False)
