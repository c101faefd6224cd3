"""What came back from outside, as the entries tell it: replies of models, ends of calls, results that were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.components import CallState, GivenEnd
from agentos.events.entry import Entry
from agentos.events.intake import CallReport, ChildEnded, Given, Item, ModelReport, Probed
from agentos.events.kinds import CallFinished, CallSource, ChildLate, ModelFinished
from agentos.events.model import Finish, ModelReply, ToolCall
from agentos.ids import Name, call_id


def model_report(entry: Entry, data: ModelFinished) -> Item | None:
    if data.finish is Finish.LOST:
        return None
    return ModelReport(
        turn=entry.turn,
        base_seq=0,
        reply=reply_in(entry, data),
        error=data.error,
        message=dict(entry.private).get("error", ""),
        retry_after_s=data.retry_after_s,
    )


def reply_in(entry: Entry, data: ModelFinished) -> ModelReply:
    """What the model said."""
    private = dict(entry.private)
    arguments = [value for name, value in entry.private if name == "arguments"]
    calls = tuple(
        ToolCall(asked.tool, given, asked.id or "") for asked, given in zip(data.calls, arguments, strict=True)
    )
    return ModelReply(
        private["text"],
        calls,
        data.finish,
        data.usage,
        private.get("thinking", ""),
        private.get("opaque"),
        data.kept_for or "",
        data.model or "",
        data.response or "",
        data.finish_word or "",
    )


def call_ended(entry: Entry, data: CallFinished) -> Item | None:
    text = entry.private[0][1]
    if data.source in (CallSource.DECIDED, CallSource.HOOK, CallSource.REPLACED, CallSource.ORIGIN):
        return None
    if data.source is CallSource.PROBE:
        return Probed(call=entry.call, status=data.status, text=text)
    if data.source is CallSource.CHILD:
        return child_ended(entry, data, text)
    state = next(value for entity, value in entry.changes if entity == entry.call and isinstance(value, CallState))
    return CallReport(
        call=entry.call,
        attempt=state.attempt,
        status=data.status,
        text=text,
        kind=data.call_kind,
        whole=dict(entry.private).get("whole"),
        finish=data.finish,
    )


def child_ended(entry: Entry, data: CallFinished | ChildLate, text: Any) -> Item:
    assert data.outcome is not None, "the end of a child names its outcome"
    return ChildEnded(
        call=call_id(entry.log, entry.call),
        outcome=data.outcome,
        outcome_name=data.outcome_name,
        text=text,
        child_head=data.child_head or Name(""),
        children_used=data.children_used,
    )


def given_in(entries: Sequence[Entry]) -> tuple[Given, ...]:
    return tuple(
        Given(
            call=entry.call,
            text=dict(entry.private).get("whole", entry.private[0][1]),
            replaced=data.source is CallSource.REPLACED,
            status=data.status,
            kind=data.call_kind,
        )
        for entry in entries
        if isinstance(data := entry.data, CallFinished) and data.source in (CallSource.REPLACED, CallSource.ORIGIN)
    )


def given_by_hook(entries: Sequence[Entry], call: int) -> GivenEnd | None:
    """The result that a hook had for a call; None where a rule denied the call all the same."""
    for entry in entries:
        data = entry.data
        if isinstance(data, CallFinished) and data.source is CallSource.HOOK and entry.call == call:
            text = dict(entry.private).get("whole", entry.private[0][1])
            return GivenEnd(text=text, status=data.status, kind=data.call_kind, finish=data.finish)
    return None
