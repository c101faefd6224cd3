"""A pass sees the World through a View: the World overlaid with the pass's own drafts, a time, and a few live questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from agentos.components import (
    AgentContext,
    CallConfig,
    Component,
    ConversationState,
    CycleLink,
    Narrowing,
    Phase,
    TurnConfig,
    TurnState,
)
from agentos.errors import AgentosError
from agentos.events.effects import Effect
from agentos.events.entry import Draft
from agentos.events.intake import Item
from agentos.ids import CONVERSATION, AgentId, Digest, LogId, Micros
from agentos.world.transcript import TELLING, Transcript, advance
from agentos.world.world import Slice

C = TypeVar("C", bound=Component)
K = TypeVar("K", bound=msgspec.Struct)


class Post(msgspec.Struct, frozen=True, gc=False):
    """An item for another log, stored with the unit in its inbox. end marks the report of a child's end, whose
    child_head the journal fills in."""

    log: LogId
    key: str
    item: Item
    end: bool = False


class Alarm(msgspec.Struct, frozen=True, gc=False):
    """A time that the turn waits for, stored with the unit; reason as in WakeReason."""

    reason: str
    turn: int
    due_at: Micros
    call: int = 0


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What a system decided: entries to be, items for other logs, effects to start once all that is stored.

    dropped are intake items that call for nothing: duplicates, and reports of what was settled meanwhile.
    """

    drafts: tuple[Draft, ...] = ()
    posts: tuple[Post, ...] = ()
    effects: tuple[Effect, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    dropped: tuple[Item, ...] = ()

    @staticmethod
    def none() -> Decision:
        return NOTHING


NOTHING = Decision()


class IllegalTransition(AgentosError):
    """An entry would move its turn to a phase that the table of kinds does not allow."""


class Oracle(Protocol):
    """What a pass may ask of the live side; replay answers from the unit instead.

    slot: whether the call's toolbox has room for it now; a yes takes the room until the call is finished.
    deadlock: of a call that got no room: None, unless those who hold it wait, in the end, for this very call; then the waits
    of the cycle, none where a log of old does not tell them.
    begins: whether a turn may begin now, as far as there is a bound of turns at once.
    context: the configuration that a turn beginning now pins, at that depth, narrowed by each of the narrowings.
    """

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool: ...
    def deadlock(self, view: View, call: int) -> tuple[CycleLink, ...] | None: ...
    def begins(self, view: View) -> bool: ...
    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest: ...
    def pinned(self, digest: Digest) -> AgentContext: ...


class View:
    """One pass over one conversation.

    turn is the seq of the open turn, 0 when there is none; phase is its phase; turned says that one began or ended here.
    over holds the components that the pass changed, by entity. intake shrinks as decisions take items; taken keeps these.
    What few passes need begins empty in the class: a View is made for every unit of every turn.
    """

    posts: Sequence[Post] = ()
    effects: Sequence[Effect] = ()
    alarms: Sequence[Alarm] = ()
    slots: Sequence[int] = ()
    """Calls whose toolbox was asked for room and gave it, in this pass."""
    turn: int = 0
    turned: bool = False
    phase: Phase | None = None
    conversation: ConversationState | None = None

    def __init__(self, slice_: Slice, head: int, now: Micros, intake: list[Item], oracle: Oracle) -> None:
        self._slice = slice_
        self._oracle = oracle
        self.log = slice_.log
        self.first = self.next = head + 1
        self.now = now
        self.intake = intake
        self.over: dict[int, dict[type[Component], Any]] = {}
        self.overlay: dict[tuple[int, int], Any] = {}
        self.transcript: Transcript = slice_.transcript
        self.drafts: list[Draft] = []
        self.taken: list[Item] = []
        rows = slice_.rows
        if CONVERSATION in rows:
            self.conversation = state = rows[CONVERSATION].get(ConversationState)
            if state is not None and state.open_turn:
                self.turn = state.open_turn
                self.phase = rows[state.open_turn][TurnState].phase

    def find(self, entity: int, type_: type[C]) -> C | None:
        over = self.over
        if entity in over and type_ in over[entity]:
            return over[entity][type_]  # type: ignore[no-any-return]
        rows = self._slice.rows
        return rows[entity].get(type_) if entity in rows else None

    def get(self, entity: int, type_: type[C]) -> C:
        """The component; the entity has one, by the rules of the log."""
        over = self.over
        if entity in over and type_ in over[entity]:
            return over[entity][type_]  # type: ignore[no-any-return]
        return self._slice.rows[entity][type_]  # type: ignore[no-any-return]

    def pinned(self, turn: int) -> AgentContext:
        """The configuration that the turn pinned."""
        return self._oracle.pinned(self.get(turn, TurnConfig).context)

    def known(self, digest: Digest) -> AgentContext:
        """A configuration that the log names."""
        return self._oracle.pinned(digest)

    def context(
        self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()
    ) -> tuple[Digest, AgentContext]:
        """The configuration that a turn beginning now pins."""
        digest = self._oracle.context(agent, depth, narrowings)
        return digest, self._oracle.pinned(digest)

    def begins(self) -> bool:
        """Whether a turn may begin now; a yes holds its place."""
        return self._oracle.begins(self)

    def slot(self, call: int) -> bool:
        """Whether the call may start now; a yes holds its place until the call is finished."""
        if self._oracle.slot(self.log, call, self.get(call, CallConfig)):
            self.slots = [*self.slots, call]
            return True
        return False

    def deadlock(self, call: int) -> tuple[CycleLink, ...] | None:
        """The waits that keep a call which got no room waiting for ever, None when it will have its turn. Only one that
        others wait for can: an inner call, or one that works for a call of another conversation."""
        works_for_another = self.get(self.turn, TurnConfig).causes or self.get(call, CallConfig).parent is not None
        return self._oracle.deadlock(self, call) if works_for_another else None

    def body(self, seq: int, i: int) -> Any:
        """The private value number i of the entry at seq."""
        key = (seq, i)
        return self.overlay[key] if key in self.overlay else self._slice.bodies[key]

    def items(self, type_: type[K], where: Callable[[K], bool] | None = None) -> Iterator[K]:
        """Intake of this type that is not decided on yet, oldest first."""
        for item in self.intake:
            if type(item) is type_ and (where is None or where(item)):
                yield item

    def add(self, decision: Decision) -> None:
        """Takes a decision over: later systems of the pass see its drafts. Raises IllegalTransition, and takes nothing."""
        drafts = decision.drafts
        if len(drafts) > 1:
            self._check(drafts)
        for draft in drafts:
            self._add_draft(draft)
        if decision.dropped:
            for item in decision.dropped:
                self._take(item)
        if decision.posts:
            self.posts = [*self.posts, *decision.posts]
        if decision.effects:
            self.effects = [*self.effects, *decision.effects] if self.effects else decision.effects
        if decision.alarms:
            self.alarms = [*self.alarms, *decision.alarms]

    def add_snapshot(self, draft: Draft) -> None:
        """The journal's own entry at the end of a unit; it changes nothing that is seen."""
        self.drafts.append(draft)
        self.next += 1

    def entities(self) -> list[tuple[int, type[Component]]]:
        """Every entity of the log with each of its stored component types, in a fixed order."""
        found = {
            (entity, type_) for rows in (self._slice.rows, self.over) for entity, row in rows.items() for type_ in row
        }
        return sorted(found, key=lambda pair: (pair[0], pair[1].component))

    def _add_draft(self, draft: Draft) -> None:
        over = self.over
        for entity, component in draft.changes:
            type_ = type(component)
            if type_ is TurnState:
                phase = component.phase  # type: ignore[attr-defined]
                if phase is not self.phase:
                    if phase not in draft.data.after:
                        raise IllegalTransition(self._illegal(draft, self.phase, phase))
                    if entity == self.turn:
                        self.phase = phase
            elif type_ is ConversationState:
                self.conversation = component  # type: ignore[assignment]
                if component.open_turn != self.turn:  # type: ignore[attr-defined]
                    self.turn, self.phase = component.open_turn, None  # type: ignore[attr-defined]
                    self.turned = True
            if entity in over:
                over[entity][type_] = component
            else:
                over[entity] = {type_: component}
        seq = self.next
        self.next = seq + 1
        if draft.private:
            i = 0
            for _, value in draft.private:
                self.overlay[seq, i] = value
                i += 1
        if type(draft.data) in TELLING:
            self.transcript = advance(self.transcript, seq, draft, self.body)
        self.drafts.append(draft)
        if draft.fed is not None:
            self._take(draft.fed)

    def _take(self, item: Item) -> None:
        intake = self.intake
        for position in range(len(intake)):
            if intake[position] is item:
                del intake[position]
                self.taken.append(item)
                return
        raise AssertionError(f"a decision took {type(item).__name__}, which is not in the intake")

    def _check(self, drafts: Sequence[Draft]) -> None:
        """Phases move only along the table of kinds; of a decision that breaks it, nothing is taken over."""
        phase = self.phase
        for draft in drafts:
            for _, component in draft.changes:
                if type(component) is TurnState and component.phase is not phase:
                    if component.phase not in draft.data.after:
                        raise IllegalTransition(self._illegal(draft, phase, component.phase))
                    phase = component.phase

    def _illegal(self, draft: Draft, before: Phase | None, after: Phase) -> str:
        was = before.value if before is not None else "no turn"
        return f"{self.log}: {draft.data.kind} may not move {was} to {after.value}"
