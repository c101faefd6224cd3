"""Tells observers of effects: what began and how it ended, by ids and words, without anything private."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from agentos.effects.base import Services
from agentos.events.effects import AskHook, Probe, RequestModel, RunCall
from agentos.events.intake import CallReport, HookReport, Item, ModelReport, Probed
from agentos.ids import ConversationId, call_id, turn_id
from agentos.ports import EffectSeen, Observer

_log = logging.getLogger(__name__)

Seen = RequestModel | RunCall | AskHook | Probe
_WHAT: dict[type, str] = {RequestModel: "model", RunCall: "call", AskHook: "hook", Probe: "probe"}


class Observers:
    """All observers of one kernel. Without any, an effect costs one look at an empty list."""

    def __init__(self, services: Services, observers: Sequence[Observer]) -> None:
        self._services, self._observers = services, list(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def started(self, effect: Seen) -> EffectSeen:
        """Tells that an effect begins, and gives what was told."""
        call = 0 if isinstance(effect, RequestModel) else effect.call
        seen = EffectSeen(
            what=_WHAT[type(effect)],
            phase="started",
            conversation=ConversationId(effect.log),
            turn=turn_id(effect.log, effect.turn),
            path=self._services.lineage(effect.log, effect.turn, call).path,
            name=self._model(effect) if isinstance(effect, RequestModel) else effect.tool,
            attempt=effect.attempt if isinstance(effect, (RequestModel, RunCall)) else 1,
            call=call_id(effect.log, call) if call else None,
        )
        self._tell(seen)
        return seen

    def ended(self, begun: EffectSeen, report: Item, ms: float) -> None:
        """Tells how an effect that was told of has ended."""
        told: dict[str, Any] = {name: getattr(begun, name) for name in EffectSeen.__struct_fields__}
        told.update(phase="ended", end=_end(report), ms=round(ms, 3))
        if isinstance(report, ModelReport):
            usage = report.reply.usage
            told.update(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        self._tell(EffectSeen(**told))

    def _tell(self, seen: EffectSeen) -> None:
        for observer in list(self._observers):
            try:
                observer.effect(seen)
            except Exception as error:  # an observer changes nothing of what it observes
                _log.warning("an observer failed and is told no more: %s: %s", type(error).__name__, error)
                self._observers.remove(observer)

    def _model(self, effect: RequestModel) -> str:
        ref = self._services.turn_context(effect.log, effect.turn).model
        return f"{ref.kind}:{ref.name}" if ref.name else ref.kind


def _end(report: Item) -> str:
    """The one word that says how it ended, and the kind after a colon."""
    if isinstance(report, ModelReport):
        word, kind = report.reply.finish.value, report.error
    elif isinstance(report, CallReport):
        word, kind = report.status.value, report.kind
    elif isinstance(report, Probed):
        word, kind = report.status.value, None
    else:
        assert isinstance(report, HookReport), "a runner ends in one of four reports"
        word, kind = report.verdict.value, None
    return f"{word}:{kind}" if kind else word
