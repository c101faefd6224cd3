"""recover: the effects of the open turn are gone, after a crash or in a fork; nothing is run twice that may not be."""

from __future__ import annotations

from agentos.components import (
    OPEN_STATUSES,
    CallConfig,
    CallState,
    CallStatus,
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
from agentos.events.intake import Given, Resume
from agentos.events.kinds import CallDoubted, CallFinished, ConversationForked, ModelFinished, TurnResumed
from agentos.events.model import Finish
from agentos.ids import Digest, Name
from agentos.systems.branching import cut_loose, end_of, held, times_anew
from agentos.systems.ending import (
    GONE,
    cancel_child,
    decided,
    finished_call,
    grace,
    may_end_by_itself,
    open_calls,
    replace,
    settling,
    stopping,
)
from agentos.systems.gate import BEFORE_CALL
from agentos.systems.resolve import capped
from agentos.systems.schedule import system
from agentos.world import Alarm, Decision, Post, View
from agentos.world.view import NOTHING

LOST = "lost in a crash; it is started again"
GIVEN_UP = "the outcome is unknown: the kernel stopped again and again while it ran; it is not run again"
INTERRUPTED = "interrupted: the kernel stopped while it ran; it is not run again, since its caller is gone too"
UNKNOWN_IN_FORK = "this is a fork: what became of the call is unknown here"


@system(over=ConversationState, reports=True)
def recover(view: View, _conversation: int) -> Decision:
    """Takes up the open turn where its log ends."""
    item = next(view.items(Resume), None) if view.intake else None
    if item is None:
        return NOTHING
    turn = view.turn
    if not turn:
        return _begin_idle(view, item)
    state = view.get(turn, TurnState)
    data = TurnResumed(n=state.resumes + 1, fork=item.fork, held=item.branch is not None)
    loose = cut_loose(view, item.branch) if item.fork else ()
    alarms: tuple[Alarm, ...] = ()
    if item.branch is not None:
        alarms, state = times_anew(view, state, item.branch), held(view, state)
    elif _lost_work(view, state):
        if state.resumes >= view.pinned(turn).limits.resumes_max and state.phase is not Phase.SETTLING:
            return _no_progress(view, data, item, loose)
        state = replace(state, resumes=state.resumes + 1)
    taken = _Taken(view, state, item.fork)
    given = {end.call: end for end in item.branch.given} if item.branch is not None else {}
    taken.drafts.append(Draft(data=data, turn=turn, changes=((turn, state), *loose), fed=item))
    if state.requested:
        taken.drafts.append(_lost_request(view, state))
    for call in state.inner:  # the attempt that asked for it is gone, so it ends before its caller goes on
        _let_inner_go(taken, call)
    for call in state.calls:
        if call in given:
            taken.give(given[call])
        elif view.get(call, CallState).status in OPEN_STATUSES:
            _take_up(taken, call)
    return Decision(tuple(taken.drafts), tuple(taken.posts), tuple(taken.effects), (*alarms, *taken.alarms))


def _begin_idle(view: View, item: Resume) -> Decision:
    """A fork where no turn is open; of a crash there is nothing to say there."""
    if item.branch is None:
        return Decision(dropped=(item,))
    return Decision((Draft(data=ConversationForked(), changes=cut_loose(view, item.branch), fed=item),))


def _lost_work(view: View, state: TurnState) -> bool:
    """Whether the crash has ended anything. A turn that waits for a person, a child or a time may be taken up for ever."""
    calls = [view.get(call, CallState) for call in open_calls(view, state)]
    return bool(state.requested) or any(
        call.waiting is Waiting.HOOK or (may_end_by_itself(call) and call.child is None) for call in calls
    )


class _Taken:
    """What the taking up of a turn has come to so far; state is the turn after it."""

    def __init__(self, view: View, state: TurnState, fork: bool) -> None:
        self.view, self.state, self.fork = view, state, fork
        self.drafts: list[Draft] = []
        self.posts: list[Post] = []
        self.effects: list[Effect] = []
        self.alarms: list[Alarm] = []

    def finish(self, call: int, status: CallStatus, kind: str, text: str) -> None:
        """Ends a call; the last open one moves the turn on."""
        self._end(call, decided(status, kind), text)

    def give(self, given: Given) -> None:
        """Ends a call with a result that is given, as much of which is shown as of any other."""
        text = capped(given.text, self.view.known(self._context()).limits.result_chars)
        self._end(given.call, end_of(given), text, given.text if text != given.text else None)

    def _context(self) -> Digest:
        """What the turn pins from the fork on."""
        changes = self.drafts[0].changes
        return next(value.context for _, value in changes if isinstance(value, TurnConfig))

    def _end(self, call: int, data: CallFinished, text: str, whole: str | None = None) -> None:
        over = {draft.call for draft in self.drafts if isinstance(draft.data, CallFinished)}
        others = any(other != call and other not in over for other in open_calls(self.view, self.state))
        seq = self.view.next + len(self.drafts)
        draft, self.state = finished_call(
            self.view, self.state, call, data, text, others_open=others, seq=seq, whole=whole
        )
        self.drafts.append(draft)

    def doubt(self, call: int, before: CallState, config: CallConfig) -> None:
        """Asks the tool what became of it."""
        view = self.view
        if before.waiting is not Waiting.DOUBT:
            after = replace(before, status=CallStatus.WAITING, waiting=Waiting.DOUBT)
            self.drafts.append(Draft(data=CallDoubted(), turn=view.turn, call=call, changes=((call, after),)))
        self.effects.append(Probe(view.log, view.turn, call, config.tool, config.arguments))


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
            gone, seq = decided(CallStatus.UNKNOWN, "no_progress"), view.next + len(drafts)
            draft, state = finished_call(view, state, call, gone, GIVEN_UP, others_open=True, seq=seq)
            drafts.append(draft)
    return replace(decision, drafts=tuple(drafts))


def _lost_request(view: View, state: TurnState) -> Draft:
    after = replace(state, requested=0)
    if state.phase is Phase.COMPLETE:
        after = replace(after, phase=Phase.PROMPT, attempt=state.attempt + 1)
    data = ModelFinished(finish=Finish.LOST)
    return Draft(data=data, turn=view.turn, changes=((view.turn, after),), private=(("text", ""),))


def _take_up(taken: _Taken, call: int) -> None:
    """One open call of a reply: a child and a slot are waited for as before; a started call is run again only when that
    is safe."""
    view = taken.view
    before, config = view.get(call, CallState), view.get(call, CallConfig)
    doubted = before.waiting is Waiting.DOUBT
    if before.waiting is Waiting.HOOK:
        taken.effects.append(AskHook(view.log, view.turn, call, BEFORE_CALL, config.tool, config.arguments))
    elif before.doubted and not taken.fork:
        return  # a person is waited for, as before
    elif not (may_end_by_itself(before) or before.doubted) or (before.child is not None and not taken.fork):
        return
    elif taken.fork:
        taken.finish(call, CallStatus.UNKNOWN, "fork", UNKNOWN_IN_FORK)
    elif config.effect is not EffectClass.ONCE and not doubted:
        after = replace(before, status=CallStatus.PROPOSED)
        lost, private = decided(CallStatus.LOST), (("result", LOST),)
        taken.drafts.append(Draft(data=lost, turn=view.turn, call=call, changes=((call, after),), private=private))
    else:
        taken.doubt(call, before, config)


def _let_inner_go(taken: _Taken, call: int) -> None:
    """One open inner call: nobody waits for it any more, so none is begun or run again. What it may have done is found
    out, and a child is told to end."""
    view = taken.view
    before, config = view.get(call, CallState), view.get(call, CallConfig)
    if not may_end_by_itself(before):
        taken.finish(call, CallStatus.CANCELLED, "not_started", GONE)
    elif taken.fork:
        taken.finish(call, CallStatus.UNKNOWN, "fork", UNKNOWN_IN_FORK)
    elif before.child is not None:
        if taken.state.phase is not Phase.SETTLING:  # else it was told
            taken.posts.append(cancel_child(view, call, before.child))
            taken.alarms.append(grace(view, call, view.pinned(view.turn).limits.cancel_grace_s))
    elif config.effect is EffectClass.ONCE or before.waiting is Waiting.DOUBT:
        taken.doubt(call, before, config)
    else:
        taken.finish(call, CallStatus.CANCELLED, "interrupted", INTERRUPTED)
