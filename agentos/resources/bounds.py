"""The ledger of what resources take: processes, open handles and bytes, each bounded at several scopes together.

A place is taken before a handle is made and before a process is started, and given back when that has ended, however it
ended. Who finds no room waits in line, as long as somebody in front will give something back; where nobody will, or only
who waits, directly or in a circle, it is refused at once. Bytes are not waited for: they are looked at when a handle is to
be made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Protocol

import msgspec

from agentos.clock import Clock
from agentos.components import Concern, CycleCall
from agentos.errors import ResourceAccessTimeout, ResourceDeadlock, ResourceLimitReached
from agentos.resources.account import Asked, Place, What, setting_of
from agentos.resources.borrowing import Borrower, Caller, Note
from agentos.resources.cycle import link_of, sentences
from agentos.resources.places import Bound, Places
from agentos.resources.room import Order, Room
from agentos.resources.wait_graph import Node, Wait, WaitGraph
from agentos.resources.waited import attach_waiting

KIND = "bound"
"""The kind of resource that a bound is, where it is told of as one."""


class Looks(Protocol):
    """What is known of calls: `Lookout` knows."""

    graph: WaitGraph
    noted_to: Callable[[Note], None]
    above: Callable[[Caller], Iterable[Node]]
    named: Callable[[Caller | None], CycleCall]


class BoundUse(msgspec.Struct, frozen=True):
    """One bound now: who counts against it and who waits, oldest first; of bytes, how many there were when it was looked at
    last."""

    what: What
    scope: str
    name: str
    size: int
    held: int
    holders: tuple[Place, ...] = ()
    waiters: tuple[Place, ...] = ()


class Ledger:
    """Of one kernel. order makes the order of one line."""

    def __init__(self, clock: Clock, order: Callable[[], Order[Place]], looks: Looks) -> None:
        self._clock, self._looks = clock, looks
        self._places = {
            what: Places[Place](lambda place: place.bounds, order, self._granted)
            for what in (What.PROCESSES, What.HANDLES)
        }
        for places in self._places.values():
            places.moved = self._moved
        self._waiting: dict[Place, asyncio.Future[None]] = {}
        self._bytes: dict[tuple[str, str], dict[Place, int]] = {}
        looks.graph.places.append(self)

    async def take(self, place: Place, timeout_s: float | None = None) -> None:
        """Raises as `Place.take` says; however the waiting ends then, it leaves no trace."""
        place.since_s = self._clock.monotonic()
        if not self._places[place.what].take(place):
            try:
                await self._wait_for(place, timeout_s)
            except BaseException:
                self.give_back(place)
                raise
            place.since_s = self._clock.monotonic()
        if place.what is What.HANDLES:
            for bound in place.asked.account.bounds.get(What.BYTES, ()):
                self._bytes.setdefault((bound.scope, bound.name), {})[place] = 0
        if self._waiting and not any(True for _ in self._nodes(place)):
            self._refuse_hopeless()

    def give_back(self, place: Place) -> None:
        for bound in place.asked.account.bounds.get(What.BYTES, ()) if place.what is What.HANDLES else ():
            counted = self._bytes.get((bound.scope, bound.name), {})
            counted.pop(place, None)
            if not counted:
                self._bytes.pop((bound.scope, bound.name), None)
        self._places[place.what].leave(place)

    def refuse(self, place: Place, error: Exception) -> None:
        """Has its waiting end with this error, if it waits."""
        future = self._waiting.get(place)
        if future is not None and not future.done():
            future.set_exception(error)

    def is_wanted(self, place: Place) -> bool:
        """Whether somebody waits at a bound that it counts against."""
        rooms = self._places[place.what].rooms
        return any(rooms[bound.scope, bound.name].line for bound in place.bounds)

    async def check_bytes(self, asked: Asked, wanted: str) -> None:
        """Raises ResourceLimitReached when what lives in one of its scopes takes as much as it may, or more."""
        for bound in asked.account.bounds.get(What.BYTES, ()):
            took = await self._measured(bound)
            if took >= bound.size:
                raise _refusal(What.BYTES, bound, took, wanted, "none of it is given back by waiting")

    def uses(self) -> list[BoundUse]:
        """The bounds that something counts against now."""
        counted = [
            BoundUse(what, scope, name, room.size, len(room.holders), tuple(room.holders), tuple(room.line))
            for what, places in self._places.items()
            for (scope, name), room in sorted(places.rooms.items())
        ]
        return counted + [
            BoundUse(What.BYTES, *key, _size_of(next(iter(places)), key), sum(places.values()), tuple(places))
            for key, places in sorted(self._bytes.items())
        ]

    # Waiting

    async def _wait_for(self, place: Place, timeout_s: float | None) -> None:
        future = self._waiting[place] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_s, lambda: self._expire(place, timeout_s)) if timeout_s else None
        if timeout_s == 0:
            self._expire(place, timeout_s)
        self._moved(place)
        try:
            await future
        except asyncio.CancelledError as error:
            if future.done() and not future.cancelled():
                future.exception()  # who is cancelled and refused at once hears of the cancel alone
            bound, _ = self._places[place.what].waits_at(place)
            attach_waiting(error, f"one of the {bound.size} {place.what} that {_said(place.what, bound)} allows")
            raise
        finally:
            del self._waiting[place]
            if timer is not None:
                timer.cancel()

    def _granted(self, place: Place) -> None:
        future = self._waiting.get(place)
        if future is not None and not future.done():
            future.set_result(None)

    def _expire(self, place: Place, timeout_s: float) -> None:
        bound, holders = self._places[place.what].waits_at(place)
        names = [holder.wanted for holder in holders]
        self.refuse(place, ResourceAccessTimeout(_said(place.what, bound), timeout_s, bound.size, names))

    def _moved(self, place: Place) -> None:
        """It waits at a bound from here on: for one that nobody uses, where there is one; or for nothing that would come."""
        future = self._waiting.get(place)
        if future is None or future.done():
            return
        _, holders = self._places[place.what].waits_at(place)
        if any(holder.spare() for holder in holders):
            return
        if (error := self._hopeless(place) or self._circle(place)) is not None:
            self.refuse(place, error)

    def _refuse_hopeless(self) -> None:
        """Somebody came in who keeps what he has: it may have been the last that would have come back."""
        for place, future in list(self._waiting.items()):
            if not future.done() and (error := self._hopeless(place)) is not None:
                self.refuse(place, error)

    def _hopeless(self, place: Place) -> Exception | None:
        """Why it would wait for ever, where all that it waits for is kept until somebody gives it back."""
        bound, holders = self._places[place.what].waits_at(place)
        if any(True for holder in holders for _ in self._nodes(holder)):
            return None
        return _refusal(place.what, bound, len(holders), place.wanted, "none of them comes back by itself")

    def _circle(self, place: Place) -> Exception | None:
        """Why it would wait for ever, where who has it waits, in the end, for who asks."""
        bound, _ = self._places[place.what].waits_at(place)
        key = (bound.scope, bound.name)
        line = self._line(place.what, key, self._places[place.what].rooms[key])
        cycle = self._looks.graph.deadlock(next(wait for wait in line if wait.waiter == place.task))
        if not cycle:
            return None
        links, said = tuple(link_of(wait, self._looks.named) for wait in cycle), _said(place.what, bound)
        if place.caller is not None:
            by = Borrower(caller=place.caller)
            self._looks.noted_to(Note(what=Concern.DEADLOCK, resource=said, kind=KIND, by=by, cycle=links))
        return ResourceDeadlock(said, [*sentences(links), _way_out(place.what, bound)])

    # What the wait graph asks

    def waits(self) -> Iterator[Wait]:
        for what, places in self._places.items():
            for key, room in places.rooms.items():
                yield from self._line(what, key, room)

    def lines_for(self, node: Node) -> Iterator[tuple[Hashable, Iterable[Wait]]]:
        """The lines at the bounds against which something counts that comes back with this node."""
        for what, places in self._places.items():
            for key, room in places.rooms.items():
                if room.line and any(node in self._nodes(holder) for holder in room.holders):
                    yield (what, *key), self._line(what, key, room)

    def _line(self, what: What, key: tuple[str, str], room: Room[Place]) -> Iterator[Wait]:
        """All that wait at one bound wait for the same."""
        blockers = [node for holder in room.holders for node in self._nodes(holder)]
        callers = [holder.caller for holder in room.holders]
        said = _said(what, Bound(*key, room.size))
        for place in room.line:
            future = self._waiting.get(place)  # none of one that is about to leave the line
            if future is not None and not future.done():
                yield Wait(place.task, place.caller, said, blockers, callers, True, self._behind(place), (what, *key))

    def _behind(self, place: Place) -> list[Node]:
        caller = place.caller
        above = (caller, *self._looks.above(caller)) if caller is not None else ()
        return [*place.asked.tasks, *place.asked.asker.frames, *above]

    def _nodes(self, place: Place) -> Iterable[Node]:
        """What it comes back with; one that still waits is gone when its task is refused."""
        return (place.task,) if place in self._waiting else place.comes_back(place)

    # Bytes

    async def _measured(self, bound: Bound) -> int:
        """What all that lives there takes now. It is looked at one after the other; who goes meanwhile counts no more."""
        counted = self._bytes.get((bound.scope, bound.name), {})
        for place in list(counted):
            size = await place.bytes_of() if place.bytes_of is not None else 0
            if place in counted:
                counted[place] = size
        return sum(counted.values())


def _said(what: What, bound: Bound) -> str:
    """A bound in words, which a name can be."""
    where = f":{bound.name}" if bound.name else ""
    return f"{setting_of(bound.scope, what)}{where}"


def _refusal(what: What, bound: Bound, held: int, wanted: str, why: str) -> ResourceLimitReached:
    return ResourceLimitReached(
        setting_of(bound.scope, what), bound.scope, bound.name, what.value, bound.size, held, wanted, why
    )


def _way_out(what: What, bound: Bound) -> str:
    return f"{setting_of(bound.scope, what)} allows {bound.size} {what} there: raise it, or give one back before"


def _size_of(place: Place, key: tuple[str, str]) -> int:
    bounds = place.asked.account.bounds[What.BYTES]
    return next(bound.size for bound in bounds if (bound.scope, bound.name) == key)
