"""settle: waits for started work to end, gives every open call its one result, and ends the turn."""

from __future__ import annotations

from agentos.components import (
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    Phase,
    TurnConfig,
    TurnState,
)
from agentos.events.entry import ERASED, Draft
from agentos.events.intake import (
    CallReport,
    ChildEnded,
    HookReport,
    InnerCall,
    ModelReport,
    Probed,
    Progress,
    Wake,
    WakeReason,
)
from agentos.events.kinds import TurnFinished
from agentos.ids import CONVERSATION, CallId, log_and_seq
from agentos.systems.ending import decided, finished_call, may_end_by_itself, open_calls, replace
from agentos.systems.reports import call_ended, grace_over, reply_draft
from agentos.systems.resolve import why_in_doubt
from agentos.systems.schedule import system
from agentos.world import Decision, Post, View
from agentos.world.view import NOTHING

NOT_STARTED = "not started: the turn was ended ({})"


@system(over=TurnState, phase=Phase.SETTLING)
def settle(view: View, turn: int) -> Decision:
    """SETTLING -> SETTLED once nothing is open."""
    state = view.get(turn, TurnState)
    open_ = open_calls(view, state)
    decision = _take_reports(view, state)
    if decision is not NOTHING:
        return decision
    not_started = [call for call in open_ if not may_end_by_itself(view.get(call, CallState))]
    if not_started:
        return _close(view, state, not_started)
    if open_ or state.requested:
        return NOTHING
    return finish_turn(view, state)


def _close(view: View, state: TurnState, calls: list[int]) -> Decision:
    why = NOT_STARTED.format(state.outcome_name or (state.outcome and state.outcome.value))
    drafts = []
    for seq, call in enumerate(calls, view.next):
        data, text = decided(CallStatus.CANCELLED, "not_started"), why
        if (before := view.get(call, CallState)).doubted:
            data, text = decided(CallStatus.UNKNOWN), why_in_doubt(view, before)
        draft, state = finished_call(view, state, call, data, text, others_open=True, seq=seq)
        drafts.append(draft)
    return Decision(tuple(drafts))


def _take_reports(view: View, state: TurnState) -> Decision:
    """What is still running may end in any way; each end is recorded, and moves nothing but the ending."""
    for item in view.intake:
        if isinstance(item, ModelReport):
            stale = item.base_seq != state.requested
            return Decision(dropped=(item,)) if stale else Decision((reply_draft(view, item, state),))
        if isinstance(item, (CallReport, ChildEnded, Probed)):
            return call_ended(view, state, item, others_open=True)
        if isinstance(item, (HookReport, InnerCall, Progress)):
            return Decision(dropped=(item,))
        if isinstance(item, Wake) and item.reason is WakeReason.GRACE:
            return grace_over(view, state, item, others_open=True)
    return NOTHING


def finish_turn(view: View, state: TurnState) -> Decision:
    """The last entry of a turn, and the news of it for the calls that wait for its answer."""
    turn = view.turn
    config = view.get(turn, TurnConfig)
    conversation = view.get(CONVERSATION, ConversationState)
    after = replace(state, phase=Phase.SETTLED)
    changes = (
        (
            CONVERSATION,
            replace(
                conversation,
                open_turn=0,
                last_turn=turn,
                turns=conversation.turns + 1,
                steps=conversation.steps + state.step_index,
                calls=conversation.calls + state.calls_made,
                input_tokens=conversation.input_tokens + state.input_tokens,
                output_tokens=conversation.output_tokens + state.output_tokens,
            ),
        ),
        (turn, after),
    )
    posts = tuple(
        Post(log_and_seq(cause)[0], f"end:{cause}", _end(view, after, cause, conversation.children_used), end=True)
        for cause in config.causes
    )
    return Decision((Draft(data=TurnFinished(), turn=turn, changes=changes),), posts)


def _end(view: View, state: TurnState, cause: CallId, used: int) -> ChildEnded:
    config = view.get(CONVERSATION, ConversationConfig)
    assert state.outcome is not None
    return ChildEnded(
        call=cause,
        outcome=state.outcome,
        outcome_name=state.outcome_name,
        text=answer_text(view, state),
        children_used=used + 1 if config.parent_call == cause else 0,
    )


def answer_text(view: View, state: TurnState) -> str:
    """What a delegating agent reads: the answer, or why there is none."""
    if state.answer:
        text = view.body(state.answer, 0)
        return "(erased)" if text is ERASED else str(text)
    assert state.outcome is not None
    name = f"({state.outcome_name})" if state.outcome_name else ""
    slug = view.get(CONVERSATION, ConversationConfig).slug
    return f"agent {slug} ended without an answer: {state.outcome.value}{name}"
