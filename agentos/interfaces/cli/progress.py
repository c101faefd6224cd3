"""What an open turn is doing, in one line, told from the World."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentos.components import (
    OPEN_STATUSES,
    CallConfig,
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.ids import ConversationId, LogId, Micros, call_id, turn_id
from agentos.interfaces.cli.output import counted
from agentos.kernel import Kernel

TOOLS_SHOWN_MAX = 3


class _Open(NamedTuple):
    """An open turn of a conversation of the tree."""

    log: LogId
    config: TurnConfig
    state: TurnState


def progress_of(kernel: Kernel, conversation: ConversationId) -> str:
    """Step, what runs or is waited for, seconds, tokens, and subagents as a number; empty when no turn is open."""
    root = _open_turn(kernel, LogId(conversation))
    if root is None:
        return ""
    below = _children(kernel, conversation)
    now = kernel.clock.now()
    facts = [
        f"step {root.state.step_index + 1}",
        _doing(kernel, root, now),
        f"{max(0, now - root.config.started_at) // 1_000_000} s",
        _tokens([root, *below]),
        *([_subagents(kernel, below, now)] if below else []),
    ]
    return " · ".join(fact for fact in facts if fact)


def tree_of(kernel: Kernel, conversation: ConversationId) -> set[LogId]:
    """The loaded conversations of the same tree of delegations, itself included."""
    own = kernel.world.get(conversation, ConversationConfig)
    if own is None:
        return {LogId(conversation)}
    return {LogId(id_) for id_, _ in kernel.world.find(ConversationConfig, root=own.root)}


def _children(kernel: Kernel, conversation: ConversationId) -> list[_Open]:
    """Open turns below; those of a reused conversation may serve somebody else of the tree."""
    logs = sorted(tree_of(kernel, conversation) - {LogId(conversation)})
    return [turn for log in logs if (turn := _open_turn(kernel, log)) is not None]


def _open_turn(kernel: Kernel, log: LogId) -> _Open | None:
    conversation = kernel.world.get(log, ConversationState)
    if conversation is None or not conversation.open_turn:
        return None
    id_ = turn_id(log, conversation.open_turn)
    config, state = kernel.world.get(id_, TurnConfig), kernel.world.get(id_, TurnState)
    return _Open(log, config, state) if config is not None and state is not None else None


def _doing(kernel: Kernel, turn: _Open, now: Micros) -> str:
    state = turn.state
    if state.phase is Phase.SETTLING:
        return "ending"
    if state.retry_at is not None:
        return f"model busy, again in {max(0, state.retry_at - now) / 1e6:.0f} s"
    calls = list(_open_calls(kernel, turn))
    if not calls:
        return "asking the model"
    shown = [f"{config.tool} {_word(call)}" for config, call in calls[:TOOLS_SHOWN_MAX]]
    more = [f"{len(calls) - TOOLS_SHOWN_MAX} more"] if len(calls) > TOOLS_SHOWN_MAX else []
    return ", ".join([*shown, *more])


def _open_calls(kernel: Kernel, turn: _Open) -> Iterator[tuple[CallConfig, CallState]]:
    for seq in (*turn.state.calls, *turn.state.inner):
        id_ = call_id(turn.log, seq)
        config, state = kernel.world.get(id_, CallConfig), kernel.world.get(id_, CallState)
        if config is not None and state is not None and state.status in OPEN_STATUSES:
            yield config, state


def _word(call: CallState) -> str:
    if call.doubted:
        return "in doubt, waiting for a person"
    return "running" if call.status is CallStatus.STARTED else _WAITS.get(call.waiting, "waiting")


_WAITS: dict[Waiting | None, str] = {
    Waiting.APPROVAL: "waiting for approval",
    Waiting.HOOK: "waiting for a hook",
    Waiting.DOUBT: "in doubt",
}


def _subagents(kernel: Kernel, below: list[_Open], now: Micros) -> str:
    """How many, and what the one does that began last."""
    last = max(below, key=lambda turn: turn.config.started_at)
    config = kernel.world.get(last.log, ConversationConfig)
    name = config.slug if config is not None else last.log
    return f"{counted(len(below), 'subagent')}, {name}: {_doing(kernel, last, now)}"


def _tokens(turns: list[_Open]) -> str:
    taken = sum(turn.state.input_tokens for turn in turns), sum(turn.state.output_tokens for turn in turns)
    return "{}+{} tokens".format(*taken) if any(taken) else ""
