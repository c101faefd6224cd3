"""What `ask` returns."""

from __future__ import annotations

import msgspec

from agentos.components import ConversationConfig, Outcome, TurnState
from agentos.events.entry import ERASED
from agentos.events.kinds import ModelFinished
from agentos.ids import CONVERSATION, ConversationId, Name, TurnId, turn_id
from agentos.world import View


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, whatever the agent did.

    name says which limit or kind of failure; text is the answer, or what there is of one; error says what went wrong.
    """

    outcome: Outcome
    name: Name | None
    text: str
    error: str
    conversation: ConversationId
    turn: TurnId
    agent: Name
    steps: int
    calls: int
    input_tokens: int
    output_tokens: int

    @property
    def completed(self) -> bool:
        return self.outcome is Outcome.COMPLETED

    def __str__(self) -> str:
        return f"{self.outcome.value}({self.name})" if self.name else self.outcome.value


def outcome_of(view: View, turn: int) -> RunOutcome:
    """The outcome of a turn that a pass has just settled."""
    state = view.get(turn, TurnState)
    config = view.get(CONVERSATION, ConversationConfig)
    assert state.outcome is not None, "only a settled turn has an outcome"
    text = view.body(state.answer, 0) if state.answer else _partial(view, state)
    return RunOutcome(
        outcome=state.outcome,
        name=state.outcome_name,
        text="" if text is ERASED else text,
        error=_error(view, state),
        conversation=ConversationId(view.log),
        turn=turn_id(view.log, turn),
        agent=config.slug,
        steps=state.step_index,
        calls=state.calls_made,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
    )


def _partial(view: View, state: TurnState) -> str:
    return str(view.body(state.reply, 0)) if state.reply else ""


def _error(view: View, state: TurnState) -> str:
    """The error text of the reply that ended the turn, when it was one."""
    if state.outcome is not Outcome.FAILED:
        return ""
    for draft in reversed(view.drafts):
        if isinstance(draft.data, ModelFinished):
            return next((str(value) for name, value in draft.private if name == "error"), "")
    return ""
