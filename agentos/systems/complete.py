"""complete: takes a model's reply or failure, and decides on another try."""

from __future__ import annotations

import hashlib

from agentos.components import Outcome, Phase, TurnState
from agentos.errors import ModelError
from agentos.events.intake import ModelReport, WakeReason
from agentos.events.model import Finish
from agentos.ids import Micros, Name
from agentos.systems.ending import replace
from agentos.systems.reports import reply_draft
from agentos.systems.schedule import system
from agentos.world import Alarm, Decision, View
from agentos.world.view import NOTHING


@system(over=TurnState, phase=Phase.COMPLETE, reports=True)
def complete(view: View, turn: int) -> Decision:
    """COMPLETE -> GATE with calls to judge, SETTLING with an answer, or PROMPT for another try."""
    report = next(view.items(ModelReport), None)
    if report is None:
        return NOTHING
    state = view.get(turn, TurnState)
    if report.base_seq != state.requested:
        return Decision(dropped=(report,))
    after = _after(view, state, report)
    if after.retry_at is None:
        return Decision((reply_draft(view, report, after),))
    alarm = Alarm(WakeReason.RETRY.value, turn, after.retry_at)
    return Decision((reply_draft(view, report, after),), alarms=(alarm,))


def _after(view: View, state: TurnState, report: ModelReport) -> TurnState:
    reply, seq = report.reply, view.next
    if reply.finish in (Finish.ERROR, Finish.EMPTY, Finish.CANCELLED, Finish.LOST):
        return _tried_in_vain(view, state, report)
    if reply.calls and reply.finish is not Finish.REFUSAL:
        return replace(state, phase=Phase.GATE, reply=seq, calls=(), resumes=0)
    return replace(
        state,
        phase=Phase.SETTLING,
        outcome=_ANSWERS.get(reply.finish, Outcome.COMPLETED),
        reply=seq,
        answer=seq,
        calls=(),
        step_index=state.step_index + 1,
    )


_ANSWERS = {Finish.REFUSAL: Outcome.REFUSED, Finish.LENGTH: Outcome.TRUNCATED}


def _tried_in_vain(view: View, state: TurnState, report: ModelReport) -> TurnState:
    """Another try for what may go away by itself, within model_attempts_max; else the turn fails."""
    limits = view.pinned(view.turn).limits
    kind = report.error or Name(report.reply.finish.value)
    retryable = kind in ModelError.RETRYABLE or report.reply.finish in (Finish.EMPTY, Finish.CANCELLED)
    wait_s = report.retry_after_s or 0.0
    if not retryable or state.attempt >= limits.model_attempts_max or wait_s > limits.retry_cap_s:
        return replace(
            state, phase=Phase.SETTLING, outcome=Outcome.FAILED, outcome_name=Name(f"model:{kind}"), reply=view.next
        )
    state = replace(state, phase=Phase.PROMPT, attempt=state.attempt + 1)
    if report.error is None:
        return state
    backoff_s = min(limits.retry_cap_s, limits.retry_base_s * 2 ** (state.attempt - 2))
    delay_s = max(wait_s, backoff_s * _spread(view.log, view.next))
    return replace(state, retry_at=Micros(view.now + round(delay_s * 1e6)))


def _spread(log: str, seq: int) -> float:
    """Half to whole, so that many conversations fall out of step; from the place, since a pass draws no random."""
    return 0.5 + hashlib.sha256(f"{log}:{seq}".encode()).digest()[0] / 510
