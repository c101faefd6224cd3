"""Applying: what a stored unit does to the World, and the same fold over entries read back from a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentos.components import ConversationState
from agentos.events.entry import Draft, Entry, Registry, decode_entry
from agentos.events.kinds import Snapshot, TurnFinished
from agentos.ids import CONVERSATION, LogId
from agentos.journal.forgetting import leaving, staying
from agentos.journal.projections import Times, shown_state, touched_by
from agentos.journal.seal import Sealed
from agentos.persistence.base import StoredEntry
from agentos.world import APART, Rows, Slice, View
from agentos.world.transcript import advance


def apply(world: Rows, slice_: Slice, view: View, sealed: Sealed, times: Times) -> None:
    """Takes a stored pass over into the World."""
    world.put_rows(slice_, view.over)
    slice_.transcript = view.transcript
    if view.overlay:
        slice_.bodies.update(view.overlay)
    times.shown = sealed.shown
    if view.turned:
        forget(world, slice_, sealed.drafts)


def forget(world: Rows, slice_: Slice, drafts: Sequence[Draft]) -> None:
    """Drops from the World what is settled."""
    state = slice_.get(CONVERSATION, ConversationState)
    for entity in leaving(slice_.rows, drafts, state.open_turn if state is not None else 0):
        world.drop(slice_, entity)
    if state is not None and any(type(draft.data) is TurnFinished for draft in drafts):
        slice_.bodies = staying(slice_.bodies, state)


def fold_unit(world: Rows, slice_: Slice, entries: Sequence[Entry], times: Times) -> None:
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


def fold(log: LogId, stored: Iterable[StoredEntry], registry: Registry) -> tuple[Slice, Times]:
    """A log from its first entry on, apart from any World. Raises CodecError."""
    slice_, times = Slice(log), Times()
    for unit in decode_units(log, stored, registry):
        fold_unit(APART, slice_, unit, times)
    return slice_, times
