"""The contract of stores as a test class: an adapter that passes it can carry a kernel.

Bind it in a test module of yours; every test of the class then runs against your adapter:

    for part in ("store", "reading", "codec", "erase", "query", "sharing"):
        pytest.register_assert_rewrite(f"agentos.testing.{part}_contract")
    from agentos.testing.store_contract import CONTRACT_SETTINGS, StoreContract, StoreFactory

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store_factory(self, tmp_path: Path) -> StoreFactory:
            return lambda: MyStore(tmp_path / "store", settings=CONTRACT_SETTINGS)

Each call of the factory gives one more handle, not opened yet, on the same data: what another process would hold. The
data are new for each test. The tests are async and run under anyio's pytest plugin, which comes with anyio; values are
made up by Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentos import codec
from agentos.errors import StoreUnavailable
from agentos.persistence.base import Store, Verdict
from agentos.testing.codec_contract import CodecContract
from agentos.testing.erase_contract import EraseContract
from agentos.testing.log_units import SALT, LogUnits, append, opened, post_of, wakeup_of
from agentos.testing.query_contract import CONTRACT_SETTINGS, QueryContract
from agentos.testing.reading_contract import ReadingContract
from agentos.testing.sharing_contract import SharingContract

StoreFactory = Callable[[], Store]

__all__ = ["CONTRACT_SETTINGS", "StoreContract", "StoreFactory"]

STORED, FENCED, CONFLICT = Verdict.STORED, Verdict.FENCED, Verdict.CONFLICT


class StoreContract(ReadingContract, CodecContract, EraseContract, QueryContract, SharingContract):
    """What every store promises. The fixture `store_factory` is the adapter's part."""

    async def test_a_unit_on_the_head_is_stored_and_moves_it(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            verdicts = [await append(store, log.unit("a", "b")), await append(store, log.unit("c"))]
            row = await store.log(log.id)

            assert verdicts == [[STORED], [STORED]]
            assert row is not None
            assert (row.owner, row.epoch, row.seq, row.digest) == (writer, 1, 3, log.digest)
            assert (row.kind, row.root, row.forked_from, row.upto) == ("conversation", log.id, None, 0)

    async def test_a_unit_that_does_not_build_on_the_head_is_left_out(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, log.unit(), other.unit())
            stale = log.unit()
            await append(store, stale)
            wrong_digest = log.unit(previous=bytes(32))
            verdicts = await append(store, other.unit(), stale, other.unit("x", "y"), wrong_digest)

            assert verdicts == [STORED, CONFLICT, STORED, CONFLICT]
            assert [entry.seq for entry in await store.entries(log.id)] == [1, 2]
            assert [entry.seq for entry in await store.entries(other.id)] == [1, 2, 3, 4]

    async def test_a_unit_of_another_owner_or_epoch_is_fenced(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            logs = [LogUnits(name, writer) for name in "abc"]
            await append(store, *(log.unit() for log in logs))
            foreign, late, mine = (log.unit() for log in logs)
            foreign.owner, late.epoch = writer + 1, 2
            verdicts = await append(store, foreign, late, mine)

            assert verdicts == [FENCED, FENCED, STORED]
            assert await append(store, foreign) == [FENCED]

    async def test_a_unit_of_no_log_is_a_conflict(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)

            assert await append(store, log.unit(create=None)) == [CONFLICT]
            assert await store.log(log.id) is None
            assert await store.entries(log.id) == []

    async def test_a_log_is_created_once(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            first, again, stranger = LogUnits("a", writer), LogUnits("a", writer), LogUnits("a", writer + 1)
            await append(store, first.unit())

            assert await append(store, again.unit("other"), stranger.unit("other")) == [CONFLICT, FENCED]
            assert [entry.kind for entry in await store.entries(first.id)] == ["input.received"]

    async def test_a_refused_unit_leaves_nothing(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(posts=[post_of(log.id, "waiting")]))
            refused = log.unit(
                text="never said",
                posts=[post_of(log.id, "never")],
                taken=["waiting"],
                wakeups=[wakeup_of(log.id, "retry", 1)],
                definitions=[("d", "agent", "{}")],
                conversation=log.conversation(open_turn=1),
            )
            refused.epoch = 7
            assert await append(store, refused) == [FENCED]

            assert [row.key for row in await store.inbox()] == ["waiting"]
            assert await store.wakeups() == []
            assert await store.definition("d") is None
            for table in ("messages", "conversations"):
                assert (await store.query(_COUNTS[table])).rows == [(0,)]

    async def test_entries_come_back_byte_for_byte(self, store_factory: StoreFactory) -> None:
        texts = ["plain", "a\0b", "lone \ud800 surrogate", '{"$text":"looks tagged"}', "žluťoučký 🐎", ""]
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            bodies = [codec.encode_body(text) for text in texts]
            unit = log.unit(text=bodies[1], payloads=[(1, i, "text", SALT, body) for i, body in enumerate(bodies, 1)])
            await append(store, unit)
            (entry,) = await store.entries(log.id)

            assert (entry.head, entry.digest) == (unit.entries[0][6], unit.entries[0][7])
            assert entry.payloads == [(0, "text", SALT, bodies[1]), *(row[1:] for row in unit.payloads)]
            assert [codec.decode_text(body or "") for _, _, _, body in entry.payloads[1:]] == texts

    async def test_a_message_is_payload_0_of_its_entry(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(text="hello"))
            await append(store, log.unit(text="42", role="tool", payloads=[(2, 1, "whole", SALT, "42, and more")]))
            first, second = await store.entries(log.id)

            assert first.payloads == [(0, "text", SALT, "hello")]
            assert second.payloads == [(0, "result", SALT, "42"), (1, "whole", SALT, "42, and more")]

    async def test_entries_are_read_in_order_and_in_parts(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit("a", "b", "c"))
            await append(store, log.unit("d", "e"))
            parts = [(0, None, None), (2, None, None), (1, 4, None), (1, None, 2), (5, None, None), (0, None, 0)]
            found = [[entry.kind for entry in await store.entries(log.id, *part)] for part in parts]

            assert found == [list("abcde"), list("cde"), list("bcd"), list("bc"), [], []]
            assert [entry.unit for entry in await store.entries(log.id)] == [1, 1, 1, 4, 4]

    async def test_a_fork_reads_on_from_its_parents(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, log.unit("a", "snapshot"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, log.unit("not shared"))
            await append(store, fork.unit("c", "d"))
            fork_of_fork = LogUnits("deeper", writer, fork_of=await store.log(fork.id))
            await append(store, fork_of_fork.unit("e"))
            await append(store, fork.unit("not shared"))

            entries = await store.entries(fork_of_fork.id)
            assert [(entry.seq, entry.kind) for entry in entries] == list(
                enumerate(["a", "snapshot", "c", "d", "e"], 1)
            )
            assert [entry.kind for entry in await store.entries(fork_of_fork.id, 1, 4)] == ["snapshot", "c", "d"]
            assert [entry.kind for entry in await store.entries(fork_of_fork.id, limit=3)] == ["a", "snapshot", "c"]
            assert await store.last_snapshot(fork_of_fork.id) == 2

    async def test_the_last_snapshot_is_found(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, log.unit("a", "snapshot"), other.unit("a"))
            await append(store, log.unit("b", "snapshot"))
            await append(store, log.unit("c"))

            assert await store.last_snapshot(log.id) == 4
            assert await store.last_snapshot(other.id) == 0
            assert await store.last_snapshot("conversation_unknown") == 0

    async def test_open_logs_have_an_open_turn_or_something_waiting(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            running, idle, ended = (LogUnits(name, writer) for name in ("running", "idle", "ended"))
            await append(
                store,
                running.unit(conversation=running.conversation(open_turn=1), posts=[post_of("conversation_new", "k")]),
                idle.unit(conversation=idle.conversation()),
                ended.unit(conversation=ended.conversation(open_turn=1)),
            )
            await append(store, ended.unit(conversation=ended.conversation()))

            assert await store.open_logs() == sorted([running.id, "conversation_new"])

    async def test_logs_are_listed_by_kind(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            conversation, agent = LogUnits("a", writer), LogUnits("b", writer)
            assert agent.create is not None
            agent.create.kind = "agent"
            await append(store, conversation.unit(), agent.unit())

            assert [row.id for row in await store.logs("agent")] == [agent.id]
            assert {row.id for row in await store.logs()} == {agent.id, conversation.id}
            assert await store.logs("toolbox") == []

    async def test_a_row_of_a_log_is_a_copy(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())
            for row in (await store.log(log.id), *await store.logs(), await store.claim(log.id)):
                assert row is not None
                row.seq, row.owner, row.epoch = 99, 99, 99

            assert (await append(store, log.unit(epoch=2))) == [STORED]

    async def test_a_reopened_store_has_everything_and_a_new_number(self, store_factory: StoreFactory) -> None:
        handle = store_factory()
        async with opened(lambda: handle) as (store, first):
            log = LogUnits("a", first)
            await append(
                store, log.unit(text="hello", posts=[post_of(log.id, "k")], definitions=[("d", "agent", "{}")])
            )
            await append(store, log.unit(wakeups=[wakeup_of(log.id, "retry", 1)]))
            before = await _everything(store, log.id)
        async with opened(lambda: handle) as (store, second):
            assert second > first
            assert await _everything(store, log.id) == before

    async def test_a_closed_store_takes_nothing(self, store_factory: StoreFactory) -> None:
        async with opened(store_factory) as (store, writer):
            unit = LogUnits("a", writer).unit()
            await store.close()
            await store.close()

            with pytest.raises(StoreUnavailable, match="closed"):
                await append(store, unit)
            with pytest.raises(StoreUnavailable, match="closed"):
                await store.post(post_of("log", "k"))


_COUNTS = {
    "messages": "select count(*) from messages",
    "conversations": "select count(*) from conversations",
}


async def _everything(store: Store, log: str) -> list[object]:
    tables = await store.query("select role, text from messages")
    return [
        await store.log(log),
        await store.entries(log),
        await store.inbox(),
        await store.wakeups(),
        await store.definition("d"),
        tables,
    ]
