"""What several systems share: how a call is finished, where a turn goes after its last call, how it begins to settle."""

from __future__ import annotations

import msgspec

from agentos.components import (
    OPEN_STATUSES,
    CallState,
    CallStatus,
    Outcome,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.events.effects import Effect, StopTurn
from agentos.events.entry import Change, Draft
from agentos.events.intake import Cancel, Item, WakeReason
from agentos.events.kinds import CallFinished, CallSource
from agentos.ids import Digest, LogId, Micros, Name, call_id
from agentos.world import Alarm, Decision, Post, View

replace = msgspec.structs.replace


def open_calls(view: View, state: TurnState) -> list[int]:
    """The calls of the present step that are not finished."""
    return [call for call in state.calls if view.get(call, CallState).status in OPEN_STATUSES]


def finished_call(
    view: View,
    state: TurnState,
    call: int,
    data: CallFinished,
    text: str,
    *,
    others_open: bool,
    seq: int,
    whole: str | None = None,
    fed: Item | None = None,
) -> tuple[Draft, TurnState]:
    """The entry at seq that finishes a call, and the turn after it: the last call of a step moves it on."""
    before = view.find(call, CallState) or CallState(status=CallStatus.PROPOSED)
    call_state = replace(before, status=data.status, kind=data.call_kind, waiting=None, finish=data.finish, result=seq)
    after = replace(state, resumes=0) if data.source is not CallSource.DECIDED and state.resumes else state
    if not others_open and state.phase is not Phase.SETTLING:
        after = _after_calls(view, after, call, data.finish, seq)
    changes: tuple[Change, ...] = ((call, call_state),)
    if after is not state:
        changes = (*changes, (view.turn, after))
    private = (("result", text),) if whole is None else (("result", text), ("whole", whole))
    return Draft(data=data, turn=view.turn, call=call, changes=changes, private=private, fed=fed), after


def decided(status: CallStatus, kind: str | None = None) -> CallFinished:
    return CallFinished(status=status, call_kind=Name(kind) if kind else None, source=CallSource.DECIDED)


def _after_calls(view: View, state: TurnState, last: int, last_finishes: bool, seq: int) -> TurnState:
    config = view.get(view.turn, TurnConfig)
    limits = view.pinned(view.turn).limits
    state = replace(state, step_index=state.step_index + 1, attempt=1)
    if last_finishes and all(c == last or view.get(c, CallState).finish for c in state.calls):
        return replace(state, phase=Phase.SETTLING, outcome=Outcome.COMPLETED, answer=seq)
    if config.step_limit is not None and state.step_index >= config.step_limit:
        return _limited(state, "steps")
    if config.call_limit is not None and state.calls_made > config.call_limit:
        return _limited(state, "calls")
    if state.unknown_streak >= limits.unknown_tool_limit:
        return _limited(state, "unknown_tool")
    return replace(state, phase=Phase.PROMPT)


def _limited(state: TurnState, name: str) -> TurnState:
    return replace(state, phase=Phase.SETTLING, outcome=Outcome.LIMIT, outcome_name=Name(name))


def settling(view: View, outcome: Outcome, name: Name | None) -> TurnState:
    """The open turn, on its way to this outcome."""
    state = view.get(view.turn, TurnState)
    return replace(state, phase=Phase.SETTLING, outcome=outcome, outcome_name=name, retry_at=None)


def stopping(view: View, draft: Draft, grace_s: float) -> Decision:
    """The entry that begins to settle the turn, and what ends its started work: effects here, children by a post."""
    turn = view.turn
    state = view.get(turn, TurnState)
    effects: tuple[Effect, ...] = (StopTurn(view.log, turn),)
    posts: list[Post] = []
    alarms: list[Alarm] = []
    for call in open_calls(view, state):
        child = view.get(call, CallState).child
        if child is not None:
            id_ = call_id(view.log, call)
            posts.append(
                Post(LogId(child), f"cancel:{id_}", Cancel(by=Name("parent"), reason=Name("parent"), call=id_))
            )
            alarms.append(Alarm(WakeReason.GRACE.value, turn, Micros(view.now + round(grace_s * 1e6)), call))
    return Decision((draft,), tuple(posts), effects, tuple(alarms))


def has_slot(state: CallState) -> bool:
    """Whether the call occupies its toolbox: started here, neither delegated nor doubted."""
    return state.status is CallStatus.STARTED and state.child is None and state.waiting is not Waiting.DOUBT


def pinned_digest(view: View) -> Digest:
    return view.get(view.turn, TurnConfig).context
