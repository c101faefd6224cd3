"""The tick: passes of all ready conversations, one append, apply, publish, start effects.

No task exists for a conversation. What arrives is intake; a conversation with intake is ready; a tick takes the ready ones
in order of arrival. While an append is under way elsewhere, what arrives waits for the next tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentos.clock import Clock
from agentos.components import CallState, CallStatus, TurnConfig, TurnState
from agentos.errors import StoreUnavailable
from agentos.events.effects import Effect
from agentos.events.entry import Draft
from agentos.events.intake import Item
from agentos.events.kinds import (
    CallDoubted,
    CallFinished,
    CallNested,
    CallStarted,
    InputReceived,
    Snapshot,
    TurnFinished,
    TurnStarted,
)
from agentos.ids import Digest, LogId, Micros, SaltSource
from agentos.journal import Sealed, apply, posted_item, seal
from agentos.kernel.alarms import Alarms
from agentos.kernel.loaded import Loaded
from agentos.kernel.waiters import Waiters
from agentos.persistence.base import LogRow, Store, Unit, Verdict
from agentos.settings import Settings
from agentos.systems import Schedule, run_pass
from agentos.world import Oracle, View, World

_log = logging.getLogger(__name__)
STORE_RETRY_S = 0.5
"""How long the kernel waits before it asks a store again that was not there."""


class Host(Protocol):
    """What the tick needs of the kernel around it."""

    def definitions(self, digest: str) -> Sequence[tuple[str, str, str]]: ...
    def give_slot_back(self, log: LogId, call: int) -> None: ...
    def route(self, log: LogId, item: Item, key: str) -> None: ...
    def start_effect(self, effect: Effect) -> None: ...
    def turn_started(self, context: Digest) -> None: ...
    def turn_finished(self, loaded: Loaded, turn: int) -> None: ...
    def landed(self, loaded: Loaded, drafts: Sequence[Draft], first: int, at: Micros) -> None: ...
    def lost(self, loaded: Loaded) -> None: ...
    def taken(self, log: LogId, keys: Sequence[str]) -> None: ...


class _InFlight:
    __slots__ = ("failures", "loaded", "sealed", "taken", "view")

    def __init__(
        self,
        loaded: Loaded,
        view: View,
        sealed: Sealed,
        taken: list[tuple[Item, str]],
        failures: list[Any],
    ) -> None:
        self.loaded, self.view, self.sealed = loaded, view, sealed
        self.taken, self.failures = taken, failures


class Ticker:
    """Runs the ticks of one kernel."""

    def __init__(
        self,
        world: World,
        store: Store,
        schedule: Schedule,
        clock: Clock,
        settings: Settings,
        oracle: Oracle,
        host: Host,
        salts: SaltSource,
    ) -> None:
        self._world, self._store, self._schedule = world, store, schedule
        self.clock, self._settings, self._oracle, self._host = clock, settings, oracle, host
        self._salts = salts
        self.writer = 0
        self.loaded: dict[LogId, Loaded] = {}
        self.waiters = Waiters()
        self.alarms = Alarms(clock, self._alarm)
        self.ticks = 0
        self.starting = True
        self.after_tick: Callable[[], None] | None = None
        self._ready: dict[LogId, Loaded] = {}
        self._admin: list[tuple[Unit, asyncio.Future[Verdict]]] = []
        self._last_at = 0
        self._scheduled = False
        self._busy = False
        self._ticking = False
        self._quiet: list[asyncio.Future[None]] = []
        self._finding: set[asyncio.Task[None]] = set()
        self._on: dict[type, Callable[[Loaded, View, int, Draft], None]] = {
            InputReceived: self._input_stored,
            TurnStarted: self._turn_started,
            TurnFinished: self._turn_finished,
            CallNested: self._call_nested,
            CallStarted: self._call_started,
            CallFinished: self._call_finished,
            CallDoubted: self._call_finished,
        }

    def open(self, writer: int) -> None:
        """From here on it runs on this loop, which it asks for once: each asking is a system call."""
        self.writer = writer
        self._loop = asyncio.get_running_loop()

    def feed(self, loaded: Loaded, item: Item, key: str | None = None, *, alone: bool = False) -> None:
        """Intake for a loaded conversation.

        alone says that nothing else runs that could report in the same round of the loop: then the tick does not wait
        for company, which spares a round.
        """
        loaded.intake.append(item)
        if key is not None:
            loaded.keys[id(item)] = key
        if loaded.flying:
            loaded.again = True
            return
        self._ready[loaded.log] = loaded
        if self._scheduled or self._busy:
            return
        if alone and not self._ticking:
            self._tick()
        else:
            self._schedule_tick()

    def wake(self, loaded: Loaded) -> None:
        if loaded.flying:
            loaded.again = True
            return
        self._ready[loaded.log] = loaded
        if not self._scheduled and not self._busy:
            self._schedule_tick()

    def forget(self, log: LogId) -> None:
        """The log leaves the memory."""
        self.loaded.pop(log, None)
        self._ready.pop(log, None)

    def administer(self, unit: Unit) -> asyncio.Future[Verdict]:
        """A unit of a log that has no passes; it joins the next tick."""
        future: asyncio.Future[Verdict] = self._loop.create_future()
        self._admin.append((unit, future))
        if not self._scheduled and not self._busy:
            self._schedule_tick()
        return future

    @property
    def quiet(self) -> bool:
        """Nothing is ready and no append is under way."""
        return not self._ready and not self._busy and not self._scheduled and not self._admin

    async def wait_quiet(self) -> None:
        while not self.quiet:
            waiter = self._loop.create_future()
            self._quiet.append(waiter)
            await waiter

    def now(self) -> Micros:
        """Time for a pass: it never goes back within this writer."""
        now = self.clock.now()
        if now < self._last_at:
            return Micros(self._last_at)
        self._last_at = now
        return now

    def _schedule_tick(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._scheduled = False
        if self._busy or self._ticking:
            return
        self.ticks += 1
        self._ticking = True
        try:
            self._round()
        finally:
            self._ticking = False
        self._go_on()

    def _round(self) -> None:
        flight = self._passes()
        admin, self._admin = self._admin, []
        units = [f.sealed.unit for f in flight]
        units.extend(unit for unit, _ in admin)
        if units:
            self._append(units, flight, admin)

    def _passes(self) -> list[_InFlight]:
        flight: list[_InFlight] = []
        now = self.now()
        ready = self._ready
        if len(ready) <= self._settings.tick_conversations:
            self._ready = {}
        else:
            names = list(ready)[: self._settings.tick_conversations]
            ready = {name: self._ready.pop(name) for name in names}
        for loaded in ready.values():
            running = self._pass(loaded, now)
            if running is not None:
                flight.append(running)
        return flight

    def _pass(self, loaded: Loaded, now: Micros) -> _InFlight | None:
        intake, loaded.intake = loaded.intake, []
        view = View(loaded.slice, loaded.head.row.seq, now, intake, self._oracle)
        failures = run_pass(view, self._schedule, self._settings.pass_decisions_max)
        taken = [(item, key) for item in view.taken if (key := loaded.key_of(item)) is not None] if loaded.keys else []
        if not view.drafts and not view.posts and not taken:
            loaded.intake = view.intake
            self._tell_refused(loaded, view)
            self.waiters.dropped(view)
            self.waiters.raised(loaded, view, failures)
            return None
        try:
            sealed = seal(view, loaded.head, self.writer, loaded.times, self._salts, self._settings.snapshot_entries)
        except Exception as error:
            self._has_no_form(loaded, view, error)
            return None
        sealed.unit.taken = [key for _, key in taken]
        if view.turned:
            self._define(sealed, view)
        if view.turned or loaded.alarms:
            self.alarms.complete(sealed, view, loaded)
        loaded.flying = True
        return _InFlight(loaded, view, sealed, taken, failures)

    def _has_no_form(self, loaded: Loaded, view: View, error: Exception) -> None:
        """A system decided what cannot be written down. Its conversation pays: what this pass took is dropped, and who
        waits is told; the tick goes on."""
        _log.error("a unit of %s cannot be written: %s", loaded.log, type(error).__name__)
        for call in (*view.slots, *_in_line(view)):
            self._host.give_slot_back(view.log, call)
        loaded.intake = view.intake
        self._tell_refused(loaded, view)
        self.waiters.fail(loaded, view.taken, error)

    def _define(self, sealed: Sealed, view: View) -> None:
        """Definitions that this unit is the first to name."""
        unit = sealed.unit
        for draft in sealed.drafts:
            if type(draft.data) is TurnStarted:
                rows = self._host.definitions(view.get(draft.turn, TurnConfig).context)
                if rows:
                    unit.definitions = [*unit.definitions, *rows]

    def _append(
        self, units: list[Unit], flight: list[_InFlight], admin: list[tuple[Unit, asyncio.Future[Verdict]]]
    ) -> None:
        try:
            result = self._store.append(units)
        except StoreUnavailable as error:
            self._unavailable(error, flight, admin)
            return
        if isinstance(result, list):
            self._land(result, flight, admin)
            return
        self._busy = True
        result.add_done_callback(lambda done: self._done_elsewhere(done, flight, admin))

    def _done_elsewhere(
        self,
        done: asyncio.Future[list[Verdict]],
        flight: list[_InFlight],
        admin: list[tuple[Unit, asyncio.Future[Verdict]]],
    ) -> None:
        self._busy = False
        error = done.exception()
        if error is None:
            self._land(done.result(), flight, admin)
        elif isinstance(error, StoreUnavailable):
            self._unavailable(error, flight, admin)
        else:
            raise error
        self._go_on()

    def _go_on(self) -> None:
        if self.after_tick is not None and not self._busy:
            self.after_tick()
        if (self._ready or self._admin) and not self._scheduled and not self._busy:
            self._schedule_tick()
        elif self.quiet:
            for waiter in self._quiet:
                if not waiter.done():
                    waiter.set_result(None)
            self._quiet.clear()

    def _land(
        self,
        verdicts: list[Verdict],
        flight: list[_InFlight],
        admin: list[tuple[Unit, asyncio.Future[Verdict]]],
    ) -> None:
        """Verdicts, apply, waiters, publish, effects: one callback of the loop, without a wait in between."""
        for running, verdict in zip(flight, verdicts, strict=False):
            if verdict is Verdict.STORED:
                self._stored(running)
            elif verdict is Verdict.FENCED:
                self._lost(running)
            else:
                self._find_out(running)
        for (_, future), verdict in zip(admin, verdicts[len(flight) :], strict=True):
            if not future.done():
                future.set_result(verdict)

    def _stored(self, running: _InFlight) -> None:
        loaded, view, sealed = running.loaded, running.view, running.sealed
        row, unit = loaded.head.row, sealed.unit
        row.seq, row.digest, loaded.head.new = unit.seq, unit.digest, False
        if loaded.begun is not None:
            self.waiters.begun(loaded)
        if sealed.drafts and type(sealed.drafts[-1].data) is Snapshot:
            loaded.head.snapshot = unit.seq
        if view.intake:
            loaded.intake[:0] = view.intake
        seq, on = sealed.first, self._on
        for draft in sealed.drafts:
            tell = on.get(type(draft.data))
            if tell is not None:
                tell(loaded, view, seq, draft)
            seq += 1
        if loaded.inner is not None:
            loaded.inner.refused(view.taken)
        apply(self._world, loaded.slice, view, sealed, loaded.times)
        self._spread(running)
        self._down(loaded)

    def _spread(self, running: _InFlight) -> None:
        """What others have of a stored unit: slots, timers, watchers, other logs, effects, and who waits."""
        loaded, view, sealed = running.loaded, running.view, running.sealed
        unit = sealed.unit
        for call in view.slots:
            self._host.give_slot_back(view.log, call)
        if unit.woken or unit.wakeups:
            self.alarms.set(loaded, unit)
        self._host.landed(loaded, sealed.drafts, sealed.first, sealed.at)
        if view.posts:
            for post in view.posts:
                self._host.route(post.log, posted_item(post, unit.digest), post.key)
        if self.starting:
            for effect in view.effects:
                self._host.start_effect(effect)
        if running.taken:
            self._host.taken(view.log, [key for _, key in running.taken])
        if self.waiters.tickets:
            self.waiters.dropped(view)
        if running.failures:
            self.waiters.raised(loaded, view, running.failures)
            loaded.again = loaded.again or bool(view.intake)  # a pass that was cut short left something undecided

    def _down(self, loaded: Loaded) -> None:
        """Its unit is no longer on its way."""
        loaded.flying = False
        if loaded.again:
            loaded.again = False
            self._ready[loaded.log] = loaded

    def _input_stored(self, loaded: Loaded, _view: View, seq: int, draft: Draft) -> None:
        self.waiters.input_stored(loaded, seq, draft)

    def _turn_started(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        self._host.turn_started(view.get(draft.turn, TurnConfig).context)

    def _turn_finished(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        self.waiters.turn_finished(loaded, view, draft.turn)
        self._host.turn_finished(loaded, draft.turn)

    def _call_nested(self, loaded: Loaded, _view: View, seq: int, draft: Draft) -> None:
        if loaded.inner is not None:
            loaded.inner.nested(seq, draft)

    def _tell_refused(self, loaded: Loaded, view: View) -> None:
        if loaded.inner is not None:
            loaded.inner.refused(view.taken)

    def _call_started(self, _loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        view.slots = [call for call in view.slots if call != draft.call]

    def _call_finished(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        data = draft.data
        if loaded.inner is not None:
            loaded.inner.finished(draft)
        if type(data) is not CallFinished or data.status is not CallStatus.LOST:
            self._host.give_slot_back(view.log, draft.call)

    def _alarm(self, log: LogId, key: tuple[str, int, int], item: Item) -> None:
        loaded = self.loaded.get(log)
        if loaded is not None and key in loaded.alarms:
            self.feed(loaded, item)

    def _lost(self, running: _InFlight) -> None:
        """Another writer owns the log: whatever we thought of it is void."""
        self._undo(running)
        self._host.lost(running.loaded)

    def _not_stored(self, running: _InFlight) -> None:
        """As if the pass had not been, but for the senders who were told that it failed."""
        self._undo(running)
        loaded = running.loaded
        if loaded.head.new and not loaded.intake:
            self._host.lost(loaded)
        else:
            self.wake(loaded)

    def _undo(self, running: _InFlight) -> None:
        """Takes a pass back: its slots and places in line, and its intake but for what somebody was told of already."""
        loaded, view = running.loaded, running.view
        for call in (*view.slots, *_in_line(view)):
            self._host.give_slot_back(view.log, call)
        items = [*view.taken, *view.intake]
        loaded.intake[:0] = [item for item in items if not self.waiters.is_told(loaded, item)]
        loaded.keys.update({id(item): key for item, key in running.taken})
        self._down(loaded)

    def _unavailable(
        self,
        error: StoreUnavailable,
        flight: list[_InFlight],
        admin: list[tuple[Unit, asyncio.Future[Verdict]]],
    ) -> None:
        """Everything waits until the store is back and says whether the units are there; senders, not for ever."""
        for running in flight:
            self._find_out(running, error)
        for _, future in admin:
            if not future.done():
                future.set_exception(error)

    def _find_out(self, running: _InFlight, error: StoreUnavailable | None = None) -> None:
        task = self._loop.create_task(self._look(running, error))
        self._finding.add(task)
        task.add_done_callback(self._finding.discard)

    async def _look(self, running: _InFlight, error: StoreUnavailable | None) -> None:
        """What became of a unit, when the connection was lost at the commit: the head of its log tells."""
        row, unit = await self._row_of(running, error), running.sealed.unit
        if row is None or (row.owner == self.writer and row.digest == unit.previous):
            if error is not None:
                self._tell(running, error)
                await self.clock.sleep(STORE_RETRY_S)  # it can be read, which does not mean that it can be written
            self._not_stored(running)
        elif row.owner == self.writer and row.digest == unit.digest:
            self._stored(running)
        else:
            self._lost(running)
        self._go_on()

    async def _row_of(self, running: _InFlight, error: StoreUnavailable | None) -> LogRow | None:
        """The log as it is stored, however long that takes; who waits for the unit is told when it takes too long."""
        untold = error or StoreUnavailable(self._store.url, "it is gone, and nobody knows yet what it has stored")
        timer = self.clock.call_later(self._settings.unknown_commit_s, lambda: self._tell(running, untold))
        try:
            while True:
                try:
                    return await self._store.log(running.loaded.log)
                except StoreUnavailable:
                    await self.clock.sleep(STORE_RETRY_S)
        finally:
            timer.cancel()

    def _tell(self, running: _InFlight, error: StoreUnavailable) -> None:
        """Who waits for what a unit brings learns that it is not stored, or that nobody knows."""
        for item in running.view.taken:
            self.waiters.tell(item, error)
        self.waiters.begun(running.loaded, error)

    def lose(self, loaded: Loaded) -> None:
        """Another writer owns a log that has no unit on its way."""
        self._host.lost(loaded)

    async def close(self) -> None:
        """Nobody is left waiting, and no timer either."""
        self.waiters.close(list(self.loaded.values()))
        for loaded in self.loaded.values():
            for timer in loaded.timers.values():
                timer.cancel()
        for task in self._finding:
            task.cancel()
        await asyncio.gather(*self._finding, return_exceptions=True)


def _in_line(view: View) -> list[int]:
    """The calls that could not start in this pass; they may have been put in line."""
    turn = view.find(view.turn, TurnState)
    return [call for call in turn.calls + turn.inner if _is_proposed(view, call)] if turn is not None else []


def _is_proposed(view: View, call: int) -> bool:
    state = view.find(call, CallState)
    return state is not None and state.status is CallStatus.PROPOSED
