"""What is on its way to the store: a pass that was sealed as a unit, and what the tick needs of the kernel around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentos.components import CallState, CallStatus, TurnState
from agentos.events.effects import Effect
from agentos.events.entry import Draft
from agentos.events.intake import Item
from agentos.ids import Digest, LogId, Micros
from agentos.journal import Sealed
from agentos.kernel.loaded import Loaded
from agentos.systems.schedule import PassFailure
from agentos.world import View


class InFlight:
    """A pass whose unit is not known to be stored yet. taken: the items of the inbox that it took, with their keys;
    failures: the systems that raised in it."""

    __slots__ = ("failures", "loaded", "sealed", "taken", "view")

    def __init__(
        self,
        loaded: Loaded,
        view: View,
        sealed: Sealed,
        taken: list[tuple[Item, str]],
        failures: Sequence[PassFailure],
    ) -> None:
        self.loaded, self.view, self.sealed = loaded, view, sealed
        self.taken, self.failures = taken, failures


class Host(Protocol):
    """What the tick needs of the kernel around it."""

    def definitions(self, digest: str) -> Sequence[tuple[str, str, str]]: ...
    def give_slot_back(self, log: LogId, call: int) -> None: ...
    def route(self, log: LogId, item: Item, key: str) -> None: ...
    def start_effect(self, effect: Effect) -> None: ...
    def person_awaited(self, view: View, call: int) -> None: ...
    def turn_awaited(self, view: View) -> None: ...
    def person_heard(self, log: LogId, call: int) -> None: ...
    def turn_started(self, context: Digest) -> None: ...
    def turn_finished(self, loaded: Loaded, turn: int) -> None: ...
    def conversation_closed(self, loaded: Loaded) -> None: ...
    def landed(self, loaded: Loaded, drafts: Sequence[Draft], first: int, at: Micros) -> None: ...
    def lost(self, loaded: Loaded) -> None: ...
    def broke(self, loaded: Loaded) -> None: ...
    def erased(self, loaded: Loaded, at: Micros, *, is_heard: bool) -> None: ...
    def taken(self, log: LogId, keys: Sequence[str]) -> None: ...


def in_line(view: View) -> list[int]:
    """The calls that could not start in this pass; they may have been put in line."""
    turn = view.find(view.turn, TurnState)
    return [call for call in turn.calls + turn.inner if _is_proposed(view, call)] if turn is not None else []


def _is_proposed(view: View, call: int) -> bool:
    state = view.find(call, CallState)
    return state is not None and state.status is CallStatus.PROPOSED
