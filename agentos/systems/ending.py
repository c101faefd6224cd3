"""What several systems share: how a call is finished, where a turn goes after its last call, how it begins to settle."""

from __future__ import annotations

import msgspec

from agentos.components import (
    OPEN_STATUSES,
    CallConfig,
    CallState,
    CallStatus,
    Outcome,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.events.effects import Effect, StopCall, StopTurn
from agentos.events.entry import Change, Draft
from agentos.events.intake import Cancel, Item, WakeReason
from agentos.events.kinds import CallFinished, CallSource
from agentos.ids import ConversationId, Digest, LogId, Micros, Name, call_id
from agentos.world import Alarm, Decision, Post, View

replace = msgspec.structs.replace
RAISED = "system:"
"""Stands before the name of a system that raised, in why a turn ended or never began."""


def open_calls(view: View, state: TurnState) -> list[int]:
    """The calls of the present step that are not finished, and then the inner calls that are not."""
    open_ = [call for call in state.calls if view.get(call, CallState).status in OPEN_STATUSES]
    return [*open_, *state.inner] if state.inner else open_


def inner_of(view: View, state: TurnState, call: int) -> list[int]:
    """The open inner calls that this call asked for itself."""
    return [inner for inner in state.inner if view.get(inner, CallConfig).parent == call]


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
    """The entry at seq that finishes a call, and the turn after it: the last open call moves it on. state may be ahead of
    the view by what the decision has finished already."""
    before = view.find(call, CallState) or CallState(status=CallStatus.PROPOSED)
    call_state = replace(
        before, status=data.status, kind=data.call_kind, waiting=None, finish=data.finish, result=seq, doubted=0
    )
    after = replace(state, resumes=0) if data.source is not CallSource.DECIDED and state.resumes else state
    if call in state.inner:
        data = replace(data, parent=view.get(call, CallConfig).parent)
        after = replace(after, inner=tuple(inner for inner in state.inner if inner != call))
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
    inner = last not in state.calls
    if (last_finishes or inner) and all(c == last or view.get(c, CallState).finish for c in state.calls):
        answer = max(view.get(c, CallState).result for c in state.calls) if inner else seq
        return replace(state, phase=Phase.SETTLING, outcome=Outcome.COMPLETED, answer=answer)
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
            posts.append(cancel_child(view, call, child))
            alarms.append(grace(view, call, grace_s))
    return Decision((draft,), tuple(posts), effects, tuple(alarms))


def cancel_child(view: View, call: int, child: ConversationId) -> Post:
    """Tells the child of a delegation that its answer is not waited for any more."""
    id_ = call_id(view.log, call)
    return Post(LogId(child), f"cancel:{id_}", Cancel(by=Name("parent"), reason=Name("parent"), call=id_))


def grace(view: View, call: int, grace_s: float) -> Alarm:
    """How long the end of a cancelled child is waited for."""
    return Alarm(WakeReason.GRACE.value, view.turn, Micros(view.now + round(grace_s * 1e6)), call)


GONE = "not run: the call that asked for it is over"


def let_go(view: View, state: TurnState, calls: list[int]) -> tuple[Decision, TurnState]:
    """Ends inner calls whose caller ends right after: nobody would read what they bring. Those that have not begun end at
    once, the others are told to, and hold the turn until they have. Also gives the turn after that."""
    drafts: list[Draft] = []
    posts: list[Post] = []
    effects: list[Effect] = []
    alarms: list[Alarm] = []
    for call in calls:
        before = view.get(call, CallState)
        if before.child is not None:
            posts.append(cancel_child(view, call, before.child))
            alarms.append(grace(view, call, view.pinned(view.turn).limits.cancel_grace_s))
        elif before.status is CallStatus.STARTED or before.waiting is Waiting.HOOK:
            effects.append(StopCall(view.log, view.turn, call))
        if not may_end_by_itself(before):
            end, seq = decided(CallStatus.CANCELLED, "not_started"), view.next + len(drafts)
            draft, state = finished_call(view, state, call, end, GONE, others_open=True, seq=seq)
            drafts.append(draft)
    return Decision(tuple(drafts), tuple(posts), tuple(effects), tuple(alarms)), state


def may_end_by_itself(call: CallState) -> bool:
    """It runs here or in a child, or a probe asks what became of it; one that waits for a person does not."""
    return call.status is CallStatus.STARTED or (call.waiting is Waiting.DOUBT and not call.doubted)


def has_slot(state: CallState) -> bool:
    """Whether the call occupies its toolbox: started here, neither delegated nor doubted."""
    return state.status is CallStatus.STARTED and state.child is None and state.waiting is not Waiting.DOUBT


def pinned_digest(view: View) -> Digest:
    return view.get(view.turn, TurnConfig).context
