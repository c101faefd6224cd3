"""An import brings the conversations of a bundle into a store, with equal heads, and nothing of it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.errors import ConversationHeld, ImportRefused
from agentos.history import Identical, verify_store
from agentos.history.bundle import admitting, arrival
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.arrival import Arrived, import_bundle
from agentos.history.bundle.export import export_bundle
from agentos.history.fsck.store import check_store
from agentos.persistence import open_store
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.memory import MemoryStore
from agentos.persistence.together import append_together
from agentos.testing.postgres import PostgresServer
from tests.bundle.archive_support import OneId
from tests.history.copy_support import CLERK, SMALL, Left, busy_store
from tests.history.support import Desk, office, replayed, settled, until


@pytest.fixture
async def left(tmp_path: Path, desk: Desk) -> AsyncIterator[Left]:
    """A store with everything that a store can hold: open turns, an approval, a fork, a snapshot."""
    found = await busy_store(open_store(f"sqlite:///{tmp_path / 'source.db'}"), desk)
    yield found
    await found.store.close()


@pytest.fixture(params=["sqlite", "file", "memory"])
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = store_of(request.param, tmp_path)
    yield store
    await store.close()


def store_of(kind: str, folder: Path) -> Store:
    urls = {"sqlite": f"sqlite:///{folder / 'to.db'}", "file": f"file:{folder / 'to'}"}
    return open_store(urls[kind]) if kind in urls else MemoryStore()


async def bundle_of(store: Store, path: Path, conversation: str | None = None, **options: Any) -> Path:
    await export_bundle(store, path, conversation=conversation, **options)
    return path


async def arrive(store: Store, path: Path, **options: Any) -> Arrived:
    with BundleReader(path) as bundle:
        return await import_bundle(store, bundle, **options)


async def heads(store: Store, kind: str = "conversation") -> dict[str, tuple[int, bytes]]:
    return {row.id: (row.seq, row.digest) for row in await store.logs(kind)}


async def head_at(store: Store, log: str, seq: int) -> bytes:
    (entry,) = await store.entries(log, seq - 1, seq)
    return entry.digest


async def assert_whole(store: Store) -> None:
    report = await verify_store(store)
    assert report.ok, "\n".join(map(str, report.differences))
    for result in await replayed(store):
        assert isinstance(result, Identical), result


async def test_what_is_at_rest_arrives_with_equal_heads(
    tmp_path: Path, desk: Desk, empty: Store, fresh: Callable[[], MemoryStore]
) -> None:
    source = fresh()
    async with office(source, desk, settings=SMALL) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(4):
            await clerk.ask(f"note text={n} ⚙ \x00\nask_helper task='note text=deep'")
    path = await bundle_of(source, tmp_path / "all.bundle")

    arrived = await arrive(empty, path)

    assert await heads(empty) == await heads(source)
    assert {log.place for log in arrived.conversations} == {"new"}
    assert not any(log.paused for log in arrived.conversations)
    assert arrived.left_out == {"agent": 3, "toolbox": 1}
    assert not await empty.logs("agent")
    await assert_whole(empty)


async def test_a_store_with_everything_arrives_and_only_pauses_are_added(
    tmp_path: Path, left: Left, empty: Store
) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")

    arrived = await arrive(empty, path)

    paused = {log.conversation for log in arrived.conversations if log.paused}
    assert {left.parked, left.running} <= paused
    for log, (seq, digest) in (await heads(left.store)).items():
        assert await head_at(empty, log, seq) == digest
        row = await empty.log(log)
        assert row is not None
        assert row.seq == seq + (log in paused)
        assert row.owner == 0
    assert await empty.inbox() == []
    await assert_whole(empty)


async def test_postgresql_takes_it_too(tmp_path: Path, left: Left, postgres: PostgresServer) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")
    store = open_store(postgres.new_schema_url())

    await arrive(store, path)

    assert set(await heads(store)) == set(await heads(left.store))
    await assert_whole(store)
    await store.close()


async def test_a_fork_arrives_with_what_it_shares_and_no_more(tmp_path: Path, left: Left, empty: Store) -> None:
    path = await bundle_of(left.store, tmp_path / "fork.bundle", left.forked)

    await arrive(empty, path)

    fork, parent = await empty.log(left.forked), await empty.log(left.settled)
    assert fork is not None
    assert parent is not None
    assert fork.forked_from == left.settled
    assert await empty.entries(left.forked, upto=fork.upto) == await left.store.entries(left.forked, upto=fork.upto)
    await assert_whole(empty)


async def test_no_kernel_goes_on_with_an_open_turn_that_was_imported(
    tmp_path: Path, left: Left, desk: Desk, empty: Store
) -> None:
    await arrive(empty, await bundle_of(left.store, tmp_path / "all.bundle"))
    before = await heads(empty)
    await _let_others_in(empty)
    notes, started = list(desk.notes), desk.started
    desk.gate.set()

    async with office(_again(empty), desk, clerk=CLERK, settings=SMALL) as kernel:
        taken = await kernel.recover()
        with pytest.raises(ConversationHeld, match="unpause"):
            await (await kernel.get(left.running)).send("go on")
        await kernel.ticker.wait_quiet()
        after = await heads(kernel.store)

    assert not {left.parked, left.running} & set(taken)
    assert {log: after[log] for log in before} == before
    assert (desk.notes, desk.started) == (notes, started)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_kernel_that_is_at_work_on_the_store_meanwhile_leaves_it_alone(
    kind: str, tmp_path: Path, left: Left, desk: Desk
) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")
    notes = list(desk.notes)
    desk.gate.set()
    store, other = store_of(kind, tmp_path), store_of(kind, tmp_path)

    async with office(store, desk, clerk=CLERK, settings=SMALL) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=mine")
        arrived = await arrive(other, path)
        before = await heads(other)
        await kernel.recover()
        await clerk.ask("note text=mine-too")
        after = await heads(store)
    await other.close()
    await store.close()

    assert {log for log in before if before[log] != after[log]} == {clerk.id}
    assert {log.conversation for log in arrived.conversations} == set(before) - {clerk.id}
    assert desk.notes[len(notes) :] == ["mine", "mine-too"]
    again = store_of(kind, tmp_path)
    await assert_whole(again)
    await again.close()


async def test_it_goes_on_when_a_person_says_so(tmp_path: Path, left: Left, desk: Desk, empty: Store) -> None:
    await arrive(empty, await bundle_of(left.store, tmp_path / "one.bundle", left.running))
    await _let_others_in(empty)
    desk.gate.set()

    async with office(_again(empty), desk, clerk=CLERK, settings=SMALL) as kernel:
        held = [row.id for row in await kernel.store.logs("conversation")]
        for id_ in held:
            await (await kernel.get(id_)).unpause()
        await settled(kernel, held)
        (outcome,) = (
            await kernel.query("select outcome from conversation_turns where conversation = ?", [left.running])
        ).rows

    assert outcome == ("completed",)
    found = _again(empty)
    await assert_whole(found)
    await found.close()


async def test_one_that_a_person_had_paused_is_held_all_the_same(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source, store = fresh(), fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.send("wait text=a")
        await desk.until_started(1)
        await clerk.pause()
        await kernel.ticker.wait_quiet()
        path = await bundle_of(source, tmp_path / "paused.bundle")
        desk.gate.set()
    await arrive(store, path)

    async with office(_again(store), desk) as kernel:
        assert await kernel.recover() == []
        with pytest.raises(ConversationHeld):
            await (await kernel.get(clerk.id)).send("go on")

    kinds = [entry.kind for entry in await store.entries(clerk.id)][-2:]
    assert kinds == ["conversation.unpaused", "conversation.paused"]
    await assert_whole(store)


async def test_a_closed_one_with_an_open_turn_is_refused(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source, store = fresh(), fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.send("wait text=a")
        await desk.until_started(1)
        await clerk.close()
        await kernel.ticker.wait_quiet()
        path = await bundle_of(source, tmp_path / "closed.bundle")
        desk.gate.set()

    with pytest.raises(ImportRefused, match="closed with an open turn"):
        await arrive(store, path)

    assert await store.logs() == []


async def test_a_fork_of_one_that_is_held_goes_on_when_it_is_run(
    tmp_path: Path, left: Left, desk: Desk, empty: Store
) -> None:
    await arrive(empty, await bundle_of(left.store, tmp_path / "all.bundle"))
    before = await heads(empty)
    await _let_others_in(empty)
    desk.gate.set()

    async with office(_again(empty), desk, clerk=CLERK, settings=SMALL) as kernel:
        fork = await kernel.fork(left.running, run=False)
        await kernel.run_fork(fork)
        await settled(kernel, [fork.id])
        after = await heads(kernel.store)
        ((outcome,),) = (
            await kernel.query("select outcome from turns join logs on logs.n = turns.n where logs.id = ?", [fork.id])
        ).rows

    assert outcome == "completed"
    assert after[left.running] == before[left.running]


async def test_its_turn_is_cancelled_and_it_is_erased_without_going_on(
    tmp_path: Path, left: Left, desk: Desk, empty: Store
) -> None:
    await arrive(empty, await bundle_of(left.store, tmp_path / "all.bundle"))
    await _let_others_in(empty)
    notes, started = list(desk.notes), desk.started
    desk.gate.set()

    async with office(_again(empty), desk, clerk=CLERK, settings=SMALL) as kernel:
        await (await kernel.get(left.parked)).interrupt()
        await until(lambda: kernel.state_of(left.parked) == "paused")
        erased = await kernel.erase(left.parked)

    assert erased.conversation == left.parked
    assert (desk.notes, desk.started) == (notes, started)


async def test_an_erased_conversation_arrives_as_it_is(
    tmp_path: Path, desk: Desk, empty: Store, fresh: Callable[[], MemoryStore]
) -> None:
    source = fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=canary")
        await kernel.erase(clerk.id)
        path = await bundle_of(source, tmp_path / "erased.bundle")

    arrived = await arrive(empty, path)

    row, expected = await empty.log(clerk.id), await source.log(clerk.id)
    assert row is not None
    assert expected is not None
    assert row.erased_at == expected.erased_at is not None
    assert not arrived.conversations[0].paused
    assert await heads(empty) == await heads(source)
    assert "canary" not in str(await empty.entries(clerk.id))
    report = await verify_store(empty)
    assert report.ok, report.differences


async def test_an_erase_that_came_later_goes_along_to_a_store_that_had_the_texts(
    tmp_path: Path, desk: Desk, empty: Store, fresh: Callable[[], MemoryStore]
) -> None:
    source = fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=canary")
        await arrive(empty, await bundle_of(source, tmp_path / "before.bundle"))
        await kernel.erase(clerk.id)
        path = await bundle_of(source, tmp_path / "after.bundle")

    arrived = await arrive(empty, path)

    assert [log.place for log in arrived.conversations] == ["goes on"]
    assert "canary" not in str(await empty.entries(clerk.id))
    report = await verify_store(empty)
    assert report.ok, report.differences


async def test_the_same_bundle_twice_stores_nothing_more(tmp_path: Path, left: Left, empty: Store) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")
    await arrive(empty, path)
    before = await heads(empty)

    again = await arrive(empty, path)

    assert {log.place for log in again.conversations} == {"there"}
    assert (again.entries, again.definitions) == (0, 0)
    assert await heads(empty) == before


async def test_fsck_says_why_nobody_drives_what_was_imported(tmp_path: Path, left: Left, empty: Store) -> None:
    await arrive(empty, await bundle_of(left.store, tmp_path / "all.bundle"))

    checked = await check_store(empty)

    assert checked.ok, checked.findings
    held = {one.log: str(one) for one in checked.left if one.held}
    assert {left.parked, left.running} <= set(held)
    assert "an import paused it" in held[left.running]
    assert f"agentos unpause {left.running}" in held[left.running]


async def test_two_imports_at_once_that_share_a_conversation_both_come_to_their_end(
    tmp_path: Path, left: Left, empty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await bundle_of(left.store, tmp_path / "one.bundle", left.settled)
    whole = await bundle_of(left.store, tmp_path / "all.bundle")
    told: list[Arrived] = []

    async def after_another(store: Store, units: Sequence[Unit]) -> list[Verdict]:
        """Stores units when another import has stored some of them."""
        monkeypatch.setattr(arrival, "append_together", append_together)
        told.append(await arrive(store, one))
        return await append_together(store, units)

    monkeypatch.setattr(arrival, "append_together", after_another)
    told.append(await arrive(empty, whole))

    first, second = ({log.conversation: log.place for log in arrived.conversations} for arrived in told)
    assert set(first.values()) == {"new"}
    assert {second[log] for log in first} == {"there"}
    assert {second[log] for log in set(second) - set(first)} == {"new"}
    await assert_whole(empty)


async def test_one_that_others_always_forestall_is_refused_with_the_way_out(
    tmp_path: Path, left: Left, empty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_late(_store: Store, units: Sequence[Unit]) -> list[Verdict]:
        return [Verdict.CONFLICT] * len(units)

    monkeypatch.setattr(arrival, "append_together", too_late)

    with pytest.raises(ImportRefused, match=r"others stored some of it in .* 3 times.*import again"):
        await arrive(empty, await bundle_of(left.store, tmp_path / "all.bundle"))

    assert await empty.logs() == []


async def test_a_dry_run_tells_the_same_and_stores_nothing(tmp_path: Path, left: Left, empty: Store) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")

    await empty.open("somebody")

    told = await arrive(empty, path, dry_run=True)

    assert await empty.logs() == []
    assert told == await arrive(empty, path)


async def test_what_has_grown_since_goes_on_where_nobody_worked_with_it(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source, store = fresh(), fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=one")
        await arrive(store, await bundle_of(source, tmp_path / "one.bundle"))
        await clerk.ask("note text=two")
        path = await bundle_of(source, tmp_path / "two.bundle")

    arrived = await arrive(store, path)

    assert [log.place for log in arrived.conversations] == ["goes on"]
    assert await heads(store) == await heads(source)
    await assert_whole(store)


async def test_another_conversation_of_that_id_keeps_the_whole_bundle_out(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source = fresh()
    async with office(source, desk) as kernel:
        first, second = await kernel.start("clerk"), await kernel.start("clerk")
        await first.ask("note text=one")
        await second.ask("note text=two")
    path = await bundle_of(source, tmp_path / "all.bundle")
    store = fresh()
    await _begin(store, second.id)
    before = await store.logs(), await store.definitions()

    with pytest.raises(ImportRefused, match=f"has another {second.id}"):
        await arrive(store, path)

    assert (await store.logs(), await store.definitions()) == before


async def test_one_that_was_worked_with_and_is_behind_is_refused(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source = fresh()
    store = fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=one")
        await arrive(store, await bundle_of(source, tmp_path / "one.bundle"))
        await clerk.ask("note text=two")
        path = await bundle_of(source, tmp_path / "two.bundle")
    assert await store.claim(clerk.id) is not None

    with pytest.raises(ImportRefused, match="was worked with"):
        await arrive(store, path)


async def test_a_redacted_bundle_is_refused(tmp_path: Path, left: Left, fresh: Callable[[], MemoryStore]) -> None:
    path = await bundle_of(left.store, tmp_path / "red.bundle", redact=True)
    store = fresh()

    with pytest.raises(ImportRefused, match="redacted"):
        await arrive(store, path)

    assert await store.logs() == []


async def test_one_flipped_byte_keeps_it_out(tmp_path: Path, left: Left, fresh: Callable[[], MemoryStore]) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    store = fresh()

    with pytest.raises(ImportRefused):
        await arrive(store, path)

    assert await store.logs() == []


async def test_more_bytes_than_an_import_takes_are_refused_with_the_way_out(
    tmp_path: Path, left: Left, fresh: Callable[[], MemoryStore]
) -> None:
    path = await bundle_of(left.store, tmp_path / "all.bundle")
    store = fresh()

    with pytest.raises(ImportRefused, match=r"1,000 \(IMPORT_BYTES_MAX\).*agentos copy"):
        await arrive(store, path, bytes_max=1_000)

    assert await store.logs() == []


async def test_forks_that_share_more_than_an_import_folds_are_refused_with_the_way_out(
    tmp_path: Path, left: Left, fresh: Callable[[], MemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await bundle_of(left.store, tmp_path / "fork.bundle", left.forked)
    monkeypatch.setattr(admitting, "IMPORT_SHARED_ENTRIES_MAX", 3)
    store = fresh()

    with pytest.raises(ImportRefused, match=r"its forks share [0-9]+ entries, of 3 \(IMPORT_SHARED.*one by one"):
        await arrive(store, path)

    assert await store.logs() == []


async def test_what_is_told_of_definitions_are_names(
    tmp_path: Path, left: Left, fresh: Callable[[], MemoryStore]
) -> None:
    arrived = await arrive(fresh(), await bundle_of(left.store, tmp_path / "all.bundle"))

    assert arrived.declared.agents == ("aide", "clerk", "helper")
    assert arrived.declared.toolboxes == ("desk",)
    assert arrived.declared.models == ("direct",)
    assert b"Keep order" not in msgspec.json.encode(arrived)


async def _begin(store: Store, log: str) -> None:
    """Another conversation under this id."""
    async with office(store, Desk(), ids=OneId(log)) as kernel:
        await (await kernel.start("clerk")).ask("something else")


async def _let_others_in(store: Store) -> None:
    if not isinstance(store, MemoryStore):
        await store.close()


def _again(store: Store) -> Store:
    return MemoryStore(beside=store) if isinstance(store, MemoryStore) else open_store(store.url)
