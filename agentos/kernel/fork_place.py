"""Where a fork begins: at the end of a unit, at which the calls are open that are given results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

import msgspec

from agentos.components import CallStatus
from agentos.errors import ForkRefused, StoreDamaged
from agentos.events.entry import Entry, Registry
from agentos.events.kinds import CallFinished, CallNested, CallProposed
from agentos.ids import CallId, LogId, call_id
from agentos.journal import decode_units
from agentos.persistence.base import LogRow, Store

PAGE_ENTRIES = 500
"""How many entries are read at once while the end of a call is looked for."""
_BEGINNINGS = frozenset({CallProposed.kind, CallNested.kind})


class Place(msgspec.Struct, frozen=True):
    """log holds the entry at upto, the last one that is shared and the end of a unit: the log that was asked for, or the one
    that this shares it with."""

    log: LogId
    upto: int


class End(msgspec.Struct, frozen=True):
    """How a call ended, once and for all: with its last attempt."""

    seq: int
    data: CallFinished
    result: object


async def place_of(store: Store, row: LogRow, at: int | None, calls: Sequence[int]) -> Place:
    """The end of the unit that at is the end of, or of the one before. Without at: the end of the log, or with calls the
    last place at which all of them are open.

    Errors: ForkRefused, which names a seq at which it could begin.
    """
    last = {call: await _last_open(store, row, call) for call in calls}
    if at is None:
        at = min(last.values(), default=row.seq)
    if not 1 <= at <= row.seq:
        raise ForkRefused(row.id, f"there is no entry {at}; it has 1 to {row.seq}", row.seq if at > row.seq else 0)
    upto = await _end_of_unit(store, row, at)
    for call, open_at in last.items():
        if upto > open_at:
            raise ForkRefused(row.id, f"{_name(row, call)} has ended at seq {upto}, with its own result", open_at)
        if upto < call:
            raise ForkRefused(row.id, f"{_name(row, call)} is not there yet at seq {upto}", open_at)
    return Place((await holder_of(store, row, upto)).id, upto)


async def holder_of(store: Store, row: LogRow, seq: int) -> LogRow:
    """The log that has the entry for its own: a fork of what a fork shares is one of the log that it shares it with.

    Errors: StoreDamaged.
    """
    while row.forked_from is not None and seq <= row.upto:
        above = await store.log(row.forked_from)
        if above is None:
            raise StoreDamaged(store.url, f"{row.id} is a fork of {row.forked_from}, which is not there")
        row = above
    return row


async def ends_of(store: Store, row: LogRow, after: int, calls: Collection[int]) -> dict[int, End]:
    """How these calls ended behind that seq, of those that did."""
    found: dict[int, End] = {}
    async for entry in _ends(store, row, after):
        if len(found) == len(calls):
            break
        data = entry.data
        if isinstance(data, CallFinished) and data.status is not CallStatus.LOST and entry.call in calls:
            private = dict(entry.private)
            found.setdefault(entry.call, End(entry.seq, data, private.get("whole", private["result"])))
    return found


async def _last_open(store: Store, row: LogRow, call: int) -> int:
    """The last end of a unit at which the call is open. Raises ForkRefused for one that never is, and for what is none."""
    first = await store.entries(row.id, call - 1, call) if 1 <= call <= row.seq else []
    if not first or first[0].kind not in _BEGINNINGS:
        raise ForkRefused(row.id, f"it has no call {_name(row, call)}; 'agentos lineage' shows those that it has")
    end = (await ends_of(store, row, call, {call})).get(call)
    if end is None:
        return row.seq
    open_at = await _end_of_unit(store, row, end.seq - 1)
    if open_at < call:
        raise ForkRefused(row.id, f"{_name(row, call)} ended as soon as it was asked for, and was never open")
    return open_at


async def _end_of_unit(store: Store, row: LogRow, at: int) -> int:
    """This seq when a unit ends there, else where the unit before ends. Raises ForkRefused within the first unit."""
    here = await store.entries(row.id, at - 1, min(at + 1, row.seq))
    if not here or here[0].seq != at:
        raise StoreDamaged(store.url, f"{row.id}: the entry at seq {at} is missing")
    if len(here) == 1 or here[1].unit != here[0].unit:
        return at
    if here[0].unit > 1:
        return here[0].unit - 1
    rest = await store.entries(row.id, at, row.seq, PAGE_ENTRIES)
    end = next((entry.seq - 1 for entry in rest if entry.unit > 1), rest[-1].seq)
    raise ForkRefused(row.id, f"its first unit has not ended at seq {at}", end)


async def _ends(store: Store, row: LogRow, after: int) -> AsyncIterator[Entry]:
    """The ends of calls behind a seq."""
    while True:
        page = await store.entries(row.id, after, row.seq, PAGE_ENTRIES, kinds=[CallFinished.kind])
        for unit in decode_units(row.id, page, Registry()):
            for entry in unit:
                yield entry
        if len(page) < PAGE_ENTRIES:
            return
        after = page[-1].seq


def _name(row: LogRow, call: int) -> CallId:
    return call_id(row.id, call)
