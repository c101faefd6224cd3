"""A conversation as it stood after any of its entries: its state, the open turn, the calls, and what the model would see.

It is loaded as a kernel loads it: from the last snapshot before that entry, so that a long log costs no more than its
window and the entries since.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import (
    CallConfig,
    CallState,
    ConversationConfig,
    ConversationState,
    TurnConfig,
    TurnState,
)
from agentos.errors import ConfigurationError
from agentos.events.entry import ERASED, Registry, decode_head
from agentos.history.lineage.versions import Versions
from agentos.history.reading import conversation_row
from agentos.ids import CONVERSATION, CallId, ConversationId, TurnId, call_id, turn_id
from agentos.journal import load_log
from agentos.persistence.base import Store
from agentos.world import Slice
from agentos.world.transcript import ERASED_TEXT


class StandingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The open turn, or the last one that had ended. step counts finished steps, attempt tries of the model call.

    version names the version of the agent that it ran with; outcome is None while it is open. Times in microseconds, UTC.
    """

    id: TurnId
    seq: int
    phase: str
    version: str
    step: int
    step_limit: int | None
    attempt: int
    calls: int
    input_tokens: int
    output_tokens: int
    started_at: int
    deadline_at: int | None
    outcome: str | None
    outcome_name: str | None


class StandingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of that turn. waiting says what an open one waits for; parent is the seq of the call that asked for it."""

    id: CallId
    seq: int
    tool: str
    status: str
    kind: str | None
    attempt: int
    waiting: str | None
    child: str | None
    parent: int | None
    started_at: int | None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation after the entry at seq. at is its time, in microseconds, UTC.

    unit_end is the seq of the end of its unit; when that is another seq, this is what the unit had come to, which nobody
    ever saw. waiting are inputs that no turn had taken, by seq; messages those of the context window, as plain data.
    snapshot is the seq that it was loaded from, 0 for the beginning; folded counts the entries that were folded since.
    """

    conversation: ConversationId
    seq: int
    at: int
    unit_end: int
    agent: str
    tenant: str | None
    state: str
    turns: int
    steps: int
    calls_made: int
    input_tokens: int
    output_tokens: int
    turn: StandingTurn | None
    calls: tuple[StandingCall, ...]
    waiting: tuple[tuple[int, str], ...]
    messages: list[dict[str, Any]]
    snapshot: int
    folded: int


async def standing_at(store: Store, conversation: str, seq: int, *, registry: Registry | None = None) -> Standing:
    """The conversation after that entry.

    Errors: UnknownConversation; ConfigurationError for a seq that it has not; StoreDamaged when an entry is missing;
    CodecError when one cannot be read; StoreError.
    """
    row = await conversation_row(store, conversation)
    if not 1 <= seq <= row.seq:
        raise ConfigurationError(f"{row.id} has no entry {seq}; it has 1 to {row.seq}")
    folded = await load_log(store, row.id, registry or Registry(), upto=seq)
    slice_ = folded.slice
    (entry,) = await store.entries(row.id, seq - 1, seq)
    config, state = slice_.get(CONVERSATION, ConversationConfig), slice_.get(CONVERSATION, ConversationState)
    state = state or ConversationState()
    turn = await _turn(store, slice_, state.open_turn or state.last_turn)
    return Standing(
        conversation=ConversationId(row.id),
        seq=seq,
        at=decode_head(entry.head).at,
        unit_end=await _unit_end(store, row.id, seq, entry.unit),
        agent=config.slug if config is not None else "",
        tenant=config.tenant if config is not None else None,
        state=folded.times.shown,
        turns=state.turns,
        steps=state.steps,
        calls_made=state.calls,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        turn=turn,
        calls=_calls(slice_, turn.seq) if turn is not None else (),
        waiting=tuple((waiting.seq, _text(slice_.bodies.get((waiting.seq, 0), ""))) for waiting in state.waiting),
        messages=[msgspec.to_builtins(message) for message in slice_.transcript.messages],
        snapshot=folded.snapshot,
        folded=seq - folded.snapshot,
    )


async def _turn(store: Store, slice_: Slice, seq: int) -> StandingTurn | None:
    config, state = slice_.get(seq, TurnConfig), slice_.get(seq, TurnState)
    if not seq or config is None or state is None:
        return None
    return StandingTurn(
        id=turn_id(slice_.log, seq),
        seq=seq,
        phase=state.phase.value,
        version=await Versions(store).of(config.context),
        step=state.step_index,
        step_limit=config.step_limit,
        attempt=state.attempt,
        calls=state.calls_made,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        started_at=config.started_at,
        deadline_at=config.deadline_at,
        outcome=state.outcome.value if state.outcome is not None else None,
        outcome_name=state.outcome_name,
    )


def _calls(slice_: Slice, turn: int) -> tuple[StandingCall, ...]:
    found = []
    for seq in sorted(slice_.rows):
        config, state = slice_.get(seq, CallConfig), slice_.get(seq, CallState)
        if config is not None and state is not None and config.turn == turn:
            found.append(_call(slice_, seq, config, state))
    return tuple(found)


def _call(slice_: Slice, seq: int, config: CallConfig, state: CallState) -> StandingCall:
    return StandingCall(
        id=call_id(slice_.log, seq),
        seq=seq,
        tool=config.tool,
        status=state.status.value,
        kind=state.kind,
        attempt=state.attempt,
        waiting=state.waiting.value if state.waiting is not None else None,
        child=state.child,
        parent=config.parent,
        started_at=state.started_at,
    )


async def _unit_end(store: Store, log: str, seq: int, unit: int) -> int:
    """The seq of the last entry of a unit; snapshots and replies may make one long."""
    end = seq
    while True:
        page = await store.entries(log, end, limit=16)
        for entry in page:
            if entry.unit != unit:
                return end
            end = entry.seq
        if not page:
            return end


def _text(value: Any) -> str:
    return ERASED_TEXT if value is ERASED else str(value)
