"""Counts what a kernel does while somebody looks: turns, requests, calls, tokens, batches of the store, the lag of the loop.

Nothing is counted when nobody asks. The first question begins it, and it ends METER_IDLE_S after the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence

from agentos.clock import Clock, Timer
from agentos.components import CallStatus, ConversationConfig, Phase, TurnState
from agentos.events.entry import Draft
from agentos.events.kinds import (
    CallFinished,
    CallStarted,
    ModelFinished,
    ModelRequested,
    TurnFinished,
    TurnStarted,
)
from agentos.ids import CONVERSATION, LogId, Micros, Name
from agentos.kernel.loaded import Loaded
from agentos.kernel.top import Batches, Work

METER_IDLE_S = 30.0
"""How long it goes on counting for nobody."""
LAG_EVERY_S = 0.25
LAG_SAMPLES = 4
"""How many of the last samples the lag is the largest of: a second, as it is looked at."""


class Meter:
    """on_off is told when counting begins and ends, so that whoever feeds it can leave that when it is off."""

    def __init__(self, clock: Clock, on_off: Callable[[bool], None]) -> None:
        self._clock, self._on_off = clock, on_off
        self.on = False
        self.counted_s = 0.0
        self.work = Work()
        self.agents: dict[Name, Work] = {}
        self.batches = Batches()
        self.phases: dict[LogId, tuple[Phase, Micros]] = {}
        self._lags_ms: deque[float] = deque(maxlen=LAG_SAMPLES)
        self._appends_ms: deque[tuple[float, float]] = deque()
        self._timer: Timer | None = None
        self._since = self._asked = self._due = 0.0

    def asked(self) -> None:
        """Somebody looks: it counts from here on, and goes on for a while."""
        now = self._asked = self._clock.monotonic()
        if not self.on:
            self.on, self._since = True, now
            self._on_off(True)
            self._wait(now)
        self.counted_s += now - self._since
        self._since = now
        self.batches.longest_ms = self._longest_ms(now)

    def close(self) -> None:
        """Counts no more; what was counted stays, and goes on with the next question."""
        if not self.on:
            return
        self.on = False
        self.counted_s += self._clock.monotonic() - self._since
        self._on_off(False)
        if self._timer is not None:
            self._timer.cancel()
        self.phases.clear()
        self._lags_ms.clear()
        self._appends_ms.clear()

    @property
    def lag_ms(self) -> float | None:
        """By how much the loop was late at most, in the last second; None before the first sample."""
        return max(self._lags_ms, default=None)

    def landed(self, loaded: Loaded, drafts: Sequence[Draft], at: Micros) -> None:
        """A unit was stored."""
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        slug = config.slug if config is not None else Name("-")
        for draft in drafts:
            count = _COUNT.get(type(draft.data))
            if count is not None:
                count(self.work, draft)
                count(self.agents.setdefault(slug, Work()), draft)
            self._note_phase(loaded.log, draft, at)

    def appended(self, units: int, took_s: float, *, failed: bool) -> None:
        """An append has ended."""
        took_ms = 1_000 * took_s
        self.batches.appends += 1
        self.batches.units += units
        self.batches.failed += failed
        self.batches.took_ms += took_ms
        while self._appends_ms and self._appends_ms[-1][1] <= took_ms:
            self._appends_ms.pop()  # one that was not longer will never again be the longest
        self._appends_ms.append((self._clock.monotonic(), took_ms))

    def keep(self, logs: Container[LogId]) -> None:
        """Forgets the phases of others: they have left the memory."""
        self.phases = {log: phase for log, phase in self.phases.items() if log in logs}

    def _longest_ms(self, now: float) -> float:
        while self._appends_ms and self._appends_ms[0][0] < now - LAG_EVERY_S * LAG_SAMPLES:
            self._appends_ms.popleft()
        return self._appends_ms[0][1] if self._appends_ms else 0.0

    def _note_phase(self, log: LogId, draft: Draft, at: Micros) -> None:
        """A snapshot repeats the phase of the turn that is loaded, which changes nothing."""
        for _, component in draft.changes:
            if type(component) is not TurnState:
                continue
            if component.phase is Phase.SETTLED:
                self.phases.pop(log, None)
            elif self.phases.get(log, (None,))[0] is not component.phase:
                self.phases[log] = (component.phase, at)

    def _wait(self, now: float) -> None:
        self._due = now + LAG_EVERY_S
        self._timer = self._clock.call_later(LAG_EVERY_S, self._sample)

    def _sample(self) -> None:
        now = self._clock.monotonic()
        self._lags_ms.append(1_000 * max(0.0, now - self._due))
        self._longest_ms(now)  # forgets those that are too old
        if now - self._asked > METER_IDLE_S:
            self.close()
        else:
            self._wait(now)


def _turn_started(work: Work, _: Draft) -> None:
    work.turns_started += 1


def _turn_finished(work: Work, _: Draft) -> None:
    work.turns_finished += 1


def _requested(work: Work, _: Draft) -> None:
    work.requests += 1


def _replied(work: Work, draft: Draft) -> None:
    data = draft.data
    assert isinstance(data, ModelFinished), "the table below says so"
    work.replies += 1
    work.replies_failed += data.error is not None
    work.input_tokens += data.usage.input_tokens
    work.output_tokens += data.usage.output_tokens


def _call_started(work: Work, _: Draft) -> None:
    work.calls_started += 1


def _call_finished(work: Work, draft: Draft) -> None:
    data = draft.data
    assert isinstance(data, CallFinished), "the table below says so"
    work.calls_finished += 1
    work.calls_failed += data.status is not CallStatus.DONE


_COUNT: dict[type, Callable[[Work, Draft], None]] = {
    TurnStarted: _turn_started,
    TurnFinished: _turn_finished,
    ModelRequested: _requested,
    ModelFinished: _replied,
    CallStarted: _call_started,
    CallFinished: _call_finished,
}
