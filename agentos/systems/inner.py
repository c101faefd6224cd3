"""Inner calls: calls that a running call asks for itself, while its turn is in CALL.

They pass the same judgement as the calls of a reply, one by one, and count in calls_made. Their results go to the tool that
asked, never to the model. A call takes its open inner calls along when it ends: see `let_go`.
"""

from __future__ import annotations

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    EffectClass,
    TurnConfig,
    TurnLimits,
    TurnState,
    Verdict,
)
from agentos.events.effects import AskHook
from agentos.events.entry import Draft
from agentos.events.intake import InnerCall
from agentos.events.kinds import ApprovalRequested, CallFinished, CallNested, CallSource
from agentos.events.model import Finish
from agentos.ids import Address, Name, Seq
from agentos.systems.ending import inner_of, replace
from agentos.systems.gate import BEFORE_CALL, WAITING_FOR, expiry
from agentos.systems.judging import Judged, failed, find_tool, judged_call, over_limit
from agentos.world import Decision, View


def nested(view: View, state: TurnState, item: InnerCall) -> Decision:
    """One call.nested, and at once what follows from its verdict: a result, a question to hooks or to a person."""
    call, turn = view.next, view.turn
    context = view.pinned(turn)
    tool = find_tool(context, item.tool)
    judged = _bounded(view, state, item, context.limits) or judged_call(
        context, tool, item.tool, item.arguments, Finish.TOOL_USE
    )
    config = CallConfig(
        turn=turn,
        step=state.step_index,
        ordinal=item.index,
        tool=item.tool,
        arguments=Address(Seq(call), 0),
        effect=tool.effect if tool is not None else EffectClass.ONCE,
        toolbox=tool.toolbox if tool is not None else None,
        subagent=tool.subagent if tool is not None else None,
        parent=item.call,
    )
    waiting = WAITING_FOR.get(judged.verdict)
    before = CallState(status=CallStatus.WAITING if waiting else CallStatus.PROPOSED, waiting=waiting)
    opened = (*state.inner, call) if judged.verdict is not Verdict.DENY else state.inner
    after = replace(state, inner=opened, calls_made=state.calls_made + 1)
    draft = Draft(
        data=CallNested(verdict=judged.verdict, attempt=item.attempt),
        turn=turn,
        call=call,
        changes=((call, config), (call, before), (turn, after)),
        private=(("arguments", item.arguments),),
        fed=item,
    )
    if judged.verdict is Verdict.HOOK:
        return Decision((draft,), effects=(AskHook(view.log, turn, call, BEFORE_CALL, config.tool, config.arguments),))
    if judged.verdict is Verdict.ASK:
        asked = Draft(data=ApprovalRequested(tool=config.tool), turn=turn, call=call)
        return Decision((draft, asked), alarms=expiry(view, call))
    if judged.verdict is Verdict.DENY:
        return Decision((draft, _denied(view, config, call, judged)))
    return Decision((draft,))


def _denied(view: View, config: CallConfig, call: int, judged: Judged) -> Draft:
    """Its result right behind it; such a call is never open."""
    kind = Name(judged.kind)
    end = CallFinished(status=judged.status, call_kind=kind, source=CallSource.DECIDED, parent=config.parent)
    after = CallState(status=judged.status, kind=kind, result=view.next + 1)
    return Draft(data=end, turn=view.turn, call=call, changes=((call, after),), private=(("result", judged.text),))


def _bounded(view: View, state: TurnState, item: InnerCall, limits: TurnLimits) -> Judged | None:
    """The bounds on calls, on how deep they are nested, and on how many of one call are under way."""
    limit = view.get(view.turn, TurnConfig).call_limit
    if limit is not None and state.calls_made >= limit:
        return over_limit(limit)
    if _depth(view, item.call) >= limits.inner_depth_max:
        return failed("inner_depth", f"not run: calls may be nested {limits.inner_depth_max} deep (inner_depth_max)")
    if len(inner_of(view, state, item.call)) >= limits.inner_calls_max:
        why = f"a call may have {limits.inner_calls_max} inner calls under way at once (inner_calls_max)"
        return failed("inner_calls", f"not run: {why}; wait for one to end")
    return None


def _depth(view: View, call: int) -> int:
    """How many calls stand above this one."""
    depth, above = 0, view.get(call, CallConfig).parent
    while above is not None:
        depth, above = depth + 1, view.get(above, CallConfig).parent
    return depth


def is_asked(view: View, item: InnerCall) -> bool:
    """Whether the attempt that asks for a call still runs."""
    caller = view.find(item.call, CallState)
    return caller is not None and caller.status is CallStatus.STARTED and caller.attempt == item.attempt
