"""Calls in doubt: the wait for a person who knows what became of one, and what such a person says, in time or later.

A crash leaves a started `once` call in doubt. When its tool cannot tell either, and the agent's `doubt_s` says so, the call
waits for a person. What a person says of a call that has ended with an unknown outcome stays beside that end: the model
reads it at the beginning of the next turn.
"""

from __future__ import annotations

from typing import Any

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    EffectClass,
    Resolution,
    TurnState,
    Waiting,
)
from agentos.events.entry import ERASED, Draft
from agentos.events.intake import Probed, Resolve, Wake, WakeReason
from agentos.events.kinds import CallDoubted, CallResolved, WakeFired
from agentos.ids import CONVERSATION, Micros, log_and_seq
from agentos.systems.ending import decided, finished_call, replace
from agentos.systems.erasing import is_erased
from agentos.world import Alarm, Decision, View
from agentos.world.view import NOTHING

KIND = "resolved"
NOTE_RESULT_CHARS = 8_000
"""How much of a result a note tells; the entry keeps the whole."""
AGAIN = "a person has it tried again"


def admit_resolution(view: View, item: Resolve) -> Decision:
    """What is said of a call that still waits is left to `call`; of one that ended as unknown it is kept for later."""
    log, call = log_and_seq(item.call)
    if log != view.log or view.conversation is None or is_erased(view):
        return Decision(dropped=(item,))
    state = view.find(call, CallState)
    if state is None:  # settled long ago: that it was in doubt was looked up where the command was given
        return _for_the_next_turn(view, item, call)
    if state.attempt != item.attempt:
        return Decision(dropped=(item,))
    if state.waiting is Waiting.DOUBT:
        return NOTHING
    unknown = ended_unknown(view.get(call, CallConfig), state)
    return _for_the_next_turn(view, item, call) if unknown else Decision(dropped=(item,))


def ended_unknown(config: CallConfig, state: CallState) -> bool:
    """Whether nobody knows what a finished call did. Of a delegation the child's log tells."""
    if state.child is not None or not state.attempt:
        return False
    stopped = state.status in (CallStatus.TIMED_OUT, CallStatus.CANCELLED)
    return state.status is CallStatus.UNKNOWN or (stopped and config.effect is EffectClass.ONCE)


def _for_the_next_turn(view: View, item: Resolve, call: int) -> Decision:
    assert view.conversation is not None, "a call is part of a conversation"
    after = replace(view.conversation, resolutions=(*view.conversation.resolutions, view.next))
    draft = _entry(item, call, (("note", note_of(item)),))
    draft.changes = ((CONVERSATION, after),)
    return Decision((draft,))


def _entry(item: Resolve, call: int, private: tuple[tuple[str, Any], ...] = ()) -> Draft:
    private = (*private, ("asked", item.asked))
    if item.result is not None:
        private = (*private, ("result", item.result))
    if item.reason:
        private = (*private, ("reason", item.reason))
    data = CallResolved(resolution=item.resolution, tool=item.tool, attempt=item.attempt)
    return Draft(data=data, call=call, private=private, fed=item, by=item.by)


def note_of(item: Resolve) -> str:
    """What the model reads of it in a later turn."""
    because = f" ({item.reason})" if item.reason else ""
    if item.resolution is Resolution.RETRY:
        return (
            f"{item.asked}: it did not take effect, says {_who(item)}{because}. It was not run again: call it again if it is"
            " still wanted."
        )
    said = "it took effect" if item.resolution is Resolution.DONE else "it did not take effect"
    result = f" Its result:\n{capped(item.result, NOTE_RESULT_CHARS)}" if item.result else ""
    return f"{item.asked}: {said}, says {_who(item)}{because}.{result}"


def waits_for_person(view: View, state: TurnState, item: Probed) -> bool:
    """Whether somebody may still tell what the tool cannot. The result of an inner call would have no reader."""
    before = view.find(item.call, CallState)
    if item.status is not CallStatus.UNKNOWN or item.call not in state.calls or before is None:
        return False
    if before.waiting is not Waiting.DOUBT or before.doubted:
        return False
    return view.pinned(view.turn).limits.doubt_s > 0 or _is_resolved(view, item.call)


def _is_resolved(view: View, call: int) -> bool:
    """Whether a person has said what became of it before its tool had been asked to the end."""
    return any(log_and_seq(item.call)[1] == call for item in view.items(Resolve))


def doubted(view: View, state: TurnState, item: Probed) -> Decision:
    """The tool cannot tell. The turn parks until somebody does, or the time for it is over."""
    after = replace(view.get(item.call, CallState), doubted=view.next)
    draft = Draft(
        data=CallDoubted(probed=True),
        turn=view.turn,
        call=item.call,
        changes=((item.call, after),),
        private=(("reason", item.text),),
        fed=item,
    )
    if state.resumes:
        draft.changes = (*draft.changes, (view.turn, replace(state, resumes=0)))
    wait_s = view.pinned(view.turn).limits.doubt_s
    if not wait_s:
        return Decision((draft,))
    alarm = Alarm(WakeReason.DOUBT.value, view.turn, Micros(view.now + round(wait_s * 1e6)), item.call)
    return Decision((draft,), alarms=(alarm,))


def resolved(view: View, state: TurnState, item: Resolve, *, others_open: bool) -> Decision:
    """A call that waits ends as the person says, or goes back to be started once more; nothing while its tool is asked."""
    call = log_and_seq(item.call)[1]
    before = view.get(call, CallState)
    if not before.doubted:
        return NOTHING
    draft = _entry(item, call)
    draft.turn = view.turn
    if item.resolution is Resolution.RETRY:
        after = replace(before, status=CallStatus.PROPOSED, waiting=None, doubted=0)
        lost, private = decided(CallStatus.LOST), (("result", AGAIN),)
        end = Draft(data=lost, turn=view.turn, call=call, changes=((call, after),), private=private)
        return Decision((draft, end))
    done = item.resolution is Resolution.DONE
    data = decided(CallStatus.DONE) if done else decided(CallStatus.FAILED, KIND)
    whole = item.result or _words(item)
    text = capped(whole, view.pinned(view.turn).limits.result_chars)
    end, _ = finished_call(
        view,
        state,
        call,
        data,
        text,
        others_open=others_open,
        seq=view.next + 1,
        whole=whole if whole != text else None,
    )
    return Decision((draft, end))


def _words(item: Resolve) -> str:
    """In the place of a result that nobody has."""
    because = f": {item.reason}" if item.reason else ""
    if item.resolution is Resolution.DONE:
        return f"it took effect, says {_who(item)}; what it answered is lost{because}"
    return f"it did not take effect, says {_who(item)}{because}"


def nobody_came(view: View, state: TurnState, item: Wake, *, others_open: bool) -> Decision:
    """The time for a person is over: the call ends as it would have without one."""
    before = view.find(item.call, CallState)
    if item.turn != view.turn or before is None or not before.doubted:
        return Decision(dropped=(item,))
    fired = Draft(data=WakeFired(reason=item.reason, call=item.call), turn=view.turn, call=item.call, fed=item)
    wait_s = view.pinned(view.turn).limits.doubt_s
    text = f"{why_in_doubt(view, before)}; nobody said within {wait_s:g} s what became of it"
    unknown, seq = decided(CallStatus.UNKNOWN), view.next + 1
    end, _ = finished_call(view, state, item.call, unknown, text, others_open=others_open, seq=seq)
    return Decision((fired, end))


def why_in_doubt(view: View, state: CallState) -> str:
    """Why the tool of a call that waits for a person could not tell."""
    text = view.body(state.doubted, 0)
    return "(erased)" if text is ERASED else str(text)


def _who(item: Resolve) -> str:
    return str(item.by) if item.by else "a person"


def capped(text: str, chars_max: int) -> str:
    """The head of a text that is too long, and how much there is."""
    if len(text) <= chars_max:
        return text
    said = f"\n... ({len(text)} characters in all)"
    return text[: max(0, chars_max - len(said))] + said
