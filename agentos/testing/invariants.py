"""The invariants of the architecture, as functions over a kernel and its store. Each says what is broken, in words.

They hold between ticks; `agentos.testing.checker` asks them after each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agentos.components import (
    CallConfig,
    CallState,
    CallStatus,
    ConversationState,
    Phase,
    ToolboxSharing,
    TurnState,
    Waiting,
)
from agentos.events.effects import AskHook, Effect, RequestModel, RunCall, StopCall, StopTurn
from agentos.events.intake import CallReport, HookReport, Item, ModelReport, Probed, Resume, SlotFree
from agentos.ids import CONVERSATION, Kind, LogId, Name
from agentos.journal.projections import shown_state
from agentos.kernel import Kernel
from agentos.kernel.loaded import Loaded
from agentos.systems.ending import has_slot
from agentos.world import Slice

Work = tuple[str, int, int]
"""What runs: model, call, hook or probe; the seq of its request or call; its attempt."""


class InvariantBroken(AssertionError):
    """Something that must always hold does not; `broken` has one sentence for each finding."""

    def __init__(self, broken: list[str]) -> None:
        self.broken = broken
        super().__init__("\n".join(broken))


def world_is_fold(live: Slice, folded: Slice) -> list[str]:
    """The loaded part of a log is what its entries say, component by component, with transcript and bodies."""
    broken = []
    for entity in sorted(live.rows.keys() | folded.rows.keys()):
        has, should = live.rows.get(entity, {}), folded.rows.get(entity, {})
        for type_ in sorted(has.keys() | should.keys(), key=lambda type_: str(type_.component)):
            if has.get(type_) != should.get(type_):
                where = f"{live.log}, entity {entity}, {type_.component}"
                broken.append(f"{where}: the World has {has.get(type_)}, the store {should.get(type_)}")
    if _shape(live) != _shape(folded):
        broken.append(f"{live.log}: the transcript is not that of the store")
    if live.bodies != folded.bodies:
        differ = sorted(live.bodies.keys() ^ folded.bodies.keys()) or "values"
        broken.append(f"{live.log}: the bodies at hand are not those of the store ({differ})")
    return broken


def _shape(slice_: Slice) -> tuple[Any, ...]:
    """A transcript without what two of the same messages may differ in: how long the lists behind them are by now."""
    seen = slice_.transcript
    fields = [getattr(seen, name) for name in seen.__struct_fields__ if name not in ("pieces", "begins", "purge")]
    return list(seen.messages), seen.begins[: seen.turns], fields, seen.purge is None


def derived_is_recomputed(kernel: Kernel) -> list[str]:
    """The indexes of the World and the shown states say what the components say."""
    broken = []
    for phase in Phase:
        indexed = set(kernel.world.in_phase(phase))
        real = {slice_.log for slice_ in kernel.world.slices() if phase in _phases(slice_)}
        if indexed != real:
            broken.append(f"in_phase({phase.value}) differs from the components for {sorted(indexed ^ real)}")
    for log, loaded in sorted(kernel.ticker.loaded.items()):
        if not loaded.head.new and loaded.times.shown != shown_state(loaded.slice.get):
            broken.append(f"{log} is shown as {loaded.times.shown}, but is {shown_state(loaded.slice.get)}")
    return broken


def _phases(slice_: Slice) -> set[Phase]:
    return {row[TurnState].phase for row in slice_.rows.values() if TurnState in row}


def _grounded(kernel: Kernel) -> list[tuple[LogId, Loaded]]:
    """Loaded logs but for those in between: their last unit is still on its way, as after a connection was lost at a
    commit, or they were just taken over and have not had their first pass."""
    loaded = sorted(kernel.ticker.loaded.items())
    return [
        (log, one) for log, one in loaded if not one.flying and not any(type(item) is Resume for item in one.intake)
    ]


def _is_flying(kernel: Kernel, log: str) -> bool:
    loaded = kernel.ticker.loaded.get(LogId(log))
    return loaded is not None and loaded.flying


def effects_are_intended(kernel: Kernel) -> list[str]:
    """What should run by the stored state runs once, or its report waits; nothing else runs."""
    broken = []
    for log, loaded in _grounded(kernel):
        wanted = Counter(_wanted(loaded))
        found = Counter(_work_of(effect) for effect in kernel.runner.of(log))
        found.update(work for item in loaded.intake if (work := _reported(item)) is not None)
        for work in sorted(wanted.keys() | found.keys()):
            if wanted[work] > found[work]:
                broken.append(f"{log}: {work} is started, but nothing runs it and no report came")
            elif found[work] > max(wanted[work], 1) or (found[work] and not wanted[work] and not _may_be_late(work)):
                broken.append(f"{log}: {work} runs {found[work]} times, but is wanted {wanted[work]} times")
    unknown = sorted({effect.log for effect in _all_effects(kernel)} - kernel.ticker.loaded.keys())
    return broken + [f"effects run for {log}, which is not loaded" for log in unknown]


def _all_effects(kernel: Kernel) -> Iterator[Effect]:
    for log in kernel.world.entities(Kind.CONVERSATION):
        yield from kernel.runner.of(LogId(log))


def _wanted(loaded: Loaded) -> Iterator[Work]:
    state = _open_turn(loaded)
    if state is None:
        return
    if state.requested:
        yield "model", state.requested, 0
    for call in state.calls + state.inner:
        call_state = loaded.slice.get(call, CallState)
        if call_state is None:
            continue
        if call_state.waiting is Waiting.DOUBT:
            if not call_state.doubted:  # else a person is waited for
                yield "probe", call, 0
        elif call_state.waiting is Waiting.HOOK:
            yield "hook", call, 0
        elif call_state.status is CallStatus.STARTED and call_state.child is None:
            yield "call", call, call_state.attempt


def _may_be_late(work: Work) -> bool:
    """A hook is not waited for when a turn is ended, and what it still says is dropped."""
    return work[0] == "hook"


def _open_turn(loaded: Loaded) -> TurnState | None:
    state = loaded.slice.get(CONVERSATION, ConversationState)
    return loaded.slice.get(state.open_turn, TurnState) if state is not None and state.open_turn else None


def _work_of(effect: Effect) -> Work:
    if isinstance(effect, RequestModel):
        return "model", effect.base_seq, 0
    if isinstance(effect, RunCall):
        return "call", effect.call, effect.attempt
    assert not isinstance(effect, (StopTurn, StopCall)), "it is done at once"
    return ("hook" if isinstance(effect, AskHook) else "probe"), effect.call, 0


def _reported(item: Item) -> Work | None:
    if isinstance(item, ModelReport):
        return "model", item.base_seq, 0
    if isinstance(item, CallReport):
        return "call", item.call, item.attempt
    if isinstance(item, HookReport):
        return "hook", item.call, 0
    return ("probe", item.call, 0) if isinstance(item, Probed) else None


def slots_are_held(kernel: Kernel) -> list[str]:
    """A call holds a slot of its toolbox exactly while it runs here; a room kept for a call has told it so."""
    broken = []
    running = {
        (log, call): config.toolbox
        for log, loaded in _grounded(kernel)
        for call, config, state in _calls(loaded)
        if has_slot(state)
    }
    for statistics in kernel.slots.statistics():
        for log, call in statistics.holders:
            if (log, call) not in running and not _is_granted(kernel, log, call) and not _is_flying(kernel, log):
                broken.append(f"{log} call {call} holds a slot of {statistics.toolbox}, but does not run")
        broken.extend(
            f"{log} call {call} waits for a slot of {statistics.toolbox}, but is not to be started"
            for log, call in statistics.waiters
            if not _is_proposed(kernel, log, call) and not _is_flying(kernel, log)
        )
    broken.extend(
        f"{log} call {call} runs without a slot of {toolbox}"
        for (log, call), toolbox in sorted(running.items())
        if _is_bounded(kernel, toolbox) and not kernel.slots.holds((log, call))
    )
    return broken


def limits_hold(kernel: Kernel) -> list[str]:
    """No bound of turns or calls at once is exceeded, and what is at work has a place, or goes by that of a running call."""
    broken, admission, at_once = [], kernel.ticker.admission, kernel.slots.at_once
    used = [("turns", one) for one in admission.statistics()] if admission is not None else []
    used += [("calls", one) for one in at_once.statistics()] if at_once is not None else []
    for what, one in used:
        if one.held > one.size:
            broken.append(f"{one.held} {what} of {one.scope} {one.name} have a place, but {one.size} may")
    for log, loaded in _grounded(kernel):
        if admission is not None and loaded.times.shown == "running" and not admission.holds(log):
            broken.append(f"{log} runs without a place among the turns")
        broken.extend(
            f"{log} call {call} runs without a place among the calls"
            for call, _, state in _calls(loaded)
            if at_once is not None and has_slot(state) and not at_once.holds((log, call))
        )
    return broken


def _is_bounded(kernel: Kernel, toolbox: Name | None) -> bool:
    found = kernel.catalog.toolboxes.get(toolbox) if toolbox is not None else None
    return found is not None and found.sharing is not ToolboxSharing.STATELESS


def _calls(loaded: Loaded) -> Iterator[tuple[int, CallConfig, CallState]]:
    state = _open_turn(loaded)
    for call in state.calls + state.inner if state is not None else ():
        config, call_state = loaded.slice.get(call, CallConfig), loaded.slice.get(call, CallState)
        if config is not None and call_state is not None:
            yield call, config, call_state


def _is_proposed(kernel: Kernel, log: str, call: int) -> bool:
    loaded = kernel.ticker.loaded.get(LogId(log))
    state = loaded.slice.get(call, CallState) if loaded is not None else None
    return state is not None and state.status is CallStatus.PROPOSED


def _is_granted(kernel: Kernel, log: str, call: int) -> bool:
    """Its turn has come, and its conversation has not had its pass yet."""
    loaded = kernel.ticker.loaded.get(LogId(log))
    told = loaded is not None and any(isinstance(item, SlotFree) and item.call == call for item in loaded.intake)
    return told and _is_proposed(kernel, log, call)
