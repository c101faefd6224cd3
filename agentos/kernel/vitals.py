"""How a running kernel does: `kernel.top()`. It is read off what is there; only rates need counting, while somebody looks.

Counters only grow, so whoever asks twice has rates of his own: the difference of two, by the seconds counted in between.
"""

from __future__ import annotations

import heapq
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agentos.clock import Clock
from agentos.components import (
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    Phase,
    TurnConfig,
    TurnState,
    Waiting,
)
from agentos.effects import Runner
from agentos.errors import KernelClosed
from agentos.events.effects import AskHook, Effect, Probe, RequestModel, RunCall
from agentos.ids import CONVERSATION, ConversationId, Micros, Name, turn_id
from agentos.kernel.host import LiveHost
from agentos.kernel.loaded import Loaded
from agentos.kernel.metering import Meter
from agentos.kernel.open_resources import OpenResources
from agentos.kernel.tick import Ticker
from agentos.kernel.top import TURNS_SHOWN, TURNS_SHOWN_MAX, AgentVitals, OpenTurn, ProcessVitals, Top, Work

RUNNING = "running"
_OPEN = frozenset({RUNNING, "parked"})
"""The states of an open turn."""
_WORDS: dict[type, str] = {RequestModel: "model", RunCall: "call", AskHook: "hook", Probe: "probe"}


class Vitals:
    """Answers `kernel.top()`. url is that of the store, without a password."""

    def __init__(
        self,
        ticker: Ticker,
        runner: Runner,
        host: LiveHost,
        clock: Clock,
        url: str,
        resources: OpenResources,
    ) -> None:
        self._ticker, self._runner, self._clock, self._url = ticker, runner, clock, url
        self._resources = resources
        self._host = host
        self.meter = Meter(clock, self._count)
        self._opened_s = 0.0
        self._closed = False

    def open(self) -> None:
        self._opened_s = self._clock.monotonic()

    def close(self) -> None:
        self._closed = True
        self.meter.close()

    def top(self, turns_max: int = TURNS_SHOWN) -> Top:
        """Now; turns_max bounds how many turns are told of one by one. Raises KernelClosed."""
        if self._closed:
            raise KernelClosed
        self.meter.asked()
        if len(self.meter.phases) > len(self._ticker.loaded):
            self.meter.keep(self._ticker.loaded)
        open_turns = [one for one in self._ticker.loaded.values() if one.times.shown in _OPEN]
        lines = self._lines()
        waits = Counter(word for one in open_turns for word in _waits(one))
        waits.update(word for words in lines.values() for word in words)
        first = heapq.nsmallest(min(turns_max, TURNS_SHOWN_MAX), open_turns, key=_rank)
        return Top(
            at=self._clock.now(),
            writer=self._ticker.writer,
            store=self._url,
            up_s=round(self._clock.monotonic() - self._opened_s, 3),
            conversations=_by_state(self._ticker.loaded.values()),
            turns=tuple(self._shown(one, lines.get(one.log, ())) for one in first),
            turns_open=len(open_turns),
            effects=dict(Counter(_WORDS[type(effect)] for effect, _ in self._runner.running())),
            waits=dict(waits),
            ready=self._ticker.ready,
            ticks=self._ticker.ticks,
            agents=self._agents(open_turns),
            resources=tuple(self._resources.uses()),
            process=_process(),
            counted_s=round(self.meter.counted_s, 6),
            work=msgspec.structs.replace(self.meter.work),
            batches=msgspec.structs.replace(self.meter.batches),
            lag_ms=self.meter.lag_ms,
        )

    def _count(self, on: bool) -> None:
        """Begins or ends to be told of what is stored."""
        self._host.meter = self.meter if on else None
        self._ticker.time_appends(self.meter.appended if on else None)

    def _shown(self, loaded: Loaded, in_line: Iterable[str]) -> OpenTurn:
        slice_, turn = loaded.slice, _turn_of(loaded)
        config, state = slice_.get(turn, TurnConfig), slice_.get(turn, TurnState)
        assert config is not None and state is not None, "an open turn has both"
        whose = slice_.get(CONVERSATION, ConversationConfig)
        return OpenTurn(
            conversation=ConversationId(loaded.log),
            turn=turn_id(loaded.log, turn),
            agent=_agent(loaded),
            state=loaded.times.shown,
            phase=state.phase,
            step=state.step_index + 1,
            calls=state.calls_made,
            started_at=config.started_at,
            phase_at=self._phase_at(loaded, state),
            doing=tuple(sorted(_name(effect) for effect in self._runner.of(loaded.log))),
            waits=tuple(sorted({*_waits(loaded), *in_line})),
            tenant=whose.tenant if whose is not None else None,
        )

    def _lines(self) -> dict[str, list[str]]:
        """By conversation, a word for each place in line that it has: these waits are in no log."""
        words: dict[str, list[str]] = {}
        for log, word in self._resources.in_line():
            words.setdefault(log, []).append(word)
        return words

    def _phase_at(self, loaded: Loaded, state: TurnState) -> Micros | None:
        """Of a turn that was in this phase before anybody looked, the calls tell at most."""
        phase = self.meter.phases.get(loaded.log)
        if phase is not None and phase[0] is state.phase:
            return phase[1]
        if state.phase is not Phase.CALL:
            return None
        calls = (loaded.slice.get(call, CallState) for call in state.calls)
        return min(
            (call.started_at for call in calls if call is not None and call.started_at is not None), default=None
        )

    def _agents(self, open_turns: Iterable[Loaded]) -> tuple[AgentVitals, ...]:
        """Those with an open turn, or with work since counting began, by name."""
        running, parked = Counter[Name](), Counter[Name]()
        for loaded in open_turns:
            (running if loaded.times.shown == RUNNING else parked)[_agent(loaded)] += 1
        return tuple(
            AgentVitals(
                agent=slug,
                running=running[slug],
                parked=parked[slug],
                work=msgspec.structs.replace(self.meter.agents.get(slug) or Work()),
            )
            for slug in sorted({*running, *parked, *self.meter.agents})
        )


def _turn_of(loaded: Loaded) -> int:
    """The seq of the open turn, 0 when there is none."""
    state = loaded.slice.get(CONVERSATION, ConversationState)
    return state.open_turn if state is not None else 0


def _agent(loaded: Loaded) -> Name:
    config = loaded.slice.get(CONVERSATION, ConversationConfig)
    return config.slug if config is not None else Name("-")


def _rank(loaded: Loaded) -> tuple[bool, int]:
    config = loaded.slice.get(_turn_of(loaded), TurnConfig)
    return loaded.times.shown != RUNNING, config.started_at if config is not None else 0


def _by_state(loaded: Iterable[Loaded]) -> dict[str, int]:
    return dict(Counter(one.times.shown for one in loaded if one.times.shown))


def _waits(loaded: Loaded) -> Iterable[str]:
    """What the log says that a turn waits for, a word for each wait."""
    state = loaded.slice.get(_turn_of(loaded), TurnState)
    if state is None:
        return
    if state.phase is Phase.PROMPT and state.retry_at is not None:
        yield "retry"
    for call in state.calls + state.inner:
        call_state = loaded.slice.get(call, CallState)
        if call_state is None:
            continue
        if call_state.waiting is not None and call_state.waiting is not Waiting.HOOK:
            yield call_state.waiting.value
        elif call_state.status is CallStatus.STARTED and call_state.child is not None:
            yield Waiting.CHILD.value


def _name(effect: Effect) -> str:
    return effect.tool if isinstance(effect, (RunCall, AskHook, Probe)) else "model"


def _process() -> ProcessVitals:
    return ProcessVitals(
        pid=os.getpid(),
        threads=threading.active_count(),
        memory_bytes=_memory_bytes(),
        files=_count_files(),
        children=_count_children(),
    )


def _memory_bytes() -> int | None:
    """What of the process is in memory; where only its peak is told, that."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return _peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _count_files() -> int | None:
    """Open file descriptors, without the one that lists them."""
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(place)) - 1
        except OSError:
            continue
    return None


def _count_children() -> int | None:
    """Child processes of all threads, also those that ended and were not waited for."""
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        return sum(len((task / "children").read_text().split()) for task in tasks)
    except OSError:
        return None
