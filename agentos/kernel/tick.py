"""The tick: passes of all ready conversations, one append, apply, publish, start effects.

No task exists for a conversation. What arrives is intake; a conversation with intake is ready; a tick takes the ready ones
in order of arrival. While an append is under way elsewhere, what arrives waits for the next tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agentos.clock import Clock
from agentos.errors import StoreUnavailable
from agentos.events.intake import Item
from agentos.ids import LogId, Micros, SaltSource
from agentos.kernel.admission import Admission
from agentos.kernel.alarms import Alarms
from agentos.kernel.flight import Host, InFlight
from agentos.kernel.landing import Landing
from agentos.kernel.loaded import Loaded
from agentos.kernel.passing import Passing
from agentos.kernel.raised import Raised
from agentos.kernel.timed_store import Appends, Tell, TimedStore
from agentos.kernel.unknown_commits import UnknownCommits
from agentos.kernel.waiters import Waiters
from agentos.persistence.base import Store, Unit, Verdict
from agentos.settings import Settings
from agentos.systems import Schedule
from agentos.world import Oracle, World

Administered = tuple[Unit, asyncio.Future[Verdict]]
"""A unit of a log that has no passes, and who waits for its verdict."""


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
        self.clock, self._host = clock, host
        self._store: Appends = store
        self._untimed = store
        self._conversations_max = settings.tick_conversations
        self.writer = 0
        self.loaded: dict[LogId, Loaded] = {}
        self.waiters = Waiters()
        self.alarms = Alarms(clock, self._alarm)
        self.ticks = 0
        self.after_tick: Callable[[], None] | None = None
        self._ready: dict[LogId, Loaded] = {}
        self._admin: list[Administered] = []
        self._last_at = 0
        self._scheduled = False
        self._busy = False
        self._ticking = False
        self._quiet: list[asyncio.Future[None]] = []
        self.admission: Admission | None = None
        raised = Raised(self.waiters, self.wake)
        self._landing = Landing(world, host, self.alarms, self.waiters, raised, self._make_ready)
        self._passing = Passing(schedule, settings, oracle, host, salts, self.alarms, self.waiters, raised)
        self._unknown = UnknownCommits(
            store, clock, self._landing, self.waiters, settings.unknown_commit_s, self._go_on
        )

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

    def _make_ready(self, loaded: Loaded) -> None:
        """Without a tick of its own: whoever brought a unit to its end goes on to the next tick anyway."""
        self._ready[loaded.log] = loaded

    def forget(self, log: LogId) -> None:
        """The log leaves the memory."""
        self.loaded.pop(log, None)
        self._ready.pop(log, None)
        if self.admission is not None:
            self.admission.gone(log)

    def admit(self, admission: Admission) -> None:
        """From here on turns are bounded."""
        self.admission = admission
        self._landing.passed = admission.passed
        admission.take_running()

    def administer(self, unit: Unit) -> asyncio.Future[Verdict]:
        """A unit of a log that has no passes; it joins the next tick."""
        future: asyncio.Future[Verdict] = self._loop.create_future()
        self._admin.append((unit, future))
        if not self._scheduled and not self._busy:
            self._schedule_tick()
        return future

    def time_appends(self, tell: Tell | None) -> None:
        """Has somebody told of every append from here on; None: nobody any more, and it costs nothing."""
        self._store = self._untimed if tell is None else TimedStore(self._untimed, self.clock, tell)

    @property
    def ready(self) -> int:
        """How many conversations wait for the next tick."""
        return len(self._ready)

    @property
    def starting(self) -> bool:
        """Effects begin, until `start_no_more`."""
        return self._landing.starting

    def start_no_more(self) -> None:
        """From here on effects are stored as asked for, and do not begin: the kernel closes."""
        self._landing.starting = False

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
        ready = self._ready
        if len(ready) <= self._conversations_max:
            self._ready = {}
        else:
            ready = self._first_ready()
        if self.admission is None:
            flight = self._passing.run(ready, self.now(), self.writer)
        else:
            flight = self._run_admitted(ready, self.admission)
        admin, self._admin = self._admin, []
        units = [f.sealed.unit for f in flight]
        units.extend(unit for unit, _ in admin)
        if units:
            self._append(units, flight, admin)

    def _run_admitted(self, ready: dict[LogId, Loaded], admission: Admission) -> list[InFlight]:
        """The passes, but for what has to wait until its turn has a place."""
        kept = admission.held_back(ready)
        flight = self._passing.run(ready, self.now(), self.writer)
        admission.give_again(kept)
        for loaded in ready.values():
            admission.passed(loaded)
        return flight

    def _first_ready(self) -> dict[LogId, Loaded]:
        """As many as a tick takes, in order of arrival; the others wait for the next."""
        return {log: self._ready.pop(log) for log in list(self._ready)[: self._conversations_max]}

    def _append(self, units: list[Unit], flight: list[InFlight], admin: list[Administered]) -> None:
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
        flight: list[InFlight],
        admin: list[Administered],
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
        flight: list[InFlight],
        admin: list[Administered],
    ) -> None:
        """Verdicts, apply, waiters, publish, effects: one callback of the loop, without a wait in between."""
        for running, verdict in zip(flight, verdicts, strict=False):
            if verdict is Verdict.STORED:
                try:
                    self._landing.stored(running)
                except Exception as error:  # its conversation pays, and no other of this tick
                    self._landing.broke(running, error)
            elif verdict is Verdict.FENCED:
                self._landing.lost(running)
            else:
                self._unknown.find_out(running, self.writer)
        for (_, future), verdict in zip(admin, verdicts[len(flight) :], strict=True):
            if not future.done():
                future.set_result(verdict)

    def _alarm(self, log: LogId, key: tuple[str, int, int], item: Item) -> None:
        loaded = self.loaded.get(log)
        if loaded is not None and key in loaded.alarms:
            self.feed(loaded, item)

    def _unavailable(self, error: StoreUnavailable, flight: list[InFlight], admin: list[Administered]) -> None:
        """Everything waits until the store is back and says whether the units are there; senders, not for ever."""
        for running in flight:
            self._unknown.find_out(running, self.writer, error)
        for _, future in admin:
            if not future.done():
                future.set_exception(error)

    def lose(self, loaded: Loaded) -> None:
        """Another writer owns a log that has no unit on its way."""
        self._host.lost(loaded)

    async def close(self) -> None:
        """Nobody is left waiting, and no timer either."""
        self.waiters.close(list(self.loaded.values()))
        for loaded in self.loaded.values():
            for timer in loaded.timers.values():
                timer.cancel()
        await self._unknown.close()
