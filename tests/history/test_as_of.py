"""As of: tables, conversations and one conversation as they were, over every kind of store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agentos
from agentos.errors import ConfigurationError, QueryRefused, StoreDamaged, UnknownConversation
from agentos.events.entry import Registry
from agentos.history import Only, Point, past_of, processes_of, query_as_of, standing_at
from agentos.history.past import processes as processes_module
from agentos.ids import LogId
from agentos.journal import load_log
from agentos.kernel import Kernel, Listing
from agentos.kernel.listing import Page, list_conversations
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from agentos.testing.long_log import install_chronicler, long_conversation
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, crash, office

TABLES = ("conversations", "turns", "calls", "messages", "entries", "payloads", "components")
VIEWS = ("events", "conversation_turns", "tool_calls", "entities", "history")
WORK = "note text=1\nask_helper task='note text=deep'\nfail text=why"
SMALL = Settings(snapshot_entries=20)


class Seen(NamedTuple):
    """What a store said of itself at a time."""

    at: int
    tables: Mapping[str, Sequence[Any]]
    page: Page


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "file": f"file:{tmp_path}/folder", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    made = open_store(urls.get(request.param) or request.getfixturevalue("postgres").new_schema_url())
    yield made
    await made.close()


async def look(kernel: Kernel, clock: ManualClock) -> Seen:
    """The tables as they are; nothing more is stored at this time."""
    await kernel.ticker.wait_quiet()
    tables = {name: (await kernel.query(_everything(name))).rows for name in TABLES}
    seen = Seen(clock.now(), tables, await kernel.page())
    clock.advance(1)
    return seen


def _everything(table: str) -> str:
    return f"select * from {table} order by 1, 2, 3"


async def looks(kernel: Kernel, clock: ManualClock, desk: Desk) -> list[Seen]:
    """Of two conversations at work, at rest and in the middle of calls."""
    one, two = await kernel.start("clerk"), await kernel.start("clerk")
    seen = []
    for _ in range(3):
        await one.ask(WORK)
        seen.append(await look(kernel, clock))
    asking = asyncio.ensure_future(two.ask("wait text=a\nask_aide task='wait text=b'"))
    await desk.until_started(2)
    seen.append(await look(kernel, clock))
    desk.gate.set()
    await asking
    await one.ask(WORK)
    return [*seen, await look(kernel, clock)]


async def test_tables_at_a_time_are_what_they_were(any_store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(any_store, desk, clock=clock, settings=SMALL) as kernel:
        seen = await looks(kernel, clock, desk)

        for then in seen:
            async with past_of(any_store, Point(at=then.at)) as past:
                for name in TABLES:
                    assert (await past.query(_everything(name))).rows == then.tables[name], name
                assert past.entries == len(then.tables["entries"])
    assert len({repr(then.tables["conversations"]) for then in seen}) == len(seen)


async def test_conversations_at_a_time_are_what_ps_showed(any_store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(any_store, desk, clock=clock, settings=SMALL) as kernel:
        seen = await looks(kernel, clock, desk)

        for then in seen:
            async with processes_of(any_store, then.at) as past:
                assert await list_conversations(past, Listing()) == then.page
                assert all(row.state == "idle" for row in (await list_conversations(past, Listing(state="idle")))[0])
    assert [row.state for row in seen[3].page.conversations].count("running") == 2


async def test_before_the_first_entry_there_was_nothing(any_store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(any_store, desk, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        before = Point(at=clock.now() - 1)

        async with past_of(any_store, before) as past, processes_of(any_store, clock.now() - 1) as conversations:
            assert (await past.query("select count(*) from logs")).rows == [(0,)]
            assert (past.logs, past.entries, past.writers) == (0, 0, 0)
            assert (await list_conversations(conversations, Listing())).conversations == []
        for view in VIEWS:
            assert (await query_as_of(any_store, f"select * from {view}", point=before)).rows == []


async def test_after_every_unit_of_a_log_its_tables_are_the_fold_of_its_entries(store: Store, desk: Desk) -> None:
    async with office(store, desk, settings=SMALL) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(WORK)
        await clerk.ask("note text=more")
        entries = await store.entries(clerk.id)
        for end in ends_of_units(entries):
            folded = await load_log(store, LogId(clerk.id), Registry(), upto=end)
            async with past_of(store, Point(seq=end), Only(log=clerk.id)) as past:
                assert past.asked is None
                assert (await past.query("select seq, digest from logs")).rows == [(end, folded.digest)]
                assert (await past.query("select state from conversations")).rows == [(folded.times.shown,)]
                assert (await past.query("select max(seq), count(*) from entries")).rows == [(end, end)]


async def test_a_seq_within_a_unit_is_rounded_down_and_told(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(WORK)
        ends = ends_of_units(await store.entries(clerk.id))
        within = ends[0] + 1

        assert within not in ends
        async with past_of(store, Point(seq=within), Only(log=clerk.id)) as past:
            assert past.asked == within
            assert (await past.query("select max(seq) from entries")).rows == [(ends[0],)]


async def test_a_seq_of_a_root_takes_the_conversations_below_as_of_its_time(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(store, desk, clock=clock) as kernel:
        clerk, other = await kernel.start("clerk"), await kernel.start("clerk")
        await clerk.ask("ask_helper task='note text=first'")
        seq = (await store.entries(clerk.id))[-1].seq
        clock.advance(1)
        await clerk.ask("ask_helper task='note text=second'")
        await other.ask("note text=elsewhere")
        texts = "select text from messages where role = 'tool' order by 1"

        found = await query_as_of(store, texts, point=Point(seq=seq), only=Only(root=clerk.id))
        agents = await query_as_of(
            store, "select agent, turns from conversations", point=Point(at=clock.now()), only=Only(agent="helper")
        )

    assert [text for (text,) in found.rows] == ['note text="first": noted first', "noted first"]
    assert agents.rows == [("helper", 2)]


async def test_a_fork_comes_with_what_it_shares(store: Store, desk: Desk) -> None:
    async with office(store, desk, settings=SMALL) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(4):
            await clerk.ask(f"note text={n}")
        ends = ends_of_units(await store.entries(clerk.id))
        forks = [made for end in ends[len(ends) // 2 :] if (made := await fork(kernel, clerk.id, end)) is not None]
        forked, *_ = forks
        row = await store.log(forked)
        assert row is not None
        said = f"select seq, role, text from history where conversation = '{forked}' order by seq"

        async with past_of(store, Point(seq=row.seq), Only(log=forked)) as past:
            assert (await past.query(said)).rows == (await store.query(said)).rows
            assert (
                await past.query("select max(entries.seq) from entries join logs using (n) where forked_from is null")
            ).rows == [(row.upto,)]
        with pytest.raises(ConfigurationError, match=f"it has {row.upto + 1} to {row.seq}, and shares those before"):
            await query_as_of(store, "select 1", point=Point(seq=row.upto), only=Only(log=forked))


async def test_a_query_of_the_past_holds_to_the_bounds_of_queries(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        async with past_of(store, Point(at=kernel.clock.now()), settings=Settings(query_rows_max=2)) as past:
            for sql in ("delete from messages", "attach 'x' as y", "select 1; select 2", "pragma user_version = 9"):
                with pytest.raises(QueryRefused, match="one statement"):
                    await past.query(sql)
            with pytest.raises(QueryRefused, match="query_rows_max"):
                await past.query("select * from entries")


async def test_too_much_is_refused_with_the_way_out(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(store, desk, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        at = clock.now()
        clock.advance(1)
        await clerk.ask("note text=b")
        with pytest.raises(QueryRefused, match=r"more than 3 entries .*name one log, a root or an agent, or raise it"):
            async with past_of(store, Point(at=at), entries_max=3):
                pass
        with pytest.raises(QueryRefused, match="more than 100 bytes"):
            async with past_of(store, Point(at=at), bytes_max=100):
                pass
        with pytest.raises(QueryRefused, match="too many conversations went on since"):
            async with processes_of(store, at, entries_max=3):
                pass


async def test_what_makes_no_sense_is_refused(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        last = (await store.entries(clerk.id))[-1].seq
        nobody = "conversation_00000000000000000000000000"
        for point, only, error in (
            (Point(seq=3), Only(), "of which log"),
            (Point(seq=3), Only(agent="clerk"), "of which log"),
            (Point(seq=last + 1), Only(log=clerk.id), f"it has 1 to {last}"),
            (Point(seq=1), Only(log=clerk.id, root=clerk.id), "one log, one root or one agent"),
        ):
            with pytest.raises(ConfigurationError, match=error):
                await query_as_of(store, "select 1", point=point, only=only)
        for only in (Only(log=nobody), Only(root=nobody)):
            with pytest.raises(UnknownConversation):
                await query_as_of(store, "select 1", point=Point(at=kernel.clock.now()), only=only)


async def test_a_log_that_was_edited_is_named(tmp_path: Path, desk: Desk) -> None:
    store = SQLiteStore(str(tmp_path / "edited.db"))
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        found = await crash(kernel)
    with closing(sqlite3.connect(tmp_path / "edited.db")) as db, db:
        db.execute("update entries set head = 'no head' where seq = 2 and n = (select n from conversations)")
    with pytest.raises(StoreDamaged, match=f"{clerk.id} seq 2: it cannot be folded"):
        await query_as_of(found, "select 1", point=Point(at=10**17), only=Only(log=clerk.id))
    await found.close()


async def test_writers_are_counted_and_told_as_they_were(tmp_path: Path, desk: Desk) -> None:
    store = SQLiteStore(str(tmp_path / "writers.db"))
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        found = await crash(kernel)
    async with office(found, desk) as kernel:
        await (await kernel.get(clerk.id)).ask("note text=b")
        sql = "select count(*) from writers where ended_at is null"
        async with past_of(found, Point(at=kernel.clock.now())) as past:
            assert past.writers == 2
            assert (await past.query("select count(*) from writers")).rows == [(2,)]
            assert (await past.query(sql)).rows == [(1,)]


# one conversation after an entry


async def test_a_conversation_stands_as_the_kernel_would_load_it(any_store: Store, desk: Desk) -> None:
    async with office(any_store, desk, settings=SMALL) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("note text=a\nwait text=b"))
        await desk.until_started(1)
        await clerk.send("note text=later")
        await kernel.ticker.wait_quiet()
        open_ = (await any_store.entries(clerk.id))[-1].seq
        desk.gate.set()
        await asking
        await kernel.ticker.wait_quiet()

        then = await standing_at(any_store, clerk.id, open_)

    assert (then.state, then.agent, then.turns) == ("running", "clerk", 0)
    assert then.turn is not None
    assert (then.turn.phase, then.turn.outcome, then.turn.version) == ("call", None, "clerk r1")
    assert [(call.tool, call.status) for call in then.calls] == [("note", "done"), ("wait", "started")]
    assert [text for _, text in then.waiting] == ["note text=later"]
    assert [message["role"] for message in then.messages] == ["user", "assistant"]


async def test_after_its_last_entry_a_conversation_has_its_last_turn(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        last = (await store.entries(clerk.id))[-1].seq

        then = await standing_at(store, clerk.id, last)
        within = await standing_at(store, clerk.id, last - 1)
        for seq in (0, last + 1):
            with pytest.raises(ConfigurationError, match=f"no entry {seq}; it has 1 to {last}"):
                await standing_at(store, clerk.id, seq)

    assert (then.state, then.turns, then.unit_end) == ("idle", 1, last)
    assert then.turn is not None
    assert then.turn.outcome == "completed"
    assert within.unit_end == last


class Counting(MemoryStore):
    """Counts the entries that are read for their changes: all but those that only tell a transcript."""

    def __init__(self, beside: MemoryStore) -> None:
        super().__init__(beside)
        self.read = 0

    async def entries(self, log: str, after: int = 0, upto: int | None = None, *more: Any, **kinds: Any) -> Any:
        found = await super().entries(log, after, upto, *more, **kinds)
        self.read += 0 if kinds.get("kinds") else len(found)
        return found


async def test_at_any_seq_of_a_long_log_few_entries_are_folded() -> None:
    filled, clock = MemoryStore(), ManualClock()
    async with agentos.open(filled, clock=clock) as kernel:
        await install_chronicler(kernel, window_messages=20)
        long = await long_conversation(kernel, 3_000)
        await kernel.ticker.wait_quiet()
        entries = await filled.entries(long.id)
    units = [entry.unit for entry in entries]
    longest = max(units.count(unit) for unit in set(units))
    most = kernel.settings.snapshot_entries + longest
    for seq in range(1, len(entries) + 1, 97):
        counting = Counting(filled)

        then = await standing_at(counting, long.id, seq)

        assert then.folded == seq - then.snapshot <= most
        # the open turn and the unit before are read for their bodies, and this entry for its time
        assert counting.read <= then.folded + 2 * 16 + 32, f"at {seq}"


async def test_conversations_that_went_on_since_fold_few_entries_each(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = MemoryStore(), ManualClock()
    monkeypatch.setattr(processes_module, "PAGE_ROWS", 2)
    async with agentos.open(store, clock=clock) as kernel:
        await install_chronicler(kernel)
        logs = [await long_conversation(kernel, 900) for _ in range(3)]
        resting = await kernel.start("chronicler")
        await resting.ask("a word")
        at = clock.now()
        clock.advance(1)
        for log in logs:
            await log.ask("a word")

        async with processes_of(store, at) as past:
            listed = (await list_conversations(past, Listing())).conversations
            folded, entries = past.folded, past.entries

    assert (len(listed), folded) == (4, 3)
    assert entries <= 3 * (kernel.settings.snapshot_entries + 16)
    assert {row.updated_at for row in listed} == {at}
