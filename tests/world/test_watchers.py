"""Watching: every entry once and in order, whatever the watcher does meanwhile; deltas only while they mean something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import hypothesis.strategies as st
from hypothesis import given

from agentos.events.entry import Draft, Entry
from agentos.events.kinds import InputReceived, ModelFinished, ModelRequested
from agentos.events.model import Finish, ModelDelta
from agentos.ids import Digest, Kind, LogId, Micros, hashed_id
from agentos.kernel.watch import StreamGap, Watched, Watchers, as_entry, follow

LOG = LogId(hashed_id(Kind.CONVERSATION, "watched"))


class Stored:
    """A log that is written while it is watched."""

    def __init__(self, limit: int) -> None:
        self.entries: list[Entry] = []
        self.watchers = Watchers(limit)
        self.request = 0
        self.index = 0
        self.reads = 0

    def write(self, kinds: str) -> None:
        """One unit: r asks a model, f ends that, i is an input."""
        drafts = [Draft(data=_DATA[kind]) for kind in kinds]
        first = len(self.entries) + 1
        for n, draft in enumerate(drafts):
            self.entries.append(as_entry(LOG, draft, first + n, first, Micros(1), 1))
            if isinstance(draft.data, ModelRequested):
                self.request, self.index = first + n, 0
        self.watchers.publish(LOG, drafts, first, Micros(1), 1)

    def speak(self) -> None:
        """A piece of the last request's answer; a late one when that is in already."""
        if self.request:
            self.watchers.delta(ModelDelta(LOG, self.request, 1, self.index, "piece"))
            self.index += 1

    async def read(self, after: int) -> list[Entry]:
        self.reads += 1
        found = self.entries[after:]
        await asyncio.sleep(0)  # what is written now is not in the answer
        return found


_DATA = {
    "r": ModelRequested(request=Digest("0" * 64), messages=1),
    "f": ModelFinished(finish=Finish.STOP),
    "i": InputReceived(),
}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(["i", "r", "f", "ii", "fr", "fi", "iiiii"])),
        st.tuples(st.just("speak"), st.integers(1, 6)),
        st.tuples(st.just("look"), st.integers(1, 5)),
    ),
    max_size=40,
)


async def watched(stored: Stored, plan: list[tuple[str, object]], after: int) -> tuple[list[Watched], int]:
    """What one watcher sees of a plan, and how long its queue was at most; it looks when the plan says so."""
    watcher = stored.watchers.add(LOG)
    stream = follow(watcher, stored.read, after, 0.01)
    seen: list[Watched] = []
    longest = 0
    pending: asyncio.Future[Watched] | None = None
    for step, amount in plan:
        if step == "write":
            stored.write(str(amount))
        elif step == "speak":
            for _ in range(int(str(amount))):
                stored.speak()
        else:
            for _ in range(int(str(amount))):
                pending = await _look(stream, pending, seen)
        longest = max(longest, watcher.waiting)
    stored.watchers.close()
    if pending is not None:
        await asyncio.wait([pending])
        if pending.exception() is None:
            seen.append(pending.result())
    seen += [item async for item in stream]
    return seen, longest


async def _look(
    stream: AsyncIterator[Watched], pending: asyncio.Future[Watched] | None, seen: list[Watched]
) -> asyncio.Future[Watched] | None:
    """The next thing, if it comes at once; else it is still waited for at the next look."""
    pending = pending or asyncio.ensure_future(anext(stream))
    for _ in range(4):
        await asyncio.sleep(0)
    if not pending.done():
        return pending
    seen.append(pending.result())
    return None


@given(steps, st.integers(1, 8), st.integers(0, 3), st.integers(0, 3))
def test_a_watcher_sees_every_entry_once_and_in_order(
    plan: list[tuple[str, object]], limit: int, before: int, after: int
) -> None:
    stored = Stored(limit)
    for _ in range(before):
        stored.write("i")
    seen, longest = asyncio.run(watched(stored, plan, min(after, before)))

    entries = [item for item in seen if isinstance(item, Entry)]
    assert [entry.seq for entry in entries] == list(range(min(after, before) + 1, len(stored.entries) + 1))
    assert entries == stored.entries[min(after, before) :]
    assert longest <= limit
    _check_deltas(seen)


def _check_deltas(seen: list[Watched]) -> None:
    """Each belongs to the request that is open where it stands, and comes after the one before it."""
    request, index = 0, -1
    for item in seen:
        if isinstance(item, ModelDelta):
            assert item.base_seq == request != 0
            assert item.index > index
            index = item.index
        elif isinstance(item, Entry) and isinstance(item.data, ModelRequested):
            request, index = item.seq, -1
        elif isinstance(item, Entry) and isinstance(item.data, ModelFinished):
            request = 0


async def test_a_slow_watcher_is_told_that_pieces_are_missing_and_misses_no_entry() -> None:
    stored = Stored(4)
    stored.write("r")
    plan: list[tuple[str, object]] = [("look", 2), ("speak", 100), ("write", "f"), ("write", "ir"), ("look", 3)]
    seen, longest = await watched(stored, plan, 0)

    assert any(isinstance(item, StreamGap) for item in seen)
    assert [item.seq for item in seen if isinstance(item, Entry)] == [1, 2, 3, 4]
    assert longest <= 4


async def test_a_watcher_that_keeps_up_sees_every_piece_and_reads_the_store_rarely() -> None:
    stored = Stored(100)
    plan: list[tuple[str, object]] = [("write", "r"), ("look", 2), ("speak", 5), ("look", 6), ("write", "f")]
    seen, _ = await watched(stored, plan, 0)

    assert [type(item).__name__ for item in seen] == ["Entry"] + ["ModelDelta"] * 5 + ["Entry"]
    assert [item.index for item in seen if isinstance(item, ModelDelta)] == [0, 1, 2, 3, 4]
    assert stored.reads <= 4


async def test_pieces_of_an_answer_that_is_in_are_void() -> None:
    stored = Stored(100)
    plan: list[tuple[str, object]] = [("write", "r"), ("look", 1), ("write", "f"), ("speak", 3), ("write", "i")]
    seen, _ = await watched(stored, plan, 0)

    assert not any(isinstance(item, ModelDelta) for item in seen)


async def test_a_watcher_that_leaves_costs_nothing_more() -> None:
    watchers = Watchers(4)
    first, second = watchers.add(LOG), watchers.add(LOG)
    watchers.remove(first)
    still = LOG in watchers
    watchers.remove(second)

    assert still
    assert LOG not in watchers
