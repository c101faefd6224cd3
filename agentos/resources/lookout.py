"""Looks after who holds and who waits: for how long, and whether for ever. What is worth a note is told to whoever listens.

While nobody holds or waits, nothing is looked at, and no timer is set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from agentos.clock import Clock, Timer
from agentos.components import Concern, CycleCall, CycleLink
from agentos.resources.borrowing import Borrower, Caller, Note
from agentos.resources.cycle import call_alone, link_of
from agentos.resources.lease import Lease
from agentos.resources.shared import Shared
from agentos.resources.slots import Slots
from agentos.resources.wait_graph import Node, Wait, WaitGraph

_log = logging.getLogger(__name__)
LOOKS = 4
"""How often holders and waiters are looked at within the time after which they are noted; a note is late by a quarter at
most."""
EVERY_S_MIN = 0.05
"""However soon they are to be noted."""
SLOTS = "slots"
"""The kind of resource that the slots of a toolbox are."""


class Lookout:
    """Of all resources, and of the line for the slots of toolboxes.

    hold_warn_s, wait_warn_s: after how many seconds a holder or a waiter is noted, once each. noted_to hears of all that
    is worth an entry; above gives what waits for the end of a call; named says whose a call is.
    """

    def __init__(
        self,
        clock: Clock,
        hold_warn_s: float,
        wait_warn_s: float,
        living: Callable[[], list[Shared[Any]]],
        graph: WaitGraph,
    ) -> None:
        self._clock, self._living = clock, living
        self._hold_warn_s, self._wait_warn_s = hold_warn_s, wait_warn_s
        self.graph = graph
        self.graph.places.append(self)
        self.slots: Slots | None = None
        self.bounds: list[Callable[[float], bool]] = []
        """Where else there is waiting: each notes those that wait since before a time, and says whether anybody waits."""
        self.noted_to: Callable[[Note], None] = _logged
        self.above: Callable[[Caller], Iterable[Node]] = lambda caller: ()
        self.named: Callable[[Caller | None], CycleCall] = call_alone
        self._timer: Timer | None = None
        self._held: dict[Node, list[Shared[Any]]] = {}
        self._in_line: dict[Caller, float] = {}
        self._warned: set[Caller] = set()

    def begin(self) -> None:
        """Somebody holds or waits."""
        if self._timer is None:
            every_s = max(EVERY_S_MIN, min(self._hold_warn_s, self._wait_warn_s) / LOOKS)
            self._timer = self._clock.call_later(every_s, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def deadlock(self, shared: Shared[Any], lease: Lease[Any]) -> tuple[CycleLink, ...]:
        """The cycle that this waiting is in, empty when it is in none."""
        return tuple(link_of(wait, self.named) for wait in self.graph.deadlock(self._wait(shared, lease)))

    def note_left(self, caller: Caller) -> None:
        """What a call that has ended still holds, by a task that it left behind, is a leak."""
        for shared in dict.fromkeys(shared for held in self._held.values() for shared in held):
            for lease in shared.leases[0]:
                if lease.by.caller == caller:
                    lease.warned = True
                    shared.note(Concern.LEAK, lease)

    def _look(self) -> None:
        """Goes on as long as anybody holds or waits."""
        self._timer = None
        now = self._clock.monotonic()
        waited = [look(now - self._wait_warn_s) for look in self.bounds]
        used = any(waited)
        starved: list[tuple[Shared[Any], Lease[Any]]] = []
        for shared in self._living():
            holders, waiters = shared.leases
            used = used or bool(holders or waiters)
            for lease in _late(holders, now - self._hold_warn_s):
                shared.note(Concern.LONG_HOLD, lease)
            waiting = (lease for lease in waiters if lease.waits)
            starved += ((shared, lease) for lease in _late(waiting, now - self._wait_warn_s))
        self._look_at_starved(starved)
        if self._look_at_line(now) or used:
            self.begin()

    def _look_at_starved(self, starved: list[tuple[Shared[Any], Lease[Any]]]) -> None:
        """What others have begun to wait for since may have closed a cycle: then the youngest in it ends."""
        for shared, lease in starved:
            shared.note(Concern.STARVED, lease, (link_of(self._wait(shared, lease), self.named),))
        for shared, lease in starved:
            if lease.waits and (cycle := self.graph.deadlock(self._wait(shared, lease))):
                found = {wait.waiter for wait in cycle}
                of, youngest = max((one for one in self._waiting() if one[1].task in found), key=lambda one: one[1].at)
                of.refuse_deadlock(youngest)

    def _look_at_line(self, now: float) -> bool:
        """Whether calls stand in line for slots. One is asked again when it has waited long: see above."""
        waits = list(self.slots.waits()) if self.slots is not None else []
        self._in_line = {wait.caller: self._in_line.get(wait.caller, now) for wait in waits if wait.caller is not None}
        self._warned &= self._in_line.keys()
        for wait in waits:
            caller = wait.caller
            if caller is None or caller in self._warned or now - self._in_line[caller] < self._wait_warn_s:
                continue
            self._warned.add(caller)
            ms = round(1_000 * (now - self._in_line[caller]))
            cycle, by = (link_of(wait, self.named),), Borrower(caller=caller)
            self.noted_to(Note(what=Concern.STARVED, resource=wait.resource, kind=SLOTS, by=by, ms=ms, cycle=cycle))
            if self.slots is not None:
                self.slots.ask_again(caller)
        return bool(waits)

    # What the wait graph asks

    def waits(self) -> Iterable[Wait]:
        for shared in self._living():
            yield from self._line(shared)

    def lines_for(self, node: Node) -> Iterable[tuple[Hashable, Iterable[Wait]]]:
        """The lines for the resources that a task holds."""
        for shared in self._held.get(node, ()):
            if shared.is_waited_for:
                yield shared, self._line(shared)

    def entered(self, shared: Shared[Any], lease: Lease[Any]) -> None:
        """A resource is held from here on."""
        self._held.setdefault(lease.task, []).append(shared)

    def left(self, shared: Shared[Any], lease: Lease[Any]) -> None:
        """It is held no more."""
        held = self._held[lease.task]
        held.remove(shared)
        if not held:
            del self._held[lease.task]

    def _waiting(self) -> Iterator[tuple[Shared[Any], Lease[Any]]]:
        """Who stands in line. One that was refused or cancelled, and has not run since, is as good as gone."""
        for shared in self._living():
            yield from ((shared, lease) for lease in shared.leases[1] if lease.waits)

    def _wait(self, shared: Shared[Any], lease: Lease[Any]) -> Wait:
        return next(self._line(shared, [lease]))

    def _line(self, shared: Shared[Any], leases: Iterable[Lease[Any]] | None = None) -> Iterator[Wait]:
        """These in line, or all."""
        blockers, line = shared.leases
        tasks, holders = [other.task for other in blockers], [other.by.caller for other in blockers]
        for lease in (lease for lease in line if lease.waits) if leases is None else leases:
            caller = lease.by.caller
            behind = (caller, *self.above(caller)) if caller is not None else ()
            yield Wait(lease.task, caller, shared.name, tasks, holders, shared.any_does, behind, shared)


def _late(leases: Iterable[Lease[Any]], before: float) -> list[Lease[Any]]:
    """Those that hold or wait since before this time, and were not named yet; they are now."""
    late = [lease for lease in leases if not lease.warned and lease.at <= before]
    for lease in late:
        lease.warned = True
    return late


def _logged(note: Note) -> None:
    _log.warning("resource %s %s: %s by %s for %d ms", note.kind, note.resource, note.what.value, note.by.name, note.ms)
