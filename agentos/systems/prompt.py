"""prompt: asks the model, unless the history is over the window."""

from __future__ import annotations

from agentos.components import Outcome, Phase, TurnState
from agentos.events.effects import RequestModel
from agentos.events.entry import Draft
from agentos.events.kinds import ModelRequested
from agentos.ids import Name
from agentos.prompting import context_tokens, request_digest
from agentos.systems.ending import pinned_digest, replace
from agentos.systems.schedule import system
from agentos.systems.settle import finish_turn
from agentos.world import Decision, View
from agentos.world.view import NOTHING


@system(over=TurnState, phase=Phase.PROMPT)
def prompt(view: View, turn: int) -> Decision:
    """PROMPT -> COMPLETE with a request; at once to the end as limit(context) when it would be too long."""
    state = view.get(turn, TurnState)
    if state.retry_at is not None:
        return NOTHING
    context = view.pinned(turn)
    if context_tokens(context, view.transcript) > context.limits.context_tokens:
        return finish_turn(view, replace(state, outcome=Outcome.LIMIT, outcome_name=Name("context")))
    seq = view.next
    data = ModelRequested(request=request_digest(pinned_digest(view), view.transcript), messages=view.transcript.count)
    after = replace(state, phase=Phase.COMPLETE, requested=seq)
    draft = Draft(data=data, turn=turn, changes=((turn, after),))
    return Decision((draft,), effects=(RequestModel(view.log, turn, seq, state.attempt),))
