"""Whether what begins in a log ends there, once: model requests, attempts of calls, and all calls of a turn with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.components import CallConfig, CallStatus
from agentos.events.entry import Head, decode_head
from agentos.events.kinds import CallFinished, CallStarted, ModelFinished, ModelRequested, TurnFinished, TurnStarted
from agentos.history.reading import stored_units
from agentos.history.report import Finder
from agentos.persistence.base import Store


class Pairing:
    """Takes the heads of one log in order; what does not pair goes to the finder as `entries.pair`."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._request = 0
        self._running: set[int] = set()
        self._asked: set[int] = set()
        self._ended: set[int] = set()

    def add(self, head: Head) -> None:
        take = _TAKE.get(head.kind)
        if take is not None:
            take(self, head)
        if head.call and head.kind != CallFinished.kind and _names_call(head):
            self._asked.add(head.call)

    def _turn_started(self, head: Head) -> None:
        self._running, self._asked, self._ended = set(), set(), set()

    def _requested(self, head: Head) -> None:
        if self._request:
            self._differ(head, f"a second request while that of seq {self._request} is open", "its reply first")
        self._request = head.seq

    def _replied(self, head: Head) -> None:
        if not self._request:
            self._differ(head, "a reply", "a request before it")
        self._request = 0

    def _started(self, head: Head) -> None:
        if head.call in self._running or head.call in self._ended:
            self._differ(head, f"call {head.call} starts while it runs or after its end", "one start of an attempt")
        self._running.add(head.call)

    def _finished(self, head: Head) -> None:
        lost = (head.data or {}).get("status") == CallStatus.LOST.value
        if head.call in self._ended:
            self._differ(head, f"call {head.call} ends a second time", "one result")
        elif head.call not in self._asked and head.call not in self._running:
            self._differ(head, f"the end of call {head.call}", "a call before it")
        self._running.discard(head.call)
        if not lost:
            self._ended.add(head.call)

    def _turn_finished(self, head: Head) -> None:
        left = sorted(self._asked - self._ended)
        if left:
            self._differ(head, f"ends without a result for calls {left}", "a result for each")
        if self._request:
            self._differ(head, f"ends while the request of seq {self._request} is open", "its reply")
        self._request = 0
        self._asked, self._ended = set(), set()

    def _differ(self, head: Head, stored: str, expected: str) -> None:
        self._finder.differ(head.seq, "entries", "pair", f"{head.kind}: {stored}", expected)


_TAKE: dict[str, Any] = {
    TurnStarted.kind: Pairing._turn_started,
    ModelRequested.kind: Pairing._requested,
    ModelFinished.kind: Pairing._replied,
    CallStarted.kind: Pairing._started,
    CallFinished.kind: Pairing._finished,
    TurnFinished.kind: Pairing._turn_finished,
}


async def check_pairing(store: Store, log: str, finder: Finder) -> None:
    """Reads a log, in a fork with what it shares. Raises CodecError for a head that cannot be read; StoreDamaged."""
    pairing = Pairing(finder)
    async for unit in stored_units(store, log):
        for head in heads_of([one.head for one in unit]):
            pairing.add(head)


def heads_of(heads: Sequence[str]) -> list[Head]:
    return [decode_head(head) for head in heads]


def _names_call(head: Head) -> bool:
    """Whether the entry brings a call into being."""
    return any(entity == head.call and name == CallConfig.component for entity, name, _ in head.changes)
