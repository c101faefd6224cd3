"""gate: judges all calls of a reply before any of them starts.

grant -> schema -> hooks -> rules and policy -> approval. A call that may not run gets its result here; a call that needs
a hook or a person waits, and holds the turn in GATE. Inner calls pass the same judgement one by one, while the turn is in
CALL: see `agentos.systems.inner`.
"""

from __future__ import annotations

from typing import Any

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    Phase,
    ToolSpec,
    TurnConfig,
    TurnState,
    Verdict,
    Waiting,
)
from agentos.events.effects import AskHook, Effect
from agentos.events.entry import Draft
from agentos.events.intake import Answer, HookReport, Item, Wake, WakeReason
from agentos.events.kinds import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallProposed,
    CallSource,
    HookDecided,
    ModelFinished,
    WakeFired,
)
from agentos.ids import Address, Micros, Name, Seq, log_and_seq
from agentos.systems.ending import decided, finished_call, open_calls, replace
from agentos.systems.judging import ALLOWED, Judged, find_tool, judged_after_hook, judged_call, over_limit, refused
from agentos.systems.resolve import capped
from agentos.systems.schedule import system
from agentos.world import Alarm, Decision, View
from agentos.world.view import NOTHING

BEFORE_CALL = Name("before_call")


@system(over=TurnState, phase=Phase.GATE)
def gate(view: View, turn: int) -> Decision:
    """GATE -> CALL once every call of the reply is decided on."""
    state = view.get(turn, TurnState)
    if not state.calls:
        return _propose(view, state)
    for item in view.intake:
        decision = said_of(view, state, item)
        if decision is not NOTHING:
            return decision
    return NOTHING


def said_of(view: View, state: TurnState, item: Item) -> Decision:
    """Takes a hook's or a person's word on a call that waits for it, or that the time for it is over; nothing else."""
    if isinstance(item, HookReport):
        return _hook_decided(view, state, item)
    if isinstance(item, Answer):
        return _answered(view, state, item)
    if isinstance(item, Wake) and item.reason is WakeReason.APPROVAL:
        return _expired(view, state, item)
    return NOTHING


def _propose(view: View, state: TurnState) -> Decision:
    """One call.proposed for each call, and at once the results of those that may not run."""
    reply = view.drafts[state.reply - view.first]
    data = reply.data
    assert isinstance(data, ModelFinished)
    context = view.pinned(view.turn)
    offset = len(reply.private) - len(data.calls)
    first = view.next
    judged: list[Judged] = []
    proposals: list[tuple[CallConfig, Verdict]] = []
    streak = state.unknown_streak
    limit = view.get(view.turn, TurnConfig).call_limit
    for ordinal, asked in enumerate(data.calls):
        tool = find_tool(context, asked.tool)
        if limit is not None and state.calls_made + ordinal >= limit:
            verdict = over_limit(limit)
        else:
            verdict = judged_call(context, tool, asked.tool, reply.private[offset + ordinal][1], data.finish)
        streak = streak + 1 if tool is None else 0
        judged.append(verdict)
        proposals.append((_config(state, ordinal, asked.tool, tool, offset + ordinal), verdict.verdict))
    calls = tuple(range(first, first + len(judged)))
    after = replace(state, calls=calls, calls_made=state.calls_made + len(calls), unknown_streak=streak)
    return _write(view, after, proposals, judged)


def _config(state: TurnState, ordinal: int, name: Name, tool: ToolSpec | None, i: int) -> CallConfig:
    address = Address(Seq(state.reply), i)
    if tool is None:
        return CallConfig(turn=0, step=state.step_index, ordinal=ordinal, tool=name, arguments=address)
    return CallConfig(
        turn=0,
        step=state.step_index,
        ordinal=ordinal,
        tool=name,
        arguments=address,
        effect=tool.effect,
        toolbox=tool.toolbox,
        subagent=tool.subagent,
    )


def _write(view: View, state: TurnState, proposals: list[tuple[CallConfig, Verdict]], judged: list[Judged]) -> Decision:
    turn, calls = view.turn, state.calls
    pending = any(j.verdict in (Verdict.ASK, Verdict.HOOK) for j in judged)
    drafts: list[Draft] = []
    for call, (config, verdict), j in zip(calls, proposals, judged, strict=True):
        waiting = WAITING_FOR.get(verdict)
        call_state = CallState(status=CallStatus.WAITING if waiting else CallStatus.PROPOSED, waiting=waiting)
        changes: tuple[Any, ...] = ((call, replace(config, turn=turn)), (call, call_state))
        if call == calls[-1]:
            state = replace(state, phase=Phase.GATE if pending else Phase.CALL)
            changes = (*changes, (turn, state))
        drafts.append(Draft(data=CallProposed(verdict=j.verdict), turn=turn, call=call, changes=changes))
    effects: list[Effect] = []
    alarms: list[Alarm] = []
    for call, (config, verdict) in zip(calls, proposals, strict=True):
        if verdict is Verdict.HOOK:
            effects.append(AskHook(view.log, turn, call, BEFORE_CALL, config.tool, config.arguments))
        elif verdict is Verdict.ASK:
            drafts.append(Draft(data=ApprovalRequested(tool=config.tool), turn=turn, call=call))
            alarms.extend(expiry(view, call))
    drafts.extend(_results(view, state, calls, judged, view.next + len(drafts), pending))
    return Decision(tuple(drafts), effects=tuple(effects), alarms=tuple(alarms))


def _results(
    view: View, state: TurnState, calls: tuple[int, ...], judged: list[Judged], seq: int, pending: bool
) -> list[Draft]:
    denied = [(call, j) for call, j in zip(calls, judged, strict=True) if j.verdict is Verdict.DENY]
    all_denied = len(denied) == len(calls)
    drafts = []
    for n, (call, j) in enumerate(denied):
        last = all_denied and n == len(denied) - 1
        draft, state = finished_call(
            view, state, call, decided(j.status, j.kind), j.text, others_open=not last, seq=seq + n
        )
        drafts.append(draft)
    return drafts


WAITING_FOR = {Verdict.HOOK: Waiting.HOOK, Verdict.ASK: Waiting.APPROVAL}


def expiry(view: View, call: int) -> tuple[Alarm, ...]:
    """When a person's answer is not waited for any more."""
    wait_s = view.pinned(view.turn).limits.approval_s
    if wait_s is None:
        return ()
    return (Alarm(WakeReason.APPROVAL.value, view.turn, Micros(view.now + round(wait_s * 1e6)), call),)


def _hook_decided(view: View, state: TurnState, item: HookReport) -> Decision:
    call_state = view.find(item.call, CallState)
    if call_state is None or call_state.waiting is not Waiting.HOOK:
        return Decision(dropped=(item,))
    config = view.get(item.call, CallConfig)
    context = view.pinned(view.turn)
    private: tuple[tuple[str, Any], ...] = (("reason", item.reason),)
    if item.arguments is not None:
        private = (("arguments", item.arguments), *private)
        config = replace(config, arguments=Address(Seq(view.next), 0))
    judged = judged_after_hook(context, config, item, view)
    draft = Draft(
        data=HookDecided(point=item.point, verdict=item.verdict, given=judged.given is not None),
        turn=view.turn,
        call=item.call,
        private=private,
        fed=item,
        by=item.by,
    )
    changes = ((item.call, config),) if item.arguments is not None else ()
    return _decide(view, state, item.call, draft, judged, changes)


def _answered(view: View, state: TurnState, item: Answer) -> Decision:
    call = log_and_seq(item.call)[1]
    call_state = view.find(call, CallState)
    if call_state is None or call_state.waiting is not Waiting.APPROVAL:
        return Decision(dropped=(item,))
    allowed = item.verdict is Verdict.ALLOW
    draft = Draft(
        data=ApprovalDecided(verdict=Verdict.ALLOW if allowed else Verdict.DENY),
        turn=view.turn,
        call=call,
        private=(("reason", item.reason),),
        fed=item,
        by=item.by,
    )
    why = f": {item.reason}" if item.reason else ""
    return _decide(view, state, call, draft, ALLOWED if allowed else refused("approval", f"not run: denied{why}"))


def _expired(view: View, state: TurnState, item: Wake) -> Decision:
    call_state = view.find(item.call, CallState)
    if call_state is None or call_state.waiting is not Waiting.APPROVAL:
        return Decision(dropped=(item,))
    draft = Draft(data=WakeFired(reason=item.reason, call=item.call), turn=view.turn, call=item.call, fed=item)
    return _decide(view, state, item.call, draft, refused("approval", "not run: nobody answered in time"))


def _decide(
    view: View, state: TurnState, call: int, draft: Draft, judged: Judged, changes: tuple[Any, ...] = ()
) -> Decision:
    """The entry of a decision on a waiting call; the last one lets the allowed calls of the reply go."""
    turn = view.turn
    waiting = WAITING_FOR.get(judged.verdict)
    call_state = CallState(status=CallStatus.WAITING if waiting else CallStatus.PROPOSED, waiting=waiting)
    changes = (*changes, (call, call_state))
    others = [c for c in open_calls(view, state) if c != call]
    held = waiting is not None or any(view.get(c, CallState).waiting is not None for c in others)
    if not held and state.phase is Phase.GATE:
        state = replace(state, phase=Phase.CALL)
        changes = (*changes, (turn, state))
    draft.changes = changes
    drafts = [draft]
    alarms: tuple[Alarm, ...] = ()
    if judged.verdict is Verdict.ASK:
        tool = view.get(call, CallConfig).tool
        drafts.append(Draft(data=ApprovalRequested(tool=tool), turn=turn, call=call))
        alarms = expiry(view, call)
    elif judged.verdict is Verdict.DENY:
        end, text, whole = _end_of(view, judged)
        seq = view.next + 1
        result, _ = finished_call(view, state, call, end, text, others_open=bool(others), seq=seq, whole=whole)
        result.by = draft.by if judged.given is not None else result.by
        drafts.append(result)
    return Decision(tuple(drafts), alarms=alarms)


def _end_of(view: View, judged: Judged) -> tuple[CallFinished, str, str | None]:
    """How a call ends that does not run, what is shown of its result, and the whole of it when that is more."""
    given = judged.given
    if given is None:
        return decided(judged.status, judged.kind), judged.text, None
    end = CallFinished(status=given.status, call_kind=given.kind, source=CallSource.HOOK, finish=given.finish)
    shown = capped(given.text, view.pinned(view.turn).limits.result_chars)
    return end, shown, given.text if shown != given.text else None
