"""What a live replay has of the record behind the place where it begins: ends of calls to give, and inputs to send."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import msgspec

from agentos import codec
from agentos.components import CallConfig, CallStatus, GivenEnd, TurnConfig
from agentos.errors import ReplayRefused
from agentos.events.entry import ERASED, Entry, Registry
from agentos.events.kinds import (
    CallFinished,
    CallSource,
    InputReceived,
    ModelFinished,
    ModelRequested,
    TurnStarted,
)
from agentos.governance.schema import normalized
from agentos.history.reading import decoded, stored_units
from agentos.ids import CallId, LogId, Name, call_id
from agentos.persistence.base import LogRow, Store

GIVEN_STATUSES = frozenset({CallStatus.DONE, CallStatus.FAILED, CallStatus.TIMED_OUT})
"""Ends that say what a call brought. One that was cancelled, lost or unknown brought nothing that could be given."""


class Begin(msgspec.Struct, frozen=True):
    """Where a live replay begins: with this model request, in this turn, whose number counts from 1. upto is the end of the
    unit that asks, and the last entry that is shared."""

    request: int
    turn: int
    number: int
    upto: int


class Said(msgspec.Struct, frozen=True):
    """An input to send again. text is None when it is erased."""

    seq: int
    text: str | None
    ephemeral: bool = False


class Recorded(msgspec.Struct, frozen=True):
    """How a call ended in the record."""

    call: CallId
    end: GivenEnd


class Record:
    """turns are the inputs of each later turn. Ends are taken once each, in the order of the calls."""

    def __init__(self) -> None:
        self.turns: list[list[Said]] = []
        self._ends: dict[tuple[str, str], deque[Recorded]] = {}

    def add(self, tool: str, arguments: object, recorded: Recorded) -> None:
        self._ends.setdefault(_key(tool, arguments), deque()).append(recorded)

    def take(self, tool: str, arguments: object) -> Recorded | None:
        """The first end that is left of a call of this tool with these arguments."""
        left = self._ends.get(_key(tool, arguments))
        return left.popleft() if left else None

    @property
    def left(self) -> int:
        """How many ends nobody has taken."""
        return sum(map(len, self._ends.values()))


async def begin_of(store: Store, row: LogRow, *, at: int | None = None, turn: int | None = None) -> Begin:
    """The first model request of the log, of its turn'th turn, or the last one that was made by the entry at.

    Errors: ReplayRefused, which names what there is; CodecError, StoreDamaged, StoreUnavailable.
    """
    if at is not None and not 1 <= at <= row.seq:
        raise ReplayRefused(row.id, f"there is no entry {at}; it has 1 to {row.seq}")
    found, number = None, 0
    async for unit in _units(store, row, 0, row.seq):
        for entry in unit:
            if at is not None and entry.seq > at:
                break
            number += isinstance(entry.data, TurnStarted)
            if isinstance(entry.data, ModelRequested) and turn in (None, number):
                found = Begin(entry.seq, entry.turn, number, unit[-1].seq)
        if found is not None and (at is None or unit[-1].seq >= at):
            return found
    if found is None:
        where = f"up to entry {at}" if at is not None else f"in turn {turn}" if turn is not None else "in it"
        raise ReplayRefused(row.id, f"no model was asked {where}; it has {number} {'turn' if number == 1 else 'turns'}")
    return found


async def record_of(store: Store, row: LogRow, begin: Begin) -> Record:
    """What the log has behind the place. Raises CodecError, StoreDamaged, StoreUnavailable."""
    record, calls, inputs = Record(), _Calls(row.id), dict[int, Said]()
    async for unit in _units(store, row, begin.upto, row.seq):
        for entry in unit:
            calls.take(entry)
            if isinstance(entry.data, InputReceived):
                text = entry.private[0][1]
                inputs[entry.seq] = Said(entry.seq, None if text is ERASED else text, entry.data.ephemeral)
            elif isinstance(entry.data, TurnStarted):
                config = next(value for _, value in entry.changes if isinstance(value, TurnConfig))
                record.turns.append([inputs[seq] for seq in config.inputs if seq in inputs])
    for tool, arguments, recorded in calls.ended():
        record.add(tool, arguments, recorded)
    return record


class _Calls:
    """Calls of replies with the arguments that the model gave, and how they ended."""

    def __init__(self, log: LogId) -> None:
        self._log = log
        self._bodies: dict[tuple[int, int], object] = {}
        self._asked: dict[int, CallConfig] = {}
        self._ends: dict[int, GivenEnd] = {}

    def take(self, entry: Entry) -> None:
        if isinstance(entry.data, ModelFinished):
            self._bodies |= {
                (entry.seq, i): value for i, (name, value) in enumerate(entry.private) if name == "arguments"
            }
        for entity, value in entry.changes:
            if isinstance(value, CallConfig) and value.parent is None:
                self._asked.setdefault(entity, value)
        if isinstance(entry.data, CallFinished) and (end := _end(entry, entry.data)) is not None:
            self._ends[entry.call] = end

    def ended(self) -> list[tuple[Name, object, Recorded]]:
        """In the order of the calls, those whose arguments are there."""
        found = []
        for call, config in sorted(self._asked.items()):
            arguments = self._bodies.get((config.arguments.seq, config.arguments.i), ERASED)
            if call in self._ends and arguments is not ERASED:
                found.append((config.tool, arguments, Recorded(call_id(self._log, call), self._ends[call])))
        return found


def _end(entry: Entry, data: CallFinished) -> GivenEnd | None:
    """What was decided on without a run, as a denial, is decided anew."""
    private = dict(entry.private)
    text = private.get("whole", private["result"])
    if data.status not in GIVEN_STATUSES or data.source is CallSource.DECIDED or text is ERASED:
        return None
    return GivenEnd(text=text, status=data.status, kind=data.call_kind, finish=data.finish)


def _key(tool: str, arguments: object) -> tuple[str, str]:
    return tool, codec.encode_body(normalized(arguments))


async def _units(store: Store, row: LogRow, after: int, upto: int | None) -> AsyncIterator[list[Entry]]:
    registry = Registry()
    async for unit in stored_units(store, row.id, after, upto):
        yield decoded(row.id, unit, registry)
