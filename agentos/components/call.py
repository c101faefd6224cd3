"""What is known of a call of a tool."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components.base import Component, Word
from agentos.ids import Address, ConversationId, Micros, Name


class CallStatus(Word):
    """proposed, waiting and started are open; the others are ends."""

    PROPOSED = "proposed"
    WAITING = "waiting"
    STARTED = "started"
    DONE = "done"
    DENIED = "denied"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNKNOWN = "unknown"


OPEN_STATUSES = frozenset({CallStatus.PROPOSED, CallStatus.WAITING, CallStatus.STARTED})


class Waiting(Word):
    """What an open call waits for. Waiting for a slot is live state: a call that waits so has no call.started."""

    APPROVAL = "approval"
    HOOK = "hook"
    CHILD = "child"
    DOUBT = "doubt"


class Resolution(Word):
    """What a person says of a call in doubt: it took effect, it did not, or it is to be tried again."""

    DONE = "done"
    FAILED = "failed"
    RETRY = "retry"


class EffectClass(Word):
    """What may happen when a call is run twice. Pinned in call.started.

    pure: nothing; idempotent: nothing when the key is the same; once: harm, so it is never re-run by itself.
    """

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class GivenEnd(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """How a call ends that is not run, since a hook has its result: as done, failed or timed_out. text is the whole result;
    finish lets it end the turn."""

    text: str
    status: CallStatus = CallStatus.DONE
    kind: Name | None = None
    finish: bool = False


class CallConfig(Component, frozen=True, omit_defaults=True, kw_only=True):
    """What was asked: the turn it belongs to, its place in the model's reply, the tool, and where the arguments stand.

    parent is the seq of the call that asked for an inner call, None for a call of a reply; the ordinal of an inner call
    counts those that the attempt of its parent asked for, from 1.
    """

    component: ClassVar[str] = "call_config"
    turn: int
    step: int
    ordinal: int
    tool: Name
    arguments: Address
    effect: EffectClass = EffectClass.ONCE
    toolbox: Name | None = None
    subagent: Name | None = None
    parent: int | None = None


class CallState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Where the call stands.

    attempt counts starts, from 1; 0 means never started; started_at is the first one. result is the seq of the entry that
    finished the call. kind says more about `failed` and `denied`. child is the
    conversation that a delegation runs in, granted what it
    costs of the children budget: itself and what it may start. finish marks a result that may end the turn. doubted is the
    seq of the entry that says why its tool cannot tell what became of it, while a person is waited for who can.
    """

    component: ClassVar[str] = "call_state"
    status: CallStatus
    attempt: int = 0
    waiting: Waiting | None = None
    kind: Name | None = None
    child: ConversationId | None = None
    granted: int = 0
    started_at: Micros | None = None
    result: int = 0
    finish: bool = False
    doubted: int = 0
