"""From components to the rows that people query: conversations, turns, calls. A pure fold, so that verify can redo it."""

from __future__ import annotations

from collections.abc import Sequence
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
from agentos.events.kinds import CallFinished, CallStarted, Snapshot, TurnFinished
from agentos.ids import CONVERSATION, call_id, turn_id

C = TypeVar("C", bound=Component)

IN_ROWS = frozenset({CallConfig, CallState, ConversationConfig, ConversationState, TurnConfig, TurnState})
"""Components that have narrow rows of their own; all others stand in the table `components`."""


class Times(msgspec.Struct):
    """What rows need beside components: when a call started and ended, where its result stands, the state shown last."""

    started: dict[int, int] = {}
    finished: dict[int, int] = {}
    results: dict[int, int] = {}
    shown: str = ""


class Projection(msgspec.Struct, gc=False):
    """The rows that one unit changes, and what `Times` has to note once it is stored: calls started, calls finished with
    the seq of their result, and the state that is shown."""

    conversation: tuple[Any, ...] | None
    turns: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    components: list[tuple[str, str, str]]
    at: int
    started: list[int]
    finished: dict[int, int]
    shown: str

    def note(self, times: Times) -> None:
        for call in self.started:
            times.started.setdefault(call, self.at)
        for call, result in self.finished.items():
            times.finished[call] = self.at
            times.results[call] = result
        times.shown = self.shown


class Find(Protocol):
    def __call__(self, entity: int, type_: type[C], /) -> C | None: ...


def project(log: str, drafts: Sequence[Draft], first: int, at: int, find: Find, times: Times) -> Projection:
    """The rows after these drafts; find sees the components after them, times what was noted before them."""
    turns: dict[int, int | None] = {}
    calls: dict[int, None] = {}
    conversation = False
    components: list[tuple[str, str, str]] = []
    started: list[int] = []
    ended: dict[int, int] = {}
    for seq, draft in enumerate(drafts, first):
        kind = type(draft.data)
        if kind is CallStarted:
            started.append(draft.call)
        elif kind is CallFinished:
            ended[draft.call] = seq
        elif kind is TurnFinished:
            turns[draft.turn] = at
        elif kind is Snapshot:
            continue
        for entity, component in draft.changes:
            type_ = type(component)
            if type_ is TurnState:
                continue
            if type_ is CallState or type_ is CallConfig:
                calls[entity] = None
            elif type_ is TurnConfig:
                turns[entity] = None
            elif type_ is ConversationState or type_ is ConversationConfig:
                conversation = True
            else:
                components.append(_component_row(log, entity, component, find))
    shown = shown_state(find)
    projection = Projection(None, [], [], components, at, started, ended, shown)
    if conversation or shown != times.shown:
        projection.conversation = _conversation_row(log, shown, at, find)
    if turns:
        projection.turns = [_turn_row(turn, finished, find) for turn, finished in turns.items()]
    if calls:
        projection.calls = [_call_row(call, find, times, projection) for call in calls]
    return projection


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
    for call in state.calls:
        call_state = find(call, CallState)
        if call_state is None:
            continue
        if call_state.status is CallStatus.PROPOSED and state.phase is Phase.CALL:
            return False
        if call_state.status is CallStatus.STARTED and call_state.child is None:
            return False
        if call_state.status is CallStatus.WAITING and call_state.waiting is not Waiting.APPROVAL:
            return False
        waits = waits or call_state.status in (CallStatus.STARTED, CallStatus.WAITING)
    return waits


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


def _turn_row(turn: int, finished_at: int | None, find: Find) -> tuple[Any, ...]:
    config, state = find(turn, TurnConfig), find(turn, TurnState)
    assert config is not None and state is not None
    ended = finished_at is not None
    return (
        turn,
        "settled" if ended else "open",
        state.outcome._value_ if state.outcome is not None and ended else None,
        state.outcome_name if ended else None,
        state.step_index if ended else 0,
        state.calls_made if ended else 0,
        state.input_tokens if ended else 0,
        state.output_tokens if ended else 0,
        config.started_at,
        finished_at,
    )


def _call_row(call: int, find: Find, times: Times, projection: Projection) -> tuple[Any, ...]:
    config, state = find(call, CallConfig), find(call, CallState)
    assert config is not None and state is not None
    result = projection.finished.get(call)
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
        times.started.get(call) or (projection.at if call in projection.started else None),
        projection.at if result is not None else times.finished.get(call),
        config.arguments.seq,
        config.arguments.i,
        result if result is not None else times.results.get(call),
    )


def _component_row(log: str, entity: int, component: Component, find: Find) -> tuple[str, str, str]:
    name = component.name if isinstance(component, RawComponent) else component.component
    if entity == CONVERSATION:
        id_ = log
    elif find(entity, CallConfig) is not None:
        id_ = call_id(log, entity)
    else:
        id_ = turn_id(log, entity)
    body = component.value if isinstance(component, RawComponent) else encode_struct(component)
    return id_, name, bytes(body).decode()
