"""What a unit that was read recorded, and its answers to what a pass may ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from agentos.components import AgentContext, CallConfig, CycleLink, Narrowing
from agentos.events.entry import Entry, Head, Registry, entry_of
from agentos.events.kinds import CallFinished, CallSource, CallStarted, EntryData, ResourceNoted
from agentos.ids import AgentId, Digest, LogId
from agentos.persistence.base import StoredEntry
from agentos.world import View

Pinned = Callable[[Digest], AgentContext]
"""Gives the configuration that a turn pinned under a digest."""


class Unit(msgspec.Struct, frozen=True):
    """A stored unit as it was read. looked_at are those of its entries that tell its intake and its oracle, decoded."""

    stored: Sequence[StoredEntry]
    heads: Sequence[Head]
    looked_at: Sequence[Entry]
    pins: Sequence[Digest]

    @property
    def has_erased(self) -> bool:
        return any(body is None for one in self.stored for *_, body in one.payloads)

    def entries(self, log: LogId, registry: Registry) -> list[Entry]:
        """All of them. Raises CodecError."""
        return [decoded(log, one, head, registry) for one, head in zip(self.stored, self.heads, strict=True)]


class Recorded:
    """Answers what a pass may ask from the unit that it once made."""

    def __init__(self, unit: Unit, pinned: Pinned) -> None:
        self.pinned = pinned
        self._started = {head.call for head in unit.heads if head.kind == CallStarted.kind}
        self._deadlocks = {entry.call: () for entry in unit.looked_at if _is_deadlock(entry.data)} | _cycles(unit)
        self._pins = [*unit.pins]
        self.asked: list[tuple[int, tuple[Narrowing, ...]]] = []
        self.asked_in_vain = False

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return call in self._started

    def deadlock(self, view: View, call: int) -> tuple[CycleLink, ...] | None:
        return self._deadlocks.get(call)

    def begins(self, view: View) -> bool:
        """Where a turn waited for its place no context is recorded, and asking for one says so."""
        return True

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        """Where none is recorded, none was to be had: asking for it raised then, and raises now."""
        if not self._pins:
            self.asked_in_vain = True
            raise LookupError("no context is recorded here")
        self.asked.append((depth, narrowings))
        return self._pins.pop(0)


def decoded(log: LogId, stored: StoredEntry, head: Head, registry: Registry) -> Entry:
    return entry_of(log, head, {i: body for i, _, _, body in stored.payloads}, registry)


def _is_deadlock(data: EntryData) -> bool:
    return isinstance(data, CallFinished) and data.call_kind == "deadlock" and data.source is CallSource.DECIDED


def _cycles(unit: Unit) -> dict[int, tuple[CycleLink, ...]]:
    """The waits of each deadlock that was decided on; logs of old do not tell them."""
    return {
        entry.call: entry.data.cycle
        for entry in unit.looked_at
        if isinstance(entry.data, ResourceNoted) and entry.data.decided
    }
