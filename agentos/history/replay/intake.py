"""From the fed entries of a unit back to the intake of its pass.

Each fed entry records one item. Variants that a system decided by itself are no intake: a request lost in a crash, a
call's end that no report brought, a turn that a raising system ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentos.components import CallConfig, CallStatus, ConversationConfig, ConversationState, Narrowing, TurnConfig
from agentos.events.entry import Entry
from agentos.events.intake import (
    Answer,
    Branch,
    Cancel,
    ControlItem,
    Delegate,
    Erase,
    HookReport,
    InnerCall,
    Input,
    Item,
    ModelReport,
    Probed,
    Progress,
    Resolve,
    ResourceNote,
    Resume,
    Start,
    Wake,
)
from agentos.events.kinds import (
    CONTROLS,
    ApprovalDecided,
    CallDoubted,
    CallFinished,
    CallNested,
    CallProgress,
    CallResolved,
    ChildLate,
    ConversationForked,
    ConversationStarted,
    EntryData,
    HookDecided,
    InputReceived,
    ModelFinished,
    PayloadErased,
    ResourceNoted,
    TurnCancelling,
    TurnResumed,
    WakeFired,
)
from agentos.history.replay.ends import call_ended, child_ended, given_by_hook, given_in, model_report
from agentos.ids import AgentId, CallId, ConversationId, Name, call_id

replace = msgspec.structs.replace


def intake_of(entries: Sequence[Entry], requested: int) -> list[Item]:
    """What the pass took, in the order in which it took it; empty for a pass that only a freed slot woke.

    requested is the seq of the model request that was open before: the one that a reply among the entries answers.
    """
    items: list[Item] = []
    start: Start | None = None
    for entry in entries:
        if isinstance(entry.data, ConversationStarted):
            start = _start(entry, entry.data)
            if start.parent is None:
                items.append(start)
            continue
        make = _MAKE.get(type(entry.data))
        item = make(entry, entry.data) if make is not None else None
        if isinstance(item, Delegate) and start is not None:
            item = replace(item, start=start)
        elif isinstance(item, ModelReport):
            item = replace(item, base_seq=requested)
        elif isinstance(item, Resume) and item.branch is not None:
            item = replace(item, branch=replace(item.branch, given=given_in(entries)))
        elif isinstance(item, HookReport) and isinstance(entry.data, HookDecided) and entry.data.given:
            item = replace(item, given=given_by_hook(entries, item.call))
        if item is not None:
            items.append(item)
    return items


def _start(entry: Entry, data: ConversationStarted) -> Start:
    config = next(value for _, value in entry.changes if isinstance(value, ConversationConfig))
    return Start(
        agent=config.agent,
        slug=config.slug,
        root=config.root,
        parent=config.parent,
        parent_call=config.parent_call,
        depth=config.depth,
        children_budget=config.children_budget,
        key=data.key,
        by=entry.by,
        tenant=config.tenant,
    )


def _input(entry: Entry, data: InputReceived) -> Item:
    """A task that came to a conversation which had begun does not look at who would have begun it."""
    text = entry.private[0][1]
    if entry.cause is None or data.key is not None or data.ephemeral:
        return Input(text=text, key=data.key, by=entry.by, cause=entry.cause, ephemeral=data.ephemeral)
    nobody = Start(agent=AgentId(""), slug=Name(""), root=ConversationId(entry.log))
    return Delegate(start=nobody, text=text, call=entry.cause, narrowing=_narrowing(entry))


def _narrowing(entry: Entry) -> Narrowing | None:
    state = next((value for _, value in entry.changes if isinstance(value, ConversationState)), None)
    return state.waiting[-1].narrowing if state is not None and state.waiting else None


def _branch(entry: Entry) -> Branch:
    """What a fork has of its own; what is given with it stands in entries of their own."""
    config = next(value for _, value in entry.changes if isinstance(value, ConversationConfig))
    pinned = next((value.context for _, value in entry.changes if isinstance(value, TurnConfig)), None)
    return Branch(root=config.root, agent=config.agent, slug=config.slug, context=pinned)


def _inner_call(entry: Entry, data: CallNested) -> Item:
    config = next(value for _, value in entry.changes if isinstance(value, CallConfig))
    assert config.parent is not None, "an inner call names the call that asked for it"
    return InnerCall(
        call=config.parent,
        attempt=data.attempt,
        index=config.ordinal,
        tool=config.tool,
        arguments=entry.private[0][1],
    )


def _hook_report(entry: Entry, data: HookDecided) -> Item:
    private = dict(entry.private)
    return HookReport(
        call=entry.call,
        point=data.point,
        verdict=data.verdict,
        by=entry.by,
        arguments=private.get("arguments"),
        reason=private["reason"],
    )


def _cancel(entry: Entry, data: TurnCancelling) -> Item | None:
    if data.decided:
        return None
    return Cancel(by=entry.by, reason=data.reason, call=CallId(data.call) if data.call is not None else None)


def _answer(entry: Entry, data: ApprovalDecided) -> Item:
    return Answer(call=call_id(entry.log, entry.call), verdict=data.verdict, by=entry.by, reason=entry.private[0][1])


def _doubted(entry: Entry, data: CallDoubted) -> Item | None:
    """That a tool cannot tell was reported; that it is asked was decided."""
    if not data.probed:
        return None
    return Probed(call=entry.call, status=CallStatus.UNKNOWN, text=entry.private[0][1])


def _noted(entry: Entry, data: ResourceNoted) -> Item | None:
    if data.decided:
        return None
    return ResourceNote(
        call=entry.call, what=data.what, resource=data.resource, of=data.of, ms=data.ms, cycle=data.cycle
    )


def _resolve(entry: Entry, data: CallResolved) -> Item:
    private = dict(entry.private)
    return Resolve(
        call=call_id(entry.log, entry.call),
        attempt=data.attempt,
        resolution=data.resolution,
        tool=data.tool,
        asked=private["asked"],
        by=entry.by,
        result=private.get("result"),
        reason=private.get("reason", ""),
    )


_MAKE: dict[type[EntryData], Callable[[Entry, Any], Item | None]] = {
    InputReceived: _input,
    ModelFinished: model_report,
    CallDoubted: _doubted,
    CallFinished: call_ended,
    CallNested: _inner_call,
    HookDecided: _hook_report,
    ApprovalDecided: _answer,
    CallResolved: _resolve,
    ResourceNoted: _noted,
    CallProgress: lambda entry, data: Progress(call=entry.call, data=entry.private[0][1]),
    TurnCancelling: _cancel,
    WakeFired: lambda entry, data: Wake(reason=data.reason, turn=entry.turn, call=data.call),
    TurnResumed: lambda entry, data: Resume(n=data.n, fork=data.fork, branch=_branch(entry) if data.held else None),
    ConversationForked: lambda entry, data: Resume(fork=True, branch=_branch(entry)),
    **{
        kind: lambda entry, _data, control=control: ControlItem(control=control, by=entry.by)  # type: ignore[misc]
        for control, kind in CONTROLS.items()
    },
    PayloadErased: lambda entry, data: Erase(upto=data.upto, bodies=data.bodies, reason=data.reason, by=entry.by),
    ChildLate: lambda entry, data: child_ended(entry, data, entry.private[0][1]),
}

TOLD_BY = frozenset({ConversationStarted.kind, *(kind.kind for kind in _MAKE)})
"""The kinds of entries that `intake_of` looks at; it needs no others."""
