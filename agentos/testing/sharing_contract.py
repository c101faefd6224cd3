"""The part of the contract of stores that lets logs, writers and processes work together; see `store_contract`."""

from __future__ import annotations

from collections.abc import Callable

from agentos.persistence.base import Store, Verdict
from agentos.testing.log_units import LogUnits, append, changed_soon, opened, post_of, turn_row, wakeup_of

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

    async def test_a_query_sees_no_wakeup_that_has_ended(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            row, other = wakeup_of(log.id, "retry", 10), wakeup_of(log.id, "deadline", 20)
            await append(store, log.unit(wakeups=[row, other]))
            await append(store, log.unit(woken=[row]))
            await append(store, log.unit(wakeups=[row]))
            await append(store, log.unit(woken=[row]))

            assert (await store.query("select reason, due_at from wakeups")).rows == [("deadline", 20)]

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

    async def test_writers_are_told_with_their_place_and_whether_they_live(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, first):
            async with opened(store_factory) as (_, second):
                while_open = {writer.n: writer for writer in await store.writers()}
            after = {writer.n: writer for writer in await store.writers()}

            assert list(while_open) == sorted(while_open)
            assert [(while_open[n].alive, while_open[n].ended_at) for n in (first, second)] == [(True, None)] * 2
            assert len({while_open[n].incarnation for n in (first, second)}) == 2
            assert while_open[first].started_at <= while_open[second].started_at
            assert (after[first].alive, after[second].alive) == (True, False)
            assert after[second].ended_at is not None

    async def test_a_writer_that_is_declared_dead_loses_what_another_claims_and_nothing_else(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (zombie, number), opened(store_factory) as (heir, own):
            taken, kept = LogUnits("taken", number), LogUnits("kept", number)
            await append(zombie, taken.unit(), kept.unit())
            before = await heir.claim(taken.id)
            declared = [await heir.declare_dead(n) for n in (number, number, own, own + 99)]
            row = await heir.claim(taken.id)
            late = taken.unit()

            assert before is None
            assert declared == [True, False, False, False]
            assert [writer.alive for writer in await heir.writers() if writer.n in (number, own)] == [False, True]
            assert row is not None
            assert (row.owner, row.epoch, row.seq) == (own, 2, 1)
            assert await append(zombie, late, kept.unit()) == [FENCED, STORED]
            assert [entry.seq for entry in await heir.entries(taken.id)] == [1]
            assert await zombie.post(post_of(taken.id, "handed on")) is True
            assert [post.key for post in await heir.inbox(taken.id)] == ["handed on"]

    async def test_a_writer_that_was_declared_dead_claims_nothing_back_from_the_living(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (zombie, number), opened(store_factory) as (heir, _):
            log = LogUnits("a", number)
            await append(zombie, log.unit())
            await heir.declare_dead(number)
            row = await heir.claim(log.id)
            assert row is not None

            assert await zombie.claim(log.id) is None
            assert await append(heir, log.owned(row).unit()) == [STORED]

    async def test_taken_keys_come_in_pages(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            first, second = sorted((LogUnits("a", writer), LogUnits("b", writer)), key=lambda log: log.id)
            posts = [post_of(log.id, key) for log in (first, second) for key in ("z", "m", "a")]
            await append(store, first.unit(posts=posts), second.unit())
            await append(store, first.unit(taken=["z", "a"]), second.unit("x", "y", taken=["m"]))
            whole = await store.taken()
            pages, after = [], ("", "")
            while page := await store.taken(after, 2):
                pages.append(len(page))
                after = page[-1].log, page[-1].key

            assert [(key.log, key.key, key.seq) for key in whole] == [
                (first.id, "a", 2),
                (first.id, "z", 2),
                (second.id, "m", 3),
            ]
            assert {key.kind for key in whole} == {"input"}
            assert pages == [2, 1]
            assert await store.taken(after) == []

    async def test_wakeups_of_one_log_are_told_apart(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            one, other = LogUnits("a", writer), LogUnits("b", writer)
            late, early, others = (
                wakeup_of(one.id, "deadline", 30),
                wakeup_of(one.id, "approval", 10),
                wakeup_of(other.id, "deadline", 20),
            )
            await append(store, one.unit(wakeups=[late, early]), other.unit(wakeups=[others]))

            assert await store.wakeups(one.id) == [early, late]
            assert await store.wakeups(other.id) == [others]
            assert await store.wakeups() == [early, others, late]
            assert await store.wakeups("conversation_unknown") == []

    async def test_an_input_that_no_turn_has_taken_makes_an_idle_log_open(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            waits, served, paused, child = (LogUnits(name, writer) for name in ("waits", "served", "paused", "child"))
            for log in (waits, served, paused, child):
                await append(store, log.unit("input.received", "turn.started", text="one", turns=[turn_row(2)]))
            await append(store, served.unit("turn.finished", conversation=served.conversation()))
            await append(
                store,
                waits.unit(text="two", conversation=waits.conversation()),
                paused.unit(text="two", conversation=paused.conversation(state="paused")),
                child.unit(text="two", conversation=child.conversation(parent=waits.id)),
            )

            assert await store.open_logs() == [waits.id]

    async def test_only_what_others_wrote_is_a_change(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer), opened(store_factory) as (other, _):
            store.changed()
            log = LogUnits("a", writer)
            await append(store, log.unit())
            await store.post(post_of(log.id, "mine"))
            await store.entries(log.id)
            after_own = store.changed()
            await other.post(post_of(log.id, "theirs"))

            assert (after_own, await changed_soon(store), store.changed()) == (False, True, False)
