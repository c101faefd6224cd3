"""admit: takes in what has arrived, and begins a turn when inputs wait and none is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentos.components import (
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    Outcome,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
    WaitingInput,
)
from agentos.events.entry import Draft
from agentos.events.intake import (
    Answer,
    CallReport,
    Cancel,
    ChildEnded,
    Control,
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
    SlotFree,
    Start,
    Wake,
    WakeReason,
)
from agentos.events.kinds import CONTROLS, ChildLate, ResourceNoted, TurnCancelling, TurnStarted, WakeFired
from agentos.ids import CONVERSATION, Micros, Name, log_and_seq
from agentos.systems.arriving import admit_delegate, admit_input, admit_start
from agentos.systems.ending import RAISED, replace, settling, stopping
from agentos.systems.erasing import admit_erasure, is_erased
from agentos.systems.inner import is_asked
from agentos.systems.resolve import admit_resolution
from agentos.systems.schedule import system
from agentos.systems.window import moved
from agentos.world import Alarm, Decision, Post, View
from agentos.world.view import NOTHING


@system(over=ConversationState, reports=True)
def admit(view: View, _conversation: int) -> Decision:
    """Each received item becomes an entry, or is dropped when it calls for nothing any more."""
    for item in view.intake:
        take = _TAKE.get(type(item))
        if take is not None:
            decision = take(view, item)
            if decision is not NOTHING:
                return decision
    return _begin_turn(view)


def _begin_turn(view: View) -> Decision:
    """A closed conversation takes no more inputs, but those that it has taken are still answered."""
    state = view.conversation
    if state is None or not state.waiting or view.turn or state.status is ConversationStatus.PAUSED:
        return NOTHING
    if not view.begins():
        return NOTHING
    config = view.get(CONVERSATION, ConversationConfig)
    taken = _for_one_turn(state.waiting)
    narrowings = tuple(waiting.narrowing for waiting in taken if waiting.narrowing is not None)
    digest, context = view.context(config.agent, config.depth, narrowings)
    turn, limits = view.next, context.limits
    deadline = Micros(view.now + round(limits.turn_s * 1e6)) if limits.turn_s else None
    pinned = TurnConfig(
        context=digest,
        inputs=tuple(waiting.seq for waiting in taken),
        ephemeral=tuple(waiting.seq for waiting in taken if waiting.ephemeral),
        causes=tuple(waiting.cause for waiting in taken if waiting.cause is not None),
        resolutions=state.resolutions,
        started_at=view.now,
        step_limit=limits.step_limit,
        call_limit=limits.call_limit,
        deadline_at=deadline,
    )
    changes = (
        (CONVERSATION, replace(state, open_turn=turn, waiting=state.waiting[len(taken) :], resolutions=())),
        (turn, pinned),
        (turn, TurnState(phase=Phase.PROMPT)),
        *moved(view, turn, len(taken) + bool(state.resolutions), limits.window_messages),
    )
    alarms = (Alarm(WakeReason.DEADLINE.value, turn, deadline),) if deadline is not None else ()
    return Decision((Draft(data=TurnStarted(), turn=turn, changes=changes),), alarms=alarms)


def _for_one_turn(waiting: tuple[WaitingInput, ...]) -> tuple[WaitingInput, ...]:
    """All of them; but each delegated task has a turn and an answer of its own, so the second one ends the row."""
    causes = [n for n, input_ in enumerate(waiting) if input_.cause is not None]
    return waiting[: causes[1]] if len(causes) > 1 else waiting


def _cancel(view: View, item: Cancel) -> Decision:
    turn = view.turn
    if not turn or (item.call is not None and item.call not in view.get(turn, TurnConfig).causes):
        return _cancel_waiting(view, item)
    if view.get(turn, TurnState).phase is Phase.SETTLING:
        return Decision(dropped=(item,))
    draft = Draft(
        data=TurnCancelling(reason=item.reason, call=Name(item.call) if item.call else None),
        turn=turn,
        changes=((turn, settling(view, Outcome.CANCELLED, item.reason)),),
        fed=item,
        by=item.by,
    )
    return stopping(view, draft, view.pinned(turn).limits.cancel_grace_s)


def _cancel_waiting(view: View, item: Cancel) -> Decision:
    """A delegated task that no turn has taken yet is taken back; anything else is over already."""
    state = view.conversation
    if state is None or item.call is None or all(waiting.cause != item.call for waiting in state.waiting):
        return Decision(dropped=(item,))
    left = tuple(waiting for waiting in state.waiting if waiting.cause != item.call)
    draft = Draft(
        data=TurnCancelling(reason=item.reason, call=Name(item.call)),
        changes=((CONVERSATION, replace(state, waiting=left)),),
        fed=item,
        by=item.by,
    )
    raised = item.reason.startswith(RAISED)
    outcome = Outcome.FAILED if raised else Outcome.CANCELLED
    text = f"its turn could not begin: {item.reason}" if raised else "cancelled"
    end = ChildEnded(call=item.call, outcome=outcome, outcome_name=item.reason, text=text)
    return Decision((draft,), (Post(log_and_seq(item.call)[0], f"end:{item.call}", end, end=True),))


def _wake(view: View, item: Wake) -> Decision:
    turn = view.turn
    if not turn or item.turn != turn:
        return Decision(dropped=(item,))
    state = view.get(turn, TurnState)
    fired = WakeFired(reason=item.reason)
    if item.reason is WakeReason.RETRY:
        if state.retry_at is None:
            return Decision(dropped=(item,))
        return Decision((Draft(data=fired, turn=turn, changes=((turn, replace(state, retry_at=None)),), fed=item),))
    if item.reason is WakeReason.DEADLINE:
        if state.phase is Phase.SETTLING:
            return Decision(dropped=(item,))
        after = settling(view, Outcome.LIMIT, Name("time"))
        draft = Draft(data=fired, turn=turn, changes=((turn, after),), fed=item)
        return stopping(view, draft, view.pinned(turn).limits.cancel_grace_s)
    return NOTHING if _is_awaited(view, item) else Decision(dropped=(item,))


def _is_awaited(view: View, item: Wake) -> bool:
    """Whether the call still waits for a person, or for its child, as it did when the time was set."""
    call = view.find(item.call, CallState)
    if call is None:
        return False
    if item.reason is WakeReason.APPROVAL:
        return call.waiting is Waiting.APPROVAL
    if item.reason is WakeReason.DOUBT:
        return bool(call.doubted)
    return call.status is CallStatus.STARTED


def _control(view: View, item: ControlItem) -> Decision:
    state = view.conversation
    status = _STATUS[item.control]
    if state is None or state.status in (status, ConversationStatus.CLOSED):
        return Decision(dropped=(item,))
    return Decision(
        (
            Draft(
                data=CONTROLS[item.control](),
                changes=((CONVERSATION, replace(state, status=status)),),
                fed=item,
                by=item.by,
            ),
        )
    )


def _late_child(view: View, item: ChildEnded) -> Decision:
    """The end of a child whose call waits for it belongs to `call` and `settle`; a later one is only recorded, and not even
    that once the conversation is erased."""
    if is_erased(view):
        return Decision(dropped=(item,))
    call = log_and_seq(item.call)[1]
    state = view.find(call, CallState)
    if state is not None and state.status is CallStatus.STARTED:
        return NOTHING
    draft = Draft(
        data=ChildLate(
            child_head=item.child_head,
            outcome=item.outcome,
            outcome_name=item.outcome_name,
            children_used=item.children_used,
        ),
        private=(("result", item.text),),
        call=call,
        fed=item,
    )
    return Decision((draft,))


def _free(view: View, item: SlotFree) -> Decision:
    """It only wakes the pass: `call` asks for the slot itself."""
    return Decision(dropped=(item,))


def _noted(view: View, item: ResourceNote) -> Decision:
    """Kept as it came; an erased conversation takes no more entries."""
    if view.conversation is None or is_erased(view):
        return Decision(dropped=(item,))
    data = ResourceNoted(what=item.what, resource=item.resource, of=item.of, ms=item.ms, cycle=item.cycle)
    return Decision((Draft(data=data, turn=view.turn, call=item.call, fed=item),))


def _stale_report(view: View, item: Item) -> Decision:
    """A report of work that no open turn waits for."""
    return NOTHING if view.turn else Decision(dropped=(item,))


def _stale_hook(view: View, item: HookReport) -> Decision:
    state = view.find(item.call, CallState) if view.turn else None
    return NOTHING if state is not None and state.waiting is Waiting.HOOK else Decision(dropped=(item,))


def _stale_inner(view: View, item: InnerCall) -> Decision:
    """What an attempt asks for that is over; the tool that asked is told."""
    return NOTHING if view.turn and is_asked(view, item) else Decision(dropped=(item,))


def _stale_answer(view: View, item: Answer) -> Decision:
    state = view.find(log_and_seq(item.call)[1], CallState)
    if state is not None and state.waiting is Waiting.APPROVAL:
        return NOTHING
    return Decision(dropped=(item,))


_STATUS = {
    Control.PAUSE: ConversationStatus.PAUSED,
    Control.UNPAUSE: ConversationStatus.OPEN,
    Control.CLOSE: ConversationStatus.CLOSED,
}

_TAKE: dict[type, Callable[[View, Any], Decision]] = {
    Start: admit_start,
    Delegate: admit_delegate,
    Input: admit_input,
    Cancel: _cancel,
    Wake: _wake,
    ControlItem: _control,
    Erase: admit_erasure,
    ChildEnded: _late_child,
    ResourceNote: _noted,
    SlotFree: _free,
    Answer: _stale_answer,
    Resolve: admit_resolution,
    ModelReport: _stale_report,
    CallReport: _stale_report,
    HookReport: _stale_hook,
    InnerCall: _stale_inner,
    Probed: _stale_report,
    Progress: _stale_report,
}
