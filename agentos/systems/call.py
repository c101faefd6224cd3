"""call: starts the allowed calls as their slots come free, and takes their ends and what they ask for themselves."""

from __future__ import annotations

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    Concern,
    ConversationConfig,
    ConversationState,
    CycleLink,
    Phase,
    TurnState,
)
from agentos.events.effects import Effect, RunCall
from agentos.events.entry import Change, Draft
from agentos.events.intake import (
    CallReport,
    ChildEnded,
    Delegate,
    InnerCall,
    Item,
    Probed,
    Progress,
    Resolve,
    Start,
    Wake,
    WakeReason,
)
from agentos.events.kinds import CallProgress, CallStarted, ResourceNoted
from agentos.governance.schema import normalized
from agentos.ids import CONVERSATION, ConversationId, Kind, LogId, Name, agent_id, call_id, hashed_id, log_and_seq
from agentos.resources.cycle import sentences
from agentos.systems.ending import decided, finished_call, open_calls, replace
from agentos.systems.gate import said_of
from agentos.systems.inner import nested
from agentos.systems.judging import find_tool
from agentos.systems.reports import call_ended, grace_over
from agentos.systems.resolve import doubted, nobody_came, resolved, waits_for_person
from agentos.systems.schedule import system
from agentos.systems.task import task_of
from agentos.world import Decision, Post, View
from agentos.world.view import NOTHING

CHILD_SHARE = 8
"""A child may start an eighth of what its parent has left, or one for each level down to depth_max where that is more;
it gives back what it did not use."""


@system(over=TurnState, phase=Phase.CALL)
def call(view: View, turn: int) -> Decision:
    """CALL -> PROMPT, or to an end, with the last result of the step."""
    state = view.get(turn, TurnState)
    for item in view.intake:
        if isinstance(item, Probed) and waits_for_person(view, state, item):
            return doubted(view, state, item)
        if isinstance(item, (CallReport, ChildEnded, Probed)):
            ended = log_and_seq(item.call)[1] if isinstance(item, ChildEnded) else item.call
            return call_ended(view, state, item, others_open=_others(view, state, ended))
        if isinstance(item, Progress):
            return _progress(view)
        decision = _of_doubts(view, state, item)
        if decision is NOTHING:
            decision = _of_inner_calls(view, state, item)
        if decision is not NOTHING:
            return decision
    return _start_calls(view, state)


def _others(view: View, state: TurnState, call_: int) -> bool:
    """Whether other calls are open."""
    return any(other != call_ for other in open_calls(view, state))


def _of_doubts(view: View, state: TurnState, item: Item) -> Decision:
    """What a person says of a call in doubt, and that nobody said anything in time."""
    if isinstance(item, Resolve):
        return resolved(view, state, item, others_open=_others(view, state, log_and_seq(item.call)[1]))
    if isinstance(item, Wake) and item.reason is WakeReason.DOUBT:
        return nobody_came(view, state, item, others_open=_others(view, state, item.call))
    return NOTHING


def _of_inner_calls(view: View, state: TurnState, item: Item) -> Decision:
    """What only inner calls bring in this phase: their asking, their approval and hooks, the late end of their child."""
    if isinstance(item, InnerCall):
        return nested(view, state, item)
    if isinstance(item, Wake) and item.reason is WakeReason.GRACE:
        return grace_over(view, state, item, others_open=_others(view, state, item.call))
    return said_of(view, state, item)


def _progress(view: View) -> Decision:
    """All that waits at once: a call may tell much, and a pass has a bound on its decisions."""
    drafts: list[Draft] = []
    dropped: list[Progress] = []
    for item in view.items(Progress):
        state = view.find(item.call, CallState)
        if state is None or state.status is not CallStatus.STARTED:
            dropped.append(item)
            continue
        private = (("data", item.data),)
        drafts.append(Draft(data=CallProgress(), turn=view.turn, call=item.call, private=private, fed=item))
    return Decision(tuple(drafts), dropped=tuple(dropped))


def _start_calls(view: View, state: TurnState) -> Decision:
    if state.retry_at is not None:  # a fork that nobody has run yet
        return NOTHING
    drafts: list[Draft] = []
    posts: list[Post] = []
    effects: list[Effect] = []
    for call_ in (*state.calls, *state.inner) if state.inner else state.calls:
        call_state = view.get(call_, CallState)
        if call_state.status is not CallStatus.PROPOSED:
            continue
        config = view.get(call_, CallConfig)
        if config.subagent is not None:
            if drafts:
                continue
            return _delegate(view, state, call_, config, call_state)
        if view.slot(call_):
            draft, effect = start_call(view, call_, config, call_state)
            drafts.append(draft)
            effects.append(effect)
        elif not drafts and (cycle := view.deadlock(call_)) is not None:
            return _deadlocked(view, state, call_, config, cycle)
    if not drafts:
        return NOTHING
    return Decision(tuple(drafts), tuple(posts), tuple(effects))


def start_call(view: View, call_: int, config: CallConfig, state: CallState) -> tuple[Draft, RunCall]:
    """The entry that must be stored before the tool sees the call, and the effect that runs it."""
    attempt = state.attempt + 1
    after = replace(
        state,
        status=CallStatus.STARTED,
        attempt=attempt,
        waiting=None,
        started_at=state.started_at or view.now,
    )
    draft = Draft(data=CallStarted(), turn=view.turn, call=call_, changes=((call_, after),))
    return draft, RunCall(view.log, view.turn, call_, attempt, config.tool, config.arguments)


def _delegate(view: View, state: TurnState, call_: int, config: CallConfig, call_state: CallState) -> Decision:
    """A delegation is a call whose tool is another conversation; it holds no slot, and is never in doubt."""
    conversation = view.get(CONVERSATION, ConversationConfig)
    counters = view.get(CONVERSATION, ConversationState)
    context = view.pinned(view.turn)
    left = conversation.children_budget - counters.children_used
    if conversation.depth >= context.depth_max:
        return _too_far(view, state, call_, "depth", f"agents may delegate {context.depth_max} levels deep")
    if left < 1:
        return _too_far(view, state, call_, "children", "the conversations below this root are all used up")
    tool = find_tool(context, config.tool)
    granted = max(1 + (left - 1) // CHILD_SHARE, min(left, context.depth_max - conversation.depth))
    id_ = call_id(view.log, call_)
    parts = (view.log, str(config.subagent)) if tool is not None and tool.reuse else (id_,)
    child = ConversationId(hashed_id(Kind.CONVERSATION, *parts))
    after = replace(
        call_state,
        status=CallStatus.STARTED,
        attempt=call_state.attempt + 1,
        child=child,
        granted=granted,
        started_at=view.now,
    )
    changes: tuple[Change, ...] = (
        (call_, after),
        (CONVERSATION, replace(counters, children_used=counters.children_used + granted)),
    )
    start = Start(
        agent=agent_id(str(config.subagent)),
        slug=config.subagent or conversation.slug,
        root=conversation.root,
        parent=ConversationId(view.log),
        parent_call=id_,
        depth=conversation.depth + 1,
        children_budget=granted - 1,
        tenant=conversation.tenant,
    )
    task = task_of(view, tool, conversation.slug, normalized(view.body(*config.arguments)))
    narrowing = tool.narrowing if tool is not None else None
    post = Post(LogId(child), f"start:{id_}", Delegate(start=start, text=task, call=id_, narrowing=narrowing))
    return Decision((Draft(data=CallStarted(), turn=view.turn, call=call_, changes=changes),), (post,))


def _deadlocked(view: View, state: TurnState, call_: int, config: CallConfig, cycle: tuple[CycleLink, ...]) -> Decision:
    """A call that waits for room which those who wait for it hold would never start, nor would they ever end."""
    toolbox = config.toolbox or config.tool
    noted = ResourceNoted(what=Concern.DEADLOCK, resource=toolbox, of=Name("slots"), cycle=cycle, decided=True)
    told = (Draft(data=noted, turn=view.turn, call=call_),) if cycle else ()
    why = f"toolbox {config.toolbox} has no room for {config.tool} until a call that waits for it has ended"
    draft, _ = finished_call(
        view,
        state,
        call_,
        decided(CallStatus.FAILED, "deadlock"),
        f"not run: {'; '.join((why, *sentences(cycle)))}",
        others_open=_others(view, state, call_),
        seq=view.next + len(told),
    )
    return Decision((*told, draft))


def _too_far(view: View, state: TurnState, call_: int, kind: str, why: str) -> Decision:
    others = _others(view, state, call_)
    draft, _ = finished_call(
        view,
        state,
        call_,
        decided(CallStatus.FAILED, kind),
        f"not run: {why}; do the task yourself or answer with what you have",
        others_open=others,
        seq=view.next,
    )
    return Decision((draft,))
