"""Loading from the last snapshot gives what folding every entry gives, after any unit of any log."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentos.components import Component, ContextWindow, ConversationState, Verdict
from agentos.errors import StoreDamaged
from agentos.events.entry import Draft, Registry
from agentos.events.kinds import EntryData
from agentos.history import lineage_of, request_of
from agentos.ids import CONVERSATION, LogId
from agentos.journal import Times, decode_units, fold_unit, load_log
from agentos.kernel import Conversation, Kernel
from agentos.kernel.rest import open_requests
from agentos.persistence.base import Store, StoredEntry
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.systems import system
from agentos.testing.invariants import world_is_fold
from agentos.testing.long_log import install_chronicler, long_conversation
from agentos.world import APART, Decision, Slice, View
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, office
from tests.support import Mind, call, calls, hang, lab, settled, until

OFTEN = [3, 7, 20]
"""Entries between two snapshots."""


async def differing(store: Store, log: str, registry: Registry | None = None) -> list[str]:
    """What differs between the two roads after each unit; the first says how many were compared."""
    registry = registry or Registry()
    folded, times, told = Slice(LogId(log)), Times(), []
    stored = await store.entries(log)
    for unit in decode_units(LogId(log), stored, registry):
        fold_unit(APART, folded, unit, times)
        end = unit[-1].seq
        loaded = await load_log(store, LogId(log), registry, upto=end)
        assert (loaded.seq, loaded.digest) == next((e.seq, e.digest) for e in stored if e.seq == end)
        found = world_is_fold(loaded.slice, folded)
        found += [f"shown as {loaded.times.shown}, not {times.shown}"] if loaded.times != times else []
        found += [] if _purge(loaded.slice) == _purge(folded) else ["another purge"]
        told += [f"{log} after {end}, from the snapshot at {loaded.snapshot}: {what}" for what in found]
    assert any(entry.kind == "snapshot" for entry in stored), "there is but one road"
    return told


def _purge(slice_: Slice) -> Any:
    purge = slice_.transcript.purge
    return purge and (purge.places, list(purge.before.messages), purge.before.hash)


async def all_differing(store: Store, registry: Registry | None = None) -> list[str]:
    logs = [row.id for row in await store.logs("conversation")]
    with_snapshot = [log for log in logs if await store.last_snapshot(log)]
    assert with_snapshot
    return [what for log in with_snapshot for what in await differing(store, log, registry)]


@pytest.mark.parametrize("snapshot_entries", OFTEN)
async def test_of_turns_with_calls_delegations_and_inputs_that_wait(
    store: Store, desk: Desk, snapshot_entries: int
) -> None:
    async with office(store, desk, settings=Settings(snapshot_entries=snapshot_entries)) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(3):
            await clerk.ask(f"note text={n}\nask_aide task='note text=d'\nfail text=e", ephemeral=n == 1)
        asking = asyncio.ensure_future(clerk.ask("wait text=b\npeek text=c\nask_helper task='note text=d'"))
        await desk.until_started(2)
        await clerk.send("note text=later")
        await clerk.send("note text=passing", ephemeral=True)
        desk.gate.set()
        await asking
        await clerk.ask("and now?")

        assert await all_differing(store) == []


async def test_of_forks_and_forks_of_forks_whose_snapshot_is_their_parents(store: Store, desk: Desk) -> None:
    async with office(store, desk, settings=Settings(snapshot_entries=8)) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        asking = asyncio.ensure_future(clerk.ask("wait text=b\npeek text=c\nask_aide task='note text=d'"))
        await desk.until_started(2)
        desk.gate.set()
        await asking
        ends = ends_of_units(await store.entries(clerk.id))
        forks = [made for upto in ends if (made := await fork(kernel, clerk.id, upto)) is not None]
        grandchildren = [made for one in forks if (made := await _forked_at_the_end(kernel, one)) is not None]
        deep = [log for log in [*forks, *grandchildren] if await store.last_snapshot(log)]
        found = [what for log in deep for what in await differing(store, log)]

    assert found == []
    assert len(deep) > 8
    assert len(grandchildren) > 5


async def _forked_at_the_end(kernel: Kernel, parent: str) -> LogId | None:
    row = await kernel.store.log(parent)
    assert row is not None
    return await fork(kernel, parent, row.seq)


@pytest.mark.parametrize("snapshot_entries", OFTEN)
async def test_of_turns_that_are_cut_parked_and_nested(snapshot_entries: int) -> None:
    async def add(a: int) -> str:
        return f"{a}"

    async def sum_up(context: CallContext) -> str:
        inner = await asyncio.gather(*(context.call("add", {"a": n}) for n in range(3)))
        return " ".join(one.text for one in inner)

    async def send() -> str:
        return "sent"

    mind = Mind(
        calls(call("sum_up"), call("add", a=1)), "summed", calls(call("send"), call("add", a=2)), hang, "after all"
    )
    settings = Settings(snapshot_entries=snapshot_entries)
    policy = [{"tool": "send", "verdict": "ask"}]
    async with lab(mind, [add, sum_up, send], policy=policy, approval="park", options={"settings": settings}) as here:
        conversation = await here.start()
        await conversation.ask("nested", ephemeral=True)
        await conversation.send("parked")
        await until(lambda: open_requests(here.kernel))
        await conversation.send("a waiting one")
        await here.kernel.answer(open_requests(here.kernel)[0], Verdict.ALLOW)
        await settled(here.kernel)
        await conversation.interrupt()
        await settled(here.kernel)

        assert await differing(here.kernel.store, conversation.id) == []


@pytest.mark.parametrize("window_messages", [1, 6, 20])
async def test_of_conversations_with_a_window(window_messages: int) -> None:
    store = MemoryStore()
    async with lab(store=store, options={"settings": Settings(snapshot_entries=15)}) as here:
        await install_chronicler(here.kernel, window_messages)
        conversation = await long_conversation(here.kernel, 300)

        assert await differing(store, conversation.id) == []


@pytest.mark.parametrize("snapshot_entries", OFTEN)
async def test_of_inputs_that_came_in_the_turn_before_and_of_those_that_no_turn_takes_yet(
    snapshot_entries: int,
) -> None:
    """A window may begin with a turn whose input stands among the entries of the one before."""
    store = MemoryStore()

    async def go_on(_: object) -> str:
        await conversation.send("one more")
        return "said"

    async def hold(_: object) -> str:
        await conversation.send("waits")
        await conversation.pause()
        return "held"

    mind = Mind(*[go_on] * 20, hold)
    settings = Settings(snapshot_entries=snapshot_entries)
    async with lab(mind, store=store, window_messages=5, options={"settings": settings}) as here:
        conversation = await here.start()
        await conversation.send("first")
        await settled(here.kernel)
        for n in range(25):
            await conversation.send(f"waits too {n}")
        await conversation.unpause()
        await settled(here.kernel)

        assert len(mind.requests) == 22
        assert await differing(store, conversation.id) == []


class ErasedBodies:
    """A store from which the bodies of some entries were erased."""

    def __init__(self, inner: Store, erased: Sequence[str]) -> None:
        self.inner, self.erased, self.url = inner, erased, inner.url
        self.last_snapshot = inner.last_snapshot

    async def entries(self, *where: Any, **more: Any) -> list[StoredEntry]:
        found = await self.inner.entries(*where, **more)
        for stored in found:
            if stored.kind in self.erased and stored.seq % 2:
                stored.payloads = [(i, name, None, None) for i, name, _, _ in stored.payloads]
        return found


@pytest.mark.parametrize("kind", ["input.received", "model.finished", "call.finished"])
async def test_of_logs_with_erased_bodies(store: Store, desk: Desk, kind: str) -> None:
    async with office(store, desk, settings=Settings(snapshot_entries=9)) as kernel:
        clerk = await kernel.start("clerk")
        for text in ("note text=a", "note text=b\nnote text=c", "fail text=d"):
            await clerk.ask(text)
        erased: Any = ErasedBodies(store, [kind])

        assert await differing(erased, clerk.id) == []


class Mood(Component, frozen=True, kw_only=True):
    component: ClassVar[str] = "mood"
    level: int = 0


class Sighed(EntryData, frozen=True, kw_only=True):
    """A kind that only one program knows."""

    kind: ClassVar[str] = "mood.sighed"
    private: ClassVar[tuple[str, ...]] = ("text",)
    loudness: int = 1


@system(over=ConversationState, after="admit")
def moody(view: View, _entity: int) -> Decision:
    """Sighs in every turn, over itself and over the turn."""
    state, mood = view.conversation, view.find(CONVERSATION, Mood)
    if state is None or not state.open_turn or (mood is not None and mood.level > state.turns):
        return Decision.none()
    after = Mood(level=state.turns + 1)
    changes = ((CONVERSATION, after), (state.open_turn, after))
    return Decision((Draft(data=Sighed(), turn=state.open_turn, changes=changes, private=(("text", "ah"),)),))


async def test_of_components_and_kinds_that_this_program_does_not_know(store: Store, desk: Desk) -> None:
    options: dict[str, Any] = {"systems": [moody], "components": [Mood], "settings": Settings(snapshot_entries=6)}
    async with office(store, desk, **options) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(4):
            await clerk.ask(f"note text={n}")
        knowing = Registry()
        knowing.register(Mood)

        assert await differing(store, clerk.id) == []
        assert await differing(store, clerk.id, knowing) == []


class Counting:
    """A store that counts the entries that are read from it."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.url, self.read = inner, inner.url, 0
        self.last_snapshot = inner.last_snapshot

    async def entries(self, *where: Any, **more: Any) -> list[StoredEntry]:
        found = await self.inner.entries(*where, **more)
        self.read += len(found)
        return found


async def test_what_is_read_does_not_grow_with_the_log() -> None:
    read = []
    async with lab(options={"settings": Settings(snapshot_entries=30)}) as here:
        await install_chronicler(here.kernel, window_messages=20)
        for entries in (200, 2_000):
            conversation = await long_conversation(here.kernel, entries)
            counting: Any = Counting(here.kernel.store)
            await load_log(counting, LogId(conversation.id), Registry())
            read.append(counting.read)

    assert max(read) < 20 * 3 + 2 * 30 + 20


async def test_a_request_in_the_middle_of_a_unit_is_rebuilt_from_a_snapshot(store: Store, desk: Desk) -> None:
    """The unit that ends a turn may begin the next one, and ask."""
    async with office(store, desk, settings=Settings(snapshot_entries=5)) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=b"))
        await desk.until_started(1)
        await clerk.send("note text=later")
        desk.gate.set()
        await asking
        await settled(kernel)
        asked = [entry.seq for entry in await store.entries(clerk.id) if entry.kind == "model.requested"]
        requests = [await request_of(store, clerk.id, seq) for seq in asked]
        tree = await lineage_of(store, clerk.id)

    assert len(requests) == 4
    assert all(request.matches for request in requests)
    assert len(tree.root.children) == 2


# What is missing is told, with the log and its place.


class Lacking:
    """A store that has lost an entry."""

    def __init__(self, inner: Store, gone: int) -> None:
        self.inner, self.url, self.gone = inner, inner.url, gone

    async def entries(self, *where: Any, **more: Any) -> list[StoredEntry]:
        return [stored for stored in await self.inner.entries(*where, **more) if stored.seq != self.gone]

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        return max((stored.seq for stored in await self.entries(log, 0, upto, kinds=["snapshot"])), default=0)


async def damaged(store: Store, conversation: Conversation, gone: int) -> str:
    """What loading says when this entry is not there any more."""
    lacking: Any = Lacking(store, gone)
    with pytest.raises(StoreDamaged) as caught:
        await load_log(lacking, LogId(conversation.id), Registry())
    return str(caught.value)


async def test_what_is_missing_is_told_with_its_seq() -> None:
    store = MemoryStore()
    async with lab(store=store, options={"settings": Settings(snapshot_entries=30)}) as here:
        await install_chronicler(here.kernel, window_messages=20)
        conversation = await long_conversation(here.kernel, 400)
        loaded = await load_log(store, LogId(conversation.id), Registry())
        window = loaded.slice.get(CONVERSATION, ContextWindow)
        assert window is not None
        places = (loaded.snapshot, loaded.seq - 1, window.first_turn, window.first_turn - 1)
        told = {seq: await damaged(store, conversation, seq) for seq in places}

    for seq, said in told.items():
        assert f"{conversation.id}: the entry at seq {seq} is missing" in said, said


async def test_what_open_work_reads_and_is_gone_is_told() -> None:
    store = MemoryStore()
    mind = Mind(calls(call("work"), call("work")), "done")
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "worked"

    async with lab(mind, [work], store=store, options={"settings": Settings(snapshot_entries=8)}) as here:
        conversation = await here.start()
        asking = asyncio.ensure_future(conversation.ask("go"))
        await settled(here.kernel)
        waiting = await conversation.send("later")
        for n in range(10):
            await conversation.send(f"and later {n}")
        snapshot = await store.last_snapshot(conversation.id)
        told = {seq: await damaged(store, conversation, seq) for seq in (waiting - 1, waiting)}
        gate.set()
        await asking

    assert snapshot > waiting
    assert all(f"the entry at seq {seq} is missing" in said for seq, said in told.items())


async def test_a_head_that_is_not_the_last_entry_is_told_to_who_sends(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "cut.db"
    async with office(SQLiteStore(str(path)), desk, settings=Settings(snapshot_entries=5)) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        row = await kernel.store.log(clerk.id)
        assert row is not None
    with closing(sqlite3.connect(path)) as database:
        database.execute("delete from entries where seq = ? and kind <> 'agent.installed'", (row.seq,))
        database.commit()
    async with office(SQLiteStore(str(path)), desk) as kernel:
        with pytest.raises(StoreDamaged) as caught:
            await (await kernel.get(clerk.id)).send("and now?")

    said = str(caught.value)
    assert f"the head of {clerk.id} is at seq {row.seq}" in said
    assert f"not its last entry, at {row.seq - 1}" in said


async def test_an_input_that_waits_since_before_the_last_turn_ended_and_is_gone_is_told() -> None:
    store = MemoryStore()

    async def hold(_: object) -> str:
        await conversation.send("waits")
        await conversation.pause()
        return "held"

    async with lab(Mind(hold), store=store, options={"settings": Settings(snapshot_entries=8)}) as here:
        conversation = await here.start()
        await conversation.ask("go")
        for n in range(10):
            await conversation.send(f"waits too {n}")
        loaded = await load_log(store, LogId(conversation.id), Registry())
        state = loaded.slice.get(CONVERSATION, ConversationState)
        assert state is not None
        said = await damaged(store, conversation, state.waiting[0].seq)

    assert loaded.snapshot > state.waiting[0].seq
    assert f"seq {state.waiting[0].seq} is missing: a turn is to take what it holds" in said
