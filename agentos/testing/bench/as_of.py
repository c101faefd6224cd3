"""What a look at a conversation as it stood after any of its entries folds, and how long it takes, early and late in it."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import agentos.kernel
from agentos.events.entry import Registry
from agentos.history.past.standing import standing_at
from agentos.journal import load_log
from agentos.kernel import Kernel
from agentos.persistence.base import Store, StoredEntry
from agentos.settings import Settings
from agentos.testing.bench.figures import Figure, Sample, Samples
from agentos.testing.long_log import install_chronicler, long_conversation

WINDOW_MESSAGES = 100
"""Full at the early look, too: both show as many messages."""
FIGURES = {
    "as-of entries": Figure(
        "entries folded at the worst seq of all; the interval of snapshots and the longest unit", 1
    ),
    "as-of flat": Figure("ms, at the end of a log of 100,000 entries and at its seq 500", 1.5),
}

_SNAPSHOTS = """
select e.seq from entries e join logs on logs.n = e.n where logs.id = ? and e.kind = 'snapshot' order by e.seq
"""
_LONGEST_UNIT = """
select max(unit_entries) from
    (select count(*) as unit_entries from entries e join logs on logs.n = e.n where logs.id = ? group by e.unit) as units
"""


async def as_of(folder: Path, entries: int = 100_000, early: int = 500, rounds: int = 30) -> Samples:
    """The count is of every seq that has most to fold: the last before each snapshot. The times are of both looks in turn."""
    async with agentos.kernel.open(f"sqlite:///{folder / 'long.db'}") as kernel:
        await install_chronicler(kernel, WINDOW_MESSAGES)
        conversation = await long_conversation(kernel, entries)
        counted = await _folded(kernel, conversation.id)
        return {"as-of entries": [counted], "as-of flat": await _times(kernel, conversation.id, early, rounds)}


async def _folded(kernel: Kernel, log: str) -> Sample:
    """The most entries that any seq of the log makes a look fold, and how many it may be."""
    snapshots = [seq for (seq,) in (await kernel.query(_SNAPSHOTS, (log,))).rows]
    ((longest_unit,),) = (await kernel.query(_LONGEST_UNIT, (log,))).rows
    row = await kernel.store.log(log)
    assert row is not None and snapshots, "the log is stored, and long enough for a snapshot"
    counting = _Counting(kernel.store)
    for seq in (*(snapshot - 1 for snapshot in snapshots), row.seq):
        counting.upto = seq
        await load_log(cast(Store, counting), row.id, Registry(), upto=seq)
    return counting.most, Settings().snapshot_entries + longest_unit


async def _times(kernel: Kernel, log: str, early: int, rounds: int) -> list[Sample]:
    """Wall times in ms of looks at the two seqs, which have as much to fold: as far behind their snapshots."""
    row = await kernel.store.log(log)
    assert row is not None
    behind = early - await kernel.store.last_snapshot(log, early)
    late = await kernel.store.last_snapshot(log, row.seq - behind) + behind
    return [(await _ms(kernel.store, log, late), await _ms(kernel.store, log, early)) for _ in range(rounds)]


async def _ms(store: Store, log: str, seq: int) -> float:
    begun = time.perf_counter()
    await standing_at(store, log, seq)
    return (time.perf_counter() - begun) * 1_000


class _Counting:
    """A store that counts what it hands out to be folded: the entries of all kinds up to upto, without their snapshot. What
    stands before the snapshot is remembered, and not folded."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.upto = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        found = await self._store.entries(log, after, upto, limit, kinds)
        if kinds is None and upto == self.upto:
            from_snapshot = bool(found) and found[0].seq > 1
            self.most = max(self.most, len(found) - from_snapshot)
        return found
