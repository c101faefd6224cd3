"""From a report of something outside to the entry that records it."""

from __future__ import annotations

from agentos.components import CallState, CallStatus, ConversationState, Outcome, Phase, TurnState, Waiting
from agentos.events.entry import Draft
from agentos.events.intake import CallReport, ChildEnded, ModelReport, Probed, Wake
from agentos.events.kinds import AskedCall, CallFinished, CallSource, ModelFinished, WakeFired
from agentos.ids import CONVERSATION, Name, log_and_seq, name_of
from agentos.systems.ending import decided, finished_call, inner_of, let_go, open_calls, replace
from agentos.world import Decision, View
from agentos.world.view import NOTHING

UNKNOWN_CHILD = "the other agent had not ended in time; what it did meanwhile is unknown"


def reply_draft(view: View, report: ModelReport, after: TurnState) -> Draft:
    """The entry for a report, with the turn's counters brought up to date."""
    reply = report.reply
    data = ModelFinished(
        finish=reply.finish,
        usage=reply.usage,
        calls=tuple(AskedCall(name_of(call.name), _name(call.id)) for call in reply.calls),
        error=report.error,
        retry_after_s=report.retry_after_s,
        kept_for=_name(reply.kept_for),
        model=_name(reply.model),
        response=_name(reply.response),
        finish_word=_name(reply.finish_word),
    )
    private = [("text", reply.text)]
    if reply.thinking:
        private.append(("thinking", reply.thinking))
    if report.message:
        private.append(("error", report.message))
    if reply.opaque is not None:
        private.append(("opaque", reply.opaque))
    private.extend(("arguments", call.arguments) for call in reply.calls)
    after = replace(
        after,
        requested=0,
        input_tokens=after.input_tokens + reply.usage.input_tokens,
        output_tokens=after.output_tokens + reply.usage.output_tokens,
    )
    return Draft(data=data, turn=view.turn, changes=((view.turn, after),), private=tuple(private), fed=report)


def _name(text: str) -> Name | None:
    return name_of(text) if text else None


def call_ended(view: View, state: TurnState, item: CallReport | ChildEnded | Probed, *, others_open: bool) -> Decision:
    """The entry for the end of a started call; dropped when the call is not open, or it is of an earlier attempt."""
    call = log_and_seq(item.call)[1] if isinstance(item, ChildEnded) else item.call
    before = view.find(call, CallState)
    stale = before is None or before.status not in (CallStatus.STARTED, CallStatus.WAITING)
    if before is not None and isinstance(item, Probed):
        stale = before.waiting is not Waiting.DOUBT or bool(before.doubted)
    if stale or (isinstance(item, CallReport) and before is not None and before.attempt != item.attempt):
        return Decision(dropped=(item,))
    first = NOTHING
    if state.inner and state.phase is Phase.CALL:
        first, state = let_go(view, state, inner_of(view, state, call))
        others_open = any(other != call for other in open_calls(view, state))
    data, text, whole = _end_of(item)
    seq = view.next + len(first.drafts)
    draft, _ = finished_call(view, state, call, data, text, others_open=others_open, seq=seq, whole=whole, fed=item)
    if isinstance(item, ChildEnded):
        draft = _with_refund(view, draft, call, item.children_used)
    return Decision((draft,)) if first is NOTHING else replace(first, drafts=(*first.drafts, draft))


def grace_over(view: View, state: TurnState, item: Wake, *, others_open: bool) -> Decision:
    """A cancelled child has not ended in time: what it did is unknown, and its call is finished without it."""
    call = view.find(item.call, CallState)
    if item.turn != view.turn or call is None or call.status is not CallStatus.STARTED:
        return Decision(dropped=(item,))
    fired = Draft(data=WakeFired(reason=item.reason, call=item.call), turn=view.turn, call=item.call, fed=item)
    unknown, seq = decided(CallStatus.UNKNOWN, "child_grace"), view.next + 1
    end, _ = finished_call(view, state, item.call, unknown, UNKNOWN_CHILD, others_open=others_open, seq=seq)
    return Decision((fired, end))


def _end_of(item: CallReport | ChildEnded | Probed) -> tuple[CallFinished, str, str | None]:
    if isinstance(item, CallReport):
        data = CallFinished(status=item.status, call_kind=item.kind, finish=item.finish)
        return data, item.text, item.whole
    if isinstance(item, Probed):
        return CallFinished(status=item.status, source=CallSource.PROBE), item.text, None
    done = item.outcome in (Outcome.COMPLETED, Outcome.TRUNCATED)
    cancelled = item.outcome is Outcome.CANCELLED
    data = CallFinished(
        status=CallStatus.DONE if done else CallStatus.CANCELLED if cancelled else CallStatus.FAILED,
        call_kind=None if done else Name(f"child:{item.outcome_name or item.outcome.value}"),
        source=CallSource.CHILD,
        child_head=item.child_head,
        outcome=item.outcome,
        outcome_name=item.outcome_name,
        children_used=item.children_used,
    )
    return data, item.text, None


def _with_refund(view: View, draft: Draft, call: int, used: int) -> Draft:
    """What the child did not use of its part of the children budget comes back to its parent."""
    refund = view.get(call, CallState).granted - used
    if refund > 0:
        state = view.get(CONVERSATION, ConversationState)
        after = replace(state, children_used=state.children_used - refund)
        draft.changes = (*draft.changes, (CONVERSATION, after))
    return draft
