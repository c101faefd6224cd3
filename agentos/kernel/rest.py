"""Whether a kernel does anything still, and what it waits for when it does not."""

from __future__ import annotations

from agentos.components import CallState, CallStatus, Waiting
from agentos.events.intake import WakeReason
from agentos.ids import CallId
from agentos.kernel.kernel import Kernel

_BY_ITSELF = frozenset({WakeReason.RETRY.value, WakeReason.GRACE.value})


def at_rest(kernel: Kernel) -> bool:
    """No tick, no running effect and no timer that would go on by itself."""
    if not kernel.ticker.quiet or len(kernel.runner):
        return False
    return not any(reason in _BY_ITSELF for loaded in kernel.ticker.loaded.values() for reason, _, _ in loaded.alarms)


def open_requests(kernel: Kernel) -> list[CallId]:
    """The approval requests of loaded conversations that nobody has answered, by the ids of their calls."""
    waiting = kernel.world.find(CallState, status=CallStatus.WAITING, waiting=Waiting.APPROVAL)
    return [CallId(id_) for id_, _ in waiting]


def open_doubts(kernel: Kernel) -> list[CallId]:
    """The calls in doubt of loaded conversations that wait for a person, by their ids."""
    waiting = kernel.world.find(CallState, status=CallStatus.WAITING, waiting=Waiting.DOUBT)
    return [CallId(id_) for id_, state in waiting if state.doubted]
