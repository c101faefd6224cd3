"""Loading a log as it was after any of its entries: from the last snapshot before, and what came after it.

A snapshot holds the components, so of what stands before it only three things are read: the entries that tell the
transcript, from the turn on at which the window begins; all entries since the last turn ended, for their bodies; and the
inputs that wait. The cost is that of the window, of the open turn and of the entries since the snapshot, however long the
log is. Where there is no snapshot, all entries are folded. Nothing is put into a World here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from agentos.components import Component, ContextWindow, ConversationState
from agentos.errors import StoreDamaged
from agentos.events.entry import Entry, Registry, decode_entry
from agentos.events.kinds import TurnFinished, TurnStarted
from agentos.ids import CONVERSATION, LogId
from agentos.journal.apply import decode_units, fold, fold_unit
from agentos.journal.forgetting import Bodies, staying
from agentos.journal.projections import Times, shown_state
from agentos.journal.telling import KINDS, TAKEN, MissingEntry, private_of, taken_by, transcript_of
from agentos.persistence.base import Store, StoredEntry
from agentos.world import APART, Slice

C = TypeVar("C", bound=Component)


class Folded(msgspec.Struct, frozen=True):
    """A log as it was after the entry at seq, whose digest is that; snapshot is the seq of the last snapshot up to there.
    All three are 0 or empty for no entries at all."""

    slice: Slice
    times: Times
    seq: int = 0
    digest: bytes = b""
    snapshot: int = 0


class Recalled(msgspec.Struct, frozen=True):
    """What is read of the entries before a snapshot, beside the snapshot itself.

    told: those of `telling.KINDS` from the first input of the window on. recent: all entries from the unit on in which the
    last turn ended, or from an earlier one. Both end before the snapshot.
    """

    told: Sequence[StoredEntry]
    recent: Sequence[StoredEntry]


async def load_log(store: Store, log: LogId, registry: Registry, upto: int | None = None) -> Folded:
    """The log as it was after its last entry, or after the one at upto; in the middle of a unit, what the unit had come to.

    Errors: StoreDamaged when an entry is missing, with its seq; CodecError when one cannot be read; StoreUnavailable.
    """
    snapshot = await store.last_snapshot(log, upto)
    tail = await store.entries(log, max(snapshot - 1, 0), upto)
    try:
        check_gapless(tail, snapshot or 1, snapshot)
        if not snapshot:
            slice_, times = fold(log, tail, registry)
        else:
            begin = decode_entry(log, tail[0].head, {}, registry)
            slice_, times = fold_from(begin, await _recall(store, begin), tail[1:], registry)
    except MissingEntry as error:
        raise StoreDamaged(store.url, f"{log}: {error}") from error
    if not tail:
        return Folded(slice_, times)
    return Folded(slice_, times, tail[-1].seq, tail[-1].digest, snapshot)


def fold_from(
    snapshot: Entry, recalled: Recalled, later: Iterable[StoredEntry], registry: Registry
) -> tuple[Slice, Times]:
    """What `fold` gives for the whole log, from a snapshot and the entries after it. Raises CodecError, MissingEntry."""
    slice_ = Slice(snapshot.log)
    for entity, component in snapshot.changes:
        APART.put_rows(slice_, {entity: {type(component): component}})
    slice_.transcript = transcript_of(recalled.told, _first_turn(snapshot))
    slice_.bodies = bodies_of(snapshot.log, recalled, registry)
    _check_waiting(slice_)
    times = Times(shown_state(slice_.get))
    for unit in decode_units(snapshot.log, later, registry):
        fold_unit(APART, slice_, unit, times)
    return slice_, times


def bodies_of(log: LogId, recalled: Recalled, registry: Registry) -> Bodies:
    """The private values that are at hand before the snapshot: what waits may stand before the recent entries. Raises
    CodecError."""
    first = recalled.recent[0].seq if recalled.recent else 0
    bodies = _bodies_in(stored for stored in recalled.told if stored.kind in TAKEN and stored.seq < first)
    for _, unit in groupby(recalled.recent, lambda stored: stored.unit):
        entries = list(unit)
        bodies |= _bodies_in(entries)
        if any(stored.kind == TurnFinished.kind for stored in entries):
            bodies = staying(bodies, _state_after(log, entries, registry))
    return bodies


def _bodies_in(entries: Iterable[StoredEntry]) -> Bodies:
    return {(stored.seq, i): value for stored in entries for i, (_, value) in enumerate(private_of(stored))}


def check_gapless(stored: Sequence[StoredEntry], first: int, last: int) -> None:
    """Nothing is missing from the first on, and the last is reached. Raises MissingEntry."""
    for seq, entry in enumerate(stored, first):
        if entry.seq != seq:
            raise MissingEntry(seq, f"the log goes on at {entry.seq}")
    if first + len(stored) <= last:
        raise MissingEntry(first + len(stored), f"the log reaches {last}")


def _check_waiting(slice_: Slice) -> None:
    """What waits for a turn is there. Raises MissingEntry."""
    state = slice_.get(CONVERSATION, ConversationState)
    if state is not None:
        for seq in (*(waiting.seq for waiting in state.waiting), *state.resolutions):
            if (seq, 0) not in slice_.bodies:
                raise MissingEntry(seq, "a turn is to take what it holds")


async def _recall(store: Store, snapshot: Entry) -> Recalled:
    log, last = snapshot.log, snapshot.seq - 1
    told = await store.entries(log, await _before_window(store, snapshot), last, kinds=KINDS)
    ends = [stored for stored in told if stored.kind == TurnFinished.kind]
    state = _of_conversation(snapshot, ConversationState)
    last_turn = state.last_turn if state is not None else 0
    since = ends[-1].unit if ends else max(last_turn, 1)
    recent = await store.entries(log, since - 1, last)
    check_gapless(recent, since, last)
    return Recalled(told, recent)


async def _before_window(store: Store, snapshot: Entry) -> int:
    """The seq before what the turn took with which the window begins, 0 without a window."""
    first_turn = _first_turn(snapshot)
    if not first_turn:
        return 0
    for stored in await store.entries(snapshot.log, first_turn - 1, first_turn, kinds=[TurnStarted.kind]):
        return min((first_turn, *taken_by(stored))) - 1
    raise MissingEntry(first_turn, "the window begins with the turn that it starts")


def _first_turn(snapshot: Entry) -> int:
    window = _of_conversation(snapshot, ContextWindow)
    return window.first_turn if window is not None else 0


def _state_after(log: LogId, unit: Sequence[StoredEntry], registry: Registry) -> ConversationState:
    """The last one of a unit in which a turn ends: every end of a turn brings one."""
    entries = (decode_entry(log, stored.head, {}, registry) for stored in reversed(unit))
    return next(state for entry in entries if (state := _of_conversation(entry, ConversationState)) is not None)


def _of_conversation(entry: Entry, type_: type[C]) -> C | None:
    """The last one that an entry gives the conversation."""
    found = [value for entity, value in entry.changes if entity == CONVERSATION and type(value) is type_]
    return found[-1] if found else None
