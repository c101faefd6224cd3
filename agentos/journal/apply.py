"""Applying: what a stored unit does to the World, and the same fold over entries read back from a store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from agentos.components import ConversationState
from agentos.events.entry import Draft, Entry, Registry, decode_entry
from agentos.events.kinds import Snapshot, TurnFinished, TurnStarted
from agentos.ids import CONVERSATION, LogId
from agentos.journal.projections import Times, shown_state, touched_by
from agentos.journal.seal import Sealed
from agentos.persistence.base import StoredEntry
from agentos.world import Slice, View, World
from agentos.world.transcript import advance


def apply(world: World, slice_: Slice, view: View, sealed: Sealed, times: Times) -> None:
    """Takes a stored pass over into the World."""
    world.put_rows(slice_, view.over)
    slice_.transcript = view.transcript
    if view.overlay:
        slice_.bodies.update(view.overlay)
    times.shown = sealed.shown
    if view.turned:
        forget(world, slice_, sealed.drafts)


def forget(world: World, slice_: Slice, drafts: Sequence[Draft]) -> None:
    """Drops from the World what is settled: the store has it. The last settled turn stays until the next begins."""
    for draft in drafts:
        kind = type(draft.data)
        if kind is TurnStarted:
            for entity in [entity for entity in slice_.rows if CONVERSATION < entity < draft.turn]:
                world.drop(slice_, entity)
        elif kind is TurnFinished:
            _forget_turn(world, slice_, draft.turn)


def _forget_turn(world: World, slice_: Slice, turn: int) -> None:
    """Its calls, and every body but those of inputs that wait, or of a turn that began in the same unit."""
    state = slice_.get(CONVERSATION, ConversationState)
    assert state is not None
    newer = state.open_turn or sys.maxsize
    for entity in [entity for entity in slice_.rows if turn < entity < newer]:
        world.drop(slice_, entity)
    if not state.waiting and not state.open_turn:
        slice_.bodies.clear()
        return
    waiting = {waiting.seq for waiting in state.waiting}
    slice_.bodies = {key: body for key, body in slice_.bodies.items() if key[0] in waiting or key[0] > newer}


def fold_unit(world: World, slice_: Slice, entries: Sequence[Entry], times: Times) -> None:
    """What `apply` does, from the entries of one unit."""
    for entry in entries:
        for i, (_, value) in enumerate(entry.private):
            slice_.bodies[entry.seq, i] = value
        if type(entry.data) is not Snapshot:
            slice_.transcript = advance(slice_.transcript, entry.seq, entry, lambda seq, i: slice_.bodies[seq, i])
    touched = touched_by(entries)
    world.put_rows(slice_, touched)
    times.shown = shown_state(slice_.get)
    forget(world, slice_, entries)


def decode_units(log: LogId, stored: Iterable[StoredEntry], registry: Registry) -> list[list[Entry]]:
    """Stored entries as units. Raises CodecError naming what cannot be read."""
    units: list[list[Entry]] = []
    for row in stored:
        entry = decode_entry(log, row.head, {i: body for i, _, _, body in row.payloads}, registry)
        if units and units[-1][0].unit == entry.unit:
            units[-1].append(entry)
        else:
            units.append([entry])
    return units


def fold(world: World, log: LogId, stored: Iterable[StoredEntry], registry: Registry) -> tuple[Slice, Times]:
    """Loads a log into the World from its entries. Raises CodecError."""
    slice_, times = world.load(log), Times()
    for unit in decode_units(log, stored, registry):
        fold_unit(world, slice_, unit, times)
    return slice_, times
