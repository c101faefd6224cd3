"""What is another in a fork from its first unit on: it answers to no call, is its own root, and waits for whoever runs it."""

from __future__ import annotations

from agentos.components import CallState, ConversationConfig, ConversationState, Phase, TurnConfig, TurnState, Waiting
from agentos.events.entry import Change
from agentos.events.intake import Branch, Given, WakeReason
from agentos.events.kinds import CallFinished, CallSource
from agentos.ids import CONVERSATION, Micros
from agentos.systems.ending import open_calls, replace
from agentos.world import Alarm, View


def cut_loose(view: View, branch: Branch | None) -> tuple[Change, ...]:
    """A fork answers to no call: neither to the one that began its parent, nor to those whose tasks it has taken. Older
    programs began forks without a branch."""
    config, state = view.get(CONVERSATION, ConversationConfig), view.get(CONVERSATION, ConversationState)
    if branch is not None:
        config = replace(config, root=branch.root, agent=branch.agent, slug=branch.slug)
    waiting = tuple(replace(input_, cause=None) for input_ in state.waiting)
    changes: tuple[Change, ...] = (
        (CONVERSATION, replace(config, parent=None, parent_call=None)),
        (CONVERSATION, replace(state, waiting=waiting)),
    )
    return (*changes, (view.turn, _pinned_anew(view, branch))) if view.turn else changes


def _pinned_anew(view: View, branch: Branch | None) -> TurnConfig:
    """What the open turn pins from here on: with its context the bounds of that, and all the time that a turn may take."""
    turn = replace(view.get(view.turn, TurnConfig), causes=())
    if branch is None or branch.context is None:
        return turn
    limits = view.known(branch.context).limits
    deadline = Micros(view.now + round(limits.turn_s * 1e6)) if limits.turn_s else None
    return replace(
        turn,
        context=branch.context,
        step_limit=limits.step_limit,
        call_limit=limits.call_limit,
        deadline_at=deadline,
    )


def held(view: View, state: TurnState) -> TurnState:
    """The turn as it waits for whoever runs the fork: until then it asks no model and starts no call. What it had tried in
    vain is not held against it."""
    state = replace(state, resumes=0)
    return state if state.phase is Phase.SETTLING else replace(state, retry_at=view.now)


def times_anew(view: View, state: TurnState, branch: Branch) -> tuple[Alarm, ...]:
    """The times that the turn waits for, from the fork on: those of the parent are the parent's."""
    if state.phase is Phase.SETTLING or branch.context is None:
        return ()
    turn, limits = view.turn, view.known(branch.context).limits
    alarms = [Alarm(WakeReason.RETRY.value, turn, view.now)]
    if limits.turn_s:
        alarms.append(Alarm(WakeReason.DEADLINE.value, turn, Micros(view.now + round(limits.turn_s * 1e6))))
    given = {end.call for end in branch.given}
    for call in open_calls(view, state) if limits.approval_s is not None else ():
        if view.get(call, CallState).waiting is Waiting.APPROVAL and call not in given:
            due_at = Micros(view.now + round((limits.approval_s or 0.0) * 1e6))
            alarms.append(Alarm(WakeReason.APPROVAL.value, turn, due_at, call))
    return tuple(alarms)


def end_of(given: Given) -> CallFinished:
    """How a call ends whose result is given."""
    source = CallSource.REPLACED if given.replaced else CallSource.ORIGIN
    return CallFinished(status=given.status, call_kind=given.kind, source=source)
