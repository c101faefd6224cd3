"""From components to the rows that people query: conversations, turns, calls. A pure fold, so that verify can redo it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from agentos.codec import encode_struct
from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    Component,
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.events.entry import Draft, RawComponent
from agentos.events.kinds import CallResolved, Snapshot
from agentos.ids import CONVERSATION, call_id, turn_id

C = TypeVar("C", bound=Component)

IN_ROWS: frozenset[type[Component]] = frozenset(
    {CallConfig, CallState, ConversationConfig, ConversationState, TurnConfig, TurnState}
)
"""Components that have narrow rows of their own; all others stand in the table `components`."""


class Times(msgspec.Struct):
    """What rows need beside components: the state of the conversation that was shown last."""

    shown: str = ""


class Projection(msgspec.Struct, gc=False):
    """The rows that one unit changes, and the state that it shows."""

    shown: str
    conversation: tuple[Any, ...] | None = None
    turns: Sequence[tuple[Any, ...]] = ()
    calls: Sequence[tuple[Any, ...]] = ()
    components: Sequence[tuple[str, str, str]] = ()


class Find(Protocol):
    def __call__(self, entity: int, type_: type[C], /) -> C | None: ...


Touched = Mapping[int, Mapping[type[Component], Any]]
"""The components that a unit changed, as they are after it, by entity."""


def project(log: str, touched: Touched, at: int, find: Find, times: Times) -> Projection:
    """The rows after a unit at that time; find sees the components after it, times what was noted before it."""
    shown = shown_state(find)
    projection = Projection(shown)
    for entity, row in touched.items():
        if CallState in row:
            projection.calls = (*projection.calls, _call_row(entity, row[CallState], at, find))
        elif TurnState in row:
            if TurnConfig in row or row[TurnState].phase is Phase.SETTLED:
                projection.turns = (*projection.turns, _turn_row(entity, row[TurnState], at, find))
        elif ConversationState in row:
            projection.conversation = _conversation_row(log, shown, at, find)
        if not IN_ROWS.issuperset(row):
            projection.components = (*projection.components, *_component_rows(log, entity, row, find))
    if shown != times.shown and projection.conversation is None:
        projection.conversation = _conversation_row(log, shown, at, find)
    return projection


def touched_by(drafts: Iterable[Draft]) -> dict[int, dict[type[Component], Any]]:
    """What a unit changed, from its entries."""
    touched: dict[int, dict[type[Component], Any]] = {}
    for draft in drafts:
        if type(draft.data) is not Snapshot:
            for entity, component in draft.changes:
                touched.setdefault(entity, {})[type(component)] = component
    return touched


def resolutions_of(drafts: Iterable[Draft]) -> Sequence[tuple[int, str]]:
    """What people said of calls, by the seqs of these, from the entries of a unit."""
    return [(draft.call, draft.data.resolution.value) for draft in drafts if type(draft.data) is CallResolved]


def shown_state(find: Find) -> str:
    """idle, running, parked, paused or closed: what `ps` shows."""
    state = find(CONVERSATION, ConversationState)
    if state is None:
        return ""
    if state.open_turn:
        return "parked" if _parked(state.open_turn, find) else "running"
    return "idle" if state.status is ConversationStatus.OPEN else state.status.value


def _parked(turn: int, find: Find) -> bool:
    """Whether the turn waits with nothing running: for a person, a child, or a time."""
    state = find(turn, TurnState)
    assert state is not None
    if state.phase is Phase.PROMPT:
        return state.retry_at is not None
    if state.requested or state.phase not in (Phase.CALL, Phase.GATE, Phase.SETTLING):
        return False
    waits = False
    for call in state.calls + state.inner:
        call_state = find(call, CallState)
        if call_state is None:
            continue
        if call_state.status is CallStatus.PROPOSED and state.phase is Phase.CALL:
            return False
        if call_state.status is CallStatus.STARTED and call_state.child is None:
            return False
        if call_state.status is CallStatus.WAITING and not waits_for_person(call_state):
            return False
        waits = waits or call_state.status in (CallStatus.STARTED, CallStatus.WAITING)
    return waits


def waits_for_person(call: CallState) -> bool:
    return call.waiting is Waiting.APPROVAL or bool(call.doubted)


def _conversation_row(log: str, shown: str, at: int, find: Find) -> tuple[Any, ...] | None:
    config, state = find(CONVERSATION, ConversationConfig), find(CONVERSATION, ConversationState)
    if config is None or state is None:
        return None
    return (
        log,
        config.slug,
        shown,
        config.depth,
        config.parent,
        config.root,
        state.open_turn or None,
        state.turns,
        state.steps,
        state.calls,
        state.input_tokens,
        state.output_tokens,
        config.started_at,
        at,
    )


def _turn_row(turn: int, state: TurnState, at: int, find: Find) -> tuple[Any, ...]:
    config = find(turn, TurnConfig)
    assert config is not None
    if state.phase is not Phase.SETTLED:
        return (turn, "open", None, None, 0, 0, 0, 0, config.started_at, None, config.context)
    assert state.outcome is not None
    return (
        turn,
        "settled",
        state.outcome._value_,
        state.outcome_name,
        state.step_index,
        state.calls_made,
        state.input_tokens,
        state.output_tokens,
        config.started_at,
        at,
        config.context,
    )


def _call_row(call: int, state: CallState, at: int, find: Find) -> tuple[Any, ...]:
    config = find(call, CallConfig)
    assert config is not None
    return (
        call,
        config.turn,
        config.step,
        config.ordinal,
        config.tool,
        config.toolbox,
        config.effect._value_,
        state.status._value_,
        state.kind,
        state.attempt,
        state.child,
        state.started_at,
        at if state.result else None,
        config.arguments[0],
        config.arguments[1],
        state.result or None,
        config.parent,
    )


def _component_rows(
    log: str, entity: int, row: Mapping[type[Component], Any], find: Find
) -> list[tuple[str, str, str]]:
    if entity == CONVERSATION:
        id_ = log
    elif find(entity, CallConfig) is not None:
        id_ = call_id(log, entity)
    else:
        id_ = turn_id(log, entity)
    rows = []
    for type_, component in row.items():
        if issubclass(type_, RawComponent):
            rows.append((id_, str(component.name), bytes(component.value).decode()))
        elif type_ not in IN_ROWS:
            rows.append((id_, type_.component, encode_struct(component).decode()))
    return rows
