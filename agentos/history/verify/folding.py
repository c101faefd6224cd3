"""A log folded anew, unit by unit, into the rows that each unit changes: what verify compares and a copy writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentos.components import Component, ConversationConfig, ConversationState, TurnConfig, TurnState
from agentos.events.entry import Draft, Entry
from agentos.ids import CONVERSATION, LogId
from agentos.journal import Projection, Times, project, touched_by
from agentos.journal.apply import forget
from agentos.journal.projections import Touched, shown_state
from agentos.world import APART, Rows, Slice, World


class Folding:
    """Folds the entries of one log. Bodies are not looked at.

    In a World, the log stays loaded until it is unloaded; without one it is folded apart, which is quicker.
    """

    def __init__(self, log: LogId, world: World | None = None) -> None:
        self._world: Rows = world if world is not None else APART
        self._times = Times()
        self._slice = world.load(log) if world is not None else Slice(log)

    def begin_at(self, snapshot: Entry) -> None:
        """Takes a snapshot for all that came before it."""
        rows: dict[int, dict[type[Component], Component]] = {}
        for entity, component in snapshot.changes:
            rows.setdefault(entity, {})[type(component)] = component
        self._world.put_rows(self._slice, rows)
        self._times.shown = shown_state(self._slice.get)

    def fold(self, entries: Sequence[Entry]) -> Projection:
        """The rows after the next unit."""
        return self.take(touched_by(entries), entries[0].at, entries)

    def take(self, touched: Touched, at: int, told: Sequence[Draft]) -> Projection:
        """The same, from what the unit changed; told are those of its entries with which turns begin and end."""
        slice_ = self._slice
        self._world.put_rows(slice_, touched)
        projection = project(slice_.log, touched, at, slice_.get, self._times)
        self._times.shown = projection.shown
        if told:
            forget(self._world, slice_, told)
        return projection

    @property
    def rows(self) -> Mapping[int, Mapping[type[Component], Any]]:
        """The components after the last unit, by entity."""
        return self._slice.rows

    @property
    def config(self) -> ConversationConfig | None:
        return self._slice.get(CONVERSATION, ConversationConfig)

    @property
    def open_turn(self) -> tuple[int, TurnConfig, TurnState] | None:
        """The open turn: its seq, what it pinned, and where it stands."""
        state = self._slice.get(CONVERSATION, ConversationState)
        if state is None or not state.open_turn:
            return None
        config, turn = self._slice.get(state.open_turn, TurnConfig), self._slice.get(state.open_turn, TurnState)
        assert config is not None and turn is not None, "an open turn has both"
        return state.open_turn, config, turn
