"""What must hold within one log, entry by entry: the chain, the table of phases, and one end for each beginning."""

from __future__ import annotations

from agentos.components import CallConfig, CallState, CallStatus, Phase, TurnState
from agentos.events.entry import Entry, Registry, commitment, decode_entry, decode_head, next_digest, seed_digest
from agentos.events.kinds import (
    CallFinished,
    CallNested,
    CallStarted,
    ModelFinished,
    ModelRequested,
    Snapshot,
    TurnFinished,
    TurnStarted,
)
from agentos.ids import LogId
from agentos.persistence.base import StoredEntry


class LogCheck:
    """Reads a log from its beginning and says what is broken; it may be given new entries as they come.

    origin is the log that a fork came from, over all its parents.
    """

    def __init__(self, log: LogId, registry: Registry, origin: LogId | None = None) -> None:
        self.log = log
        self.seq = 0
        self.digest = seed_digest(origin or log)
        self.broken: list[str] = []
        self._registry = registry
        self._unit = 0
        self._at: dict[int, int] = {}
        self._phases: dict[int, Phase] = {}
        self._requested = 0
        self._attempts: dict[int, int] = {}
        self._started: set[int] = set()
        self._turn_calls: set[int] = set()
        self._ended: set[int] = set()
        self._callers: dict[int, int] = {}

    def add(self, stored: StoredEntry) -> Entry:
        """The next entry, decoded."""
        self._check_chain(stored)
        entry = decode_entry(self.log, stored.head, {i: body for i, _, _, body in stored.payloads}, self._registry)
        self._check_time(entry)
        self._check_phases(entry)
        self._check_pairs(entry)
        return entry

    def say(self, seq: int, what: str) -> None:
        self.broken.append(f"{self.log} seq {seq}: {what}")

    def _check_chain(self, stored: StoredEntry) -> None:
        """Gapless seqs, units that begin with their first entry, chained digests, commitments that fit the bodies."""
        if stored.seq != self.seq + 1:
            self.say(stored.seq, f"comes after seq {self.seq}")
        if stored.unit not in (self._unit, stored.seq):
            self.say(stored.seq, f"its unit {stored.unit} is neither the one before nor a new one")
        digest = next_digest(self.digest, stored.head.encode())
        if digest != stored.digest:
            self.say(stored.seq, "its digest does not follow from the one before")
        commitments = [digest for _, digest in decode_head(stored.head).commitments]
        values = [(salt, body) for _, _, salt, body in sorted(stored.payloads, key=lambda row: row[0])]
        if len(values) != len(commitments) or not all(map(_fits, commitments, values)):
            self.say(stored.seq, "its commitments are not those of its payloads")
        self.seq, self.digest, self._unit = stored.seq, stored.digest, stored.unit

    def _check_time(self, entry: Entry) -> None:
        if entry.at < self._at.get(entry.writer, 0):
            self.say(entry.seq, f"the time of writer {entry.writer} goes back")
        self._at[entry.writer] = entry.at

    def _check_phases(self, entry: Entry) -> None:
        """Phases move along the table alone."""
        for entity, component in entry.changes:
            if not isinstance(component, TurnState) or isinstance(entry.data, Snapshot):
                continue
            before, after = self._phases.get(entity), component.phase
            begins = before is None and not isinstance(entry.data, TurnStarted)
            if after is not before and (begins or after not in entry.data.after):
                was = before.value if before is not None else "nothing"
                self.say(entry.seq, f"{entry.data.kind} moves the turn from {was} to {after.value}")
            self._phases[entity] = after

    def _check_pairs(self, entry: Entry) -> None:
        """One end for each model request and for each started attempt of a call, and none without its beginning."""
        data = entry.data
        if isinstance(data, Snapshot):
            return
        if isinstance(data, ModelRequested):
            if self._requested:
                self.say(entry.seq, f"a second request while that of seq {self._requested} is open")
            self._requested = entry.seq
        elif isinstance(data, ModelFinished):
            if not self._requested:
                self.say(entry.seq, "a reply without a request")
            self._requested = 0
        elif isinstance(data, TurnStarted):
            self._turn_calls, self._ended, self._callers = set(), set(), {}
        elif isinstance(data, CallNested):
            self._check_nested(entry, data)
        elif isinstance(data, CallStarted):
            self._check_start(entry)
        elif isinstance(data, CallFinished):
            self._check_end(entry, data)
        elif isinstance(data, TurnFinished):
            self._check_turn_end(entry)
        self._turn_calls |= {entity for entity, component in entry.changes if isinstance(component, CallConfig)}

    def _check_nested(self, entry: Entry, data: CallNested) -> None:
        """An inner call is asked for by an attempt that runs."""
        config = next((value for _, value in entry.changes if isinstance(value, CallConfig)), None)
        caller = config.parent if config is not None else None
        if caller is None or caller not in self._started or self._attempts[caller] != data.attempt:
            self.say(entry.seq, f"attempt {data.attempt} of call {caller} asks for a call, but does not run")
        self._callers[entry.call] = caller or 0

    def _check_start(self, entry: Entry) -> None:
        state = next((value for entity, value in entry.changes if isinstance(value, CallState)), None)
        attempt = state.attempt if state is not None else 0
        if entry.call in self._started or entry.call in self._ended:
            self.say(entry.seq, f"call {entry.call} starts while it runs or after its end")
        if entry.call in self._callers and self._callers[entry.call] not in self._started:
            self.say(entry.seq, f"inner call {entry.call} starts when call {self._callers[entry.call]} runs no more")
        if attempt != self._attempts.get(entry.call, 0) + 1:
            self.say(entry.seq, f"call {entry.call} starts as attempt {attempt}")
        self._attempts[entry.call] = attempt
        self._started.add(entry.call)

    def _check_end(self, entry: Entry, data: CallFinished) -> None:
        if data.status is CallStatus.LOST:
            if entry.call not in self._started:
                self.say(entry.seq, f"call {entry.call} is lost, but no attempt of it ran")
        elif entry.call in self._ended:
            self.say(entry.seq, f"call {entry.call} ends a second time")
        else:
            self._ended.add(entry.call)
        self._started.discard(entry.call)

    def _check_turn_end(self, entry: Entry) -> None:
        if self._requested:
            self.say(entry.seq, f"the turn ends while the request of seq {self._requested} is open")
        left = sorted(self._turn_calls - self._ended)
        if left:
            self.say(entry.seq, f"the turn ends without a result for calls {left}")


def _fits(committed: bytes, value: tuple[bytes | None, str | None]) -> bool:
    """A value that was erased fits; `verify` asks for its receipt."""
    salt, body = value
    return (salt is None and body is None) or commitment(salt or b"", body or "") == committed
