"""What begins a conversation, or is said to it: starts, delegated tasks and inputs."""

from __future__ import annotations

from agentos.components import (
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    Narrowing,
    Outcome,
    WaitingInput,
)
from agentos.events.entry import Draft
from agentos.events.intake import ChildEnded, Delegate, Input, Start
from agentos.events.kinds import ConversationStarted, InputReceived
from agentos.ids import CONVERSATION, CallId, Name, log_and_seq
from agentos.systems.ending import replace
from agentos.world import Decision, Post, View

NOBODY = Name("")


def admit_start(view: View, item: Start) -> Decision:
    if view.conversation is not None:
        return Decision(dropped=(item,))
    return Decision((_started(view, item, item),))


def admit_delegate(view: View, item: Delegate) -> Decision:
    """Create or attach: a child that exists takes the task as one more input."""
    state = view.conversation
    if state is None:
        started = _started(view, item.start, None)
        return Decision((started, _task(ConversationState(), view.next + 1, item)))
    if state.status is ConversationStatus.CLOSED:
        end = ChildEnded(call=item.call, outcome=Outcome.FAILED, outcome_name=Name("closed"), text="it is closed")
        return Decision(posts=(Post(log_and_seq(item.call)[0], f"end:{item.call}", end),), dropped=(item,))
    return Decision((_task(state, view.next, item),))


def admit_input(view: View, item: Input) -> Decision:
    state = view.conversation
    if state is None or state.status is ConversationStatus.CLOSED:
        return Decision(dropped=(item,))
    draft = _received(
        state, view.next, item.text, item, key=item.key, by=item.by, cause=item.cause, ephemeral=item.ephemeral
    )
    return Decision((draft,))


def _started(view: View, start: Start, fed: Start | None) -> Draft:
    config = ConversationConfig(
        agent=start.agent,
        slug=start.slug,
        root=start.root,
        started_at=view.now,
        parent=start.parent,
        parent_call=start.parent_call,
        depth=start.depth,
        children_budget=start.children_budget,
        tenant=start.tenant,
    )
    return Draft(
        data=ConversationStarted(key=start.key),
        changes=((CONVERSATION, config), (CONVERSATION, ConversationState())),
        fed=fed,
        by=start.by,
        cause=start.parent_call,
    )


def _task(state: ConversationState, seq: int, item: Delegate) -> Draft:
    return _received(state, seq, item.text, item, cause=item.call, narrowing=item.narrowing)


def _received(
    state: ConversationState,
    seq: int,
    text: str,
    fed: Input | Delegate,
    *,
    key: Name | None = None,
    by: Name = NOBODY,
    cause: CallId | None = None,
    ephemeral: bool = False,
    narrowing: Narrowing | None = None,
) -> Draft:
    waiting = (*state.waiting, WaitingInput(seq, cause, ephemeral, narrowing))
    return Draft(
        data=InputReceived(key=key, ephemeral=ephemeral),
        changes=((CONVERSATION, replace(state, waiting=waiting)),),
        private=(("text", text),),
        fed=fed,
        by=by,
        cause=cause,
    )
