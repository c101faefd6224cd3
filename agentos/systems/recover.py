"""recover: the effects of the open turn are gone, after a crash or in a fork; nothing is run twice that may not be."""

from __future__ import annotations

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    EffectClass,
    Outcome,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.events.effects import AskHook, Effect, Probe
from agentos.events.entry import Change, Draft
from agentos.events.intake import Resume
from agentos.events.kinds import CallDoubted, ModelFinished, TurnResumed
from agentos.events.model import Finish
from agentos.ids import CONVERSATION, Name
from agentos.systems.ending import decided, finished_call, open_calls, replace, settling, stopping
from agentos.systems.gate import BEFORE_CALL
from agentos.systems.schedule import system
from agentos.world import Decision, View
from agentos.world.view import NOTHING

LOST = "lost in a crash; it is started again"
GIVEN_UP = "the outcome is unknown: the kernel stopped again and again while it ran; it is not run again"
UNKNOWN_IN_FORK = "this is a fork: what became of the call is unknown here"


@system(over=ConversationState, reports=True)
def recover(view: View, _conversation: int) -> Decision:
    """Takes up the open turn where its log ends."""
    item = next(view.items(Resume), None) if view.intake else None
    if item is None:
        return NOTHING
    turn = view.turn
    if not turn:
        return Decision(dropped=(item,))
    state = view.get(turn, TurnState)
    data = TurnResumed(n=state.resumes + 1, fork=item.fork)
    loose = _cut_loose(view) if item.fork else ()
    if state.resumes >= view.pinned(turn).limits.resumes_max and state.phase is not Phase.SETTLING:
        return _no_progress(view, data, item, loose)
    state = replace(state, resumes=state.resumes + 1)
    drafts = [Draft(data=data, turn=turn, changes=((turn, state), *loose), fed=item)]
    effects: list[Effect] = []
    if state.requested:
        drafts.append(_lost_request(view, state))
    for call in open_calls(view, state):
        _take_up(view, state, call, item.fork, drafts, effects)
    return Decision(tuple(drafts), effects=tuple(effects))


def _cut_loose(view: View) -> tuple[Change, ...]:
    """A fork answers to no call: neither to the one that began its parent, nor to those whose tasks it has taken."""
    config, turn = view.get(CONVERSATION, ConversationConfig), view.get(view.turn, TurnConfig)
    state = view.get(CONVERSATION, ConversationState)
    waiting = tuple(replace(input_, cause=None) for input_ in state.waiting)
    return (
        (CONVERSATION, replace(config, parent=None, parent_call=None)),
        (CONVERSATION, replace(state, waiting=waiting)),
        (view.turn, replace(turn, causes=())),
    )


def _no_progress(view: View, data: TurnResumed, item: Resume, loose: tuple[Change, ...]) -> Decision:
    """Gives the turn up: what ran is gone and is not run again; children are told to end."""
    state = settling(view, Outcome.FAILED, Name("no_progress"))
    drafts = [Draft(data=data, turn=view.turn, changes=((view.turn, state), *loose), fed=item)]
    decision = stopping(view, drafts[0], view.pinned(view.turn).limits.cancel_grace_s)
    if state.requested:
        drafts.append(_lost_request(view, state))
        state = replace(state, requested=0)
    for call in open_calls(view, state):
        before = view.get(call, CallState)
        if before.waiting is Waiting.DOUBT or (before.status is CallStatus.STARTED and before.child is None):
            gone = decided(CallStatus.UNKNOWN, "no_progress")
            seq = view.next + len(drafts)
            drafts.append(finished_call(view, state, call, gone, GIVEN_UP, others_open=True, seq=seq)[0])
    return replace(decision, drafts=tuple(drafts))


def _lost_request(view: View, state: TurnState) -> Draft:
    after = replace(state, requested=0)
    if state.phase is Phase.COMPLETE:
        after = replace(after, phase=Phase.PROMPT, attempt=state.attempt + 1)
    data = ModelFinished(finish=Finish.LOST)
    return Draft(data=data, turn=view.turn, changes=((view.turn, after),), private=(("text", ""),))


def _take_up(view: View, state: TurnState, call: int, fork: bool, drafts: list[Draft], effects: list[Effect]) -> None:
    """One open call: a child and a slot are waited for as before; a started call is run again only when that is safe."""
    before, config = view.get(call, CallState), view.get(call, CallConfig)
    doubted = before.waiting is Waiting.DOUBT
    if before.waiting is Waiting.HOOK:
        effects.append(AskHook(view.log, view.turn, call, BEFORE_CALL, config.tool, config.arguments))
    elif (before.status is not CallStatus.STARTED and not doubted) or (before.child is not None and not fork):
        return
    elif fork:
        drafts.append(_unknown(view, state, call, drafts))
    elif config.effect is not EffectClass.ONCE and not doubted:
        after = replace(before, status=CallStatus.PROPOSED)
        draft = Draft(
            data=decided(CallStatus.LOST),
            turn=view.turn,
            call=call,
            changes=((call, after),),
            private=(("result", LOST),),
        )
        drafts.append(draft)
    else:
        after = replace(before, status=CallStatus.WAITING, waiting=Waiting.DOUBT)
        if not doubted:
            drafts.append(Draft(data=CallDoubted(), turn=view.turn, call=call, changes=((call, after),)))
        effects.append(Probe(view.log, view.turn, call, config.tool, config.arguments))


def _unknown(view: View, state: TurnState, call: int, drafts: list[Draft]) -> Draft:
    still_open = [
        c
        for c in open_calls(view, state)
        if c != call and not any(d.call == c and d.data.kind == "call.finished" for d in drafts)
    ]
    draft, _ = finished_call(
        view,
        state,
        call,
        decided(CallStatus.UNKNOWN, "fork"),
        UNKNOWN_IN_FORK,
        others_open=bool(still_open),
        seq=view.next + len(drafts),
    )
    return draft
