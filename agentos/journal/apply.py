"""Applying: what a stored unit does to the World, and the same fold over entries read back from a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentos.components import ConversationState
from agentos.events.entry import Draft, Entry, Registry, decode_entry
from agentos.events.kinds import Snapshot, TurnFinished, TurnStarted
from agentos.ids import CONVERSATION, LogId
from agentos.journal.projections import Times, project
from agentos.journal.seal import Sealed
from agentos.persistence.base import StoredEntry
from agentos.world import Slice, View, World
from agentos.world.transcript import advance


def apply(world: World, slice_: Slice, view: View, sealed: Sealed, times: Times) -> None:
    """Takes a stored pass over into the World."""
    for entity, row in view.over.items():
        world.put_row(slice_, entity, row)
    slice_.transcript = view.transcript
    if view.overlay:
        slice_.bodies.update(view.overlay)
    sealed.projection.note(times)
    forget(world, slice_, sealed.drafts, times)


def forget(world: World, slice_: Slice, drafts: Sequence[Draft], times: Times) -> None:
    """Drops from the World what is settled: the store has it. The last settled turn stays until the next begins."""
    for draft in drafts:
        kind = type(draft.data)
        if kind is TurnStarted:
            state = slice_.get(CONVERSATION, ConversationState)
            if state is not None and state.last_turn and state.last_turn != state.open_turn:
                world.drop(slice_, (state.last_turn,))
        elif kind is TurnFinished:
            _forget_turn(world, slice_, draft.turn, times)


def _forget_turn(world: World, slice_: Slice, turn: int, times: Times) -> None:
    state = slice_.get(CONVERSATION, ConversationState)
    assert state is not None
    keep = {CONVERSATION, turn, state.open_turn}
    world.drop(slice_, [entity for entity in slice_.rows if entity not in keep and entity < (state.open_turn or 2**63)])
    waiting = {waiting.seq for waiting in state.waiting}
    if state.open_turn:
        waiting |= {seq for seq, _ in slice_.bodies if seq > state.open_turn}
    slice_.bodies = {key: value for key, value in slice_.bodies.items() if key[0] in waiting}
    times.started.clear()
    times.finished.clear()
    times.results.clear()


def fold_unit(world: World, slice_: Slice, entries: Sequence[Entry], times: Times) -> None:
    """What `apply` does, from the entries of one unit."""
    for entry in entries:
        for i, (_, value) in enumerate(entry.private):
            slice_.bodies[entry.seq, i] = value
        if type(entry.data) is Snapshot:
            continue
        world.put(slice_, entry.changes)
        slice_.transcript = advance(slice_.transcript, entry.seq, entry, lambda seq, i: slice_.bodies[seq, i])
    project(slice_.log, entries, entries[0].seq, entries[0].at, slice_.get, times).note(times)
    forget(world, slice_, entries, times)


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
