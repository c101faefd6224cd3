"""Entry kinds of a turn and of its model requests."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components import Phase
from agentos.events.intake import WakeReason
from agentos.events.kinds.base import EntryData
from agentos.events.model import Finish, Usage
from agentos.ids import Digest, Name


class TurnStarted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A turn takes all waiting inputs. Their seqs, the pinned context and the limits stand in its TurnConfig."""

    kind: ClassVar[str] = "turn.started"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.PROMPT})
    writer: ClassVar[str] = "admit"


class ModelRequested(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A model is asked. request is the digest over the context and every message; messages counts them."""

    kind: ClassVar[str] = "model.requested"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.COMPLETE})
    writer: ClassVar[str] = "prompt"
    request: Digest
    messages: int


class AskedCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call of a reply; its arguments are a payload. id is the provider's, cleaned to a name."""

    tool: Name
    id: Name | None = None


class ModelFinished(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A model request ended. Payloads: text, then thinking, error and opaque if any, then the arguments of each call in
    order. kept_for says which adapters send thinking and opaque back; model, response and finish_word are the provider's."""

    kind: ClassVar[str] = "model.finished"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("text", "thinking", "error", "opaque", "arguments")
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.GATE, Phase.PROMPT, Phase.SETTLING})
    writer: ClassVar[str] = "complete, recover, settle"
    finish: Finish
    usage: Usage = Usage()
    calls: tuple[AskedCall, ...] = ()
    error: Name | None = None
    retry_after_s: float | None = None
    kept_for: Name | None = None
    model: Name | None = None
    response: Name | None = None
    finish_word: Name | None = None


class TurnCancelling(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The turn is being ended before its time: by a person, a delegating call, a deadline, or a system that raised."""

    kind: ClassVar[str] = "turn.cancelling"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLING})
    writer: ClassVar[str] = "admit, the tick"
    reason: Name
    call: Name | None = None
    decided: bool = False


class WakeFired(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A time that was waited for has come."""

    kind: ClassVar[str] = "wake.fired"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.CALL, Phase.SETTLING})
    writer: ClassVar[str] = "admit, gate, call, settle"
    reason: WakeReason
    call: int = 0


class TurnResumed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A recovery or a fork found the turn open and its effects gone. held, which is so in a fork: the turn waits for whoever
    runs the fork; the context that it pins from here on stands in its TurnConfig."""

    kind: ClassVar[str] = "turn.resumed"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLING})
    writer: ClassVar[str] = "recover"
    n: int = 1
    fork: bool = False
    held: bool = False


class TurnFinished(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The turn ended; its outcome and counters stand in its TurnState."""

    kind: ClassVar[str] = "turn.finished"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLED})
    writer: ClassVar[str] = "settle"
