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
from agentos.components import Concern, CycleCall, CycleLink
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
    """What is known of calls, and who looks after all that wait: `Lookout` does. bounds: what it asks each time that it
    looks; begin: somebody waits."""

    graph: WaitGraph
    bounds: list[Callable[[float], bool]]
    noted_to: Callable[[Note], None]
    above: Callable[[Caller], Iterable[Node]]
    named: Callable[[Caller | None], CycleCall]

    def begin(self) -> None: ...


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
            what: Places[Place](lambda place: place.bounds, order, self._granted, self._moved)
            for what in (What.PROCESSES, What.HANDLES)
        }
        self._waiting: dict[Place, asyncio.Future[None]] = {}
        self._lines: dict[tuple[What, str, str], Room[Place]] = {}
        """Where somebody waits, or did when it was looked at last: there are many more rooms."""
        self._bytes: dict[tuple[str, str], dict[Place, int]] = {}
        looks.graph.places.append(self)
        looks.bounds.append(self._look)

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
        self._looks.begin()
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
        bound, holders = self._places[place.what].waits_at(place)
        key = (place.what, bound.scope, bound.name)
        self._lines[key] = self._places[place.what].rooms[key[1:]]
        if not self._is_waiting(place) or any(holder.give_up() for holder in holders):
            return
        if (error := self._hopeless(place) or self._circle(place)) is not None:
            self.refuse(place, error)

    def _refuse_hopeless(self) -> None:
        """Somebody came in who keeps what he has: it may have been the last that would have come back."""
        for place in filter(self._is_waiting, list(self._waiting)):
            if (error := self._hopeless(place)) is not None:
                self.refuse(place, error)

    def _hopeless(self, place: Place) -> Exception | None:
        """Why it would wait for ever, where all that it waits for is kept until somebody gives it back."""
        bound, holders = self._places[place.what].waits_at(place)
        if any(True for holder in holders for _ in self._nodes(holder)):
            return None
        return _refusal(place.what, bound, len(holders), place.wanted, "none of them comes back by itself")

    def _circle(self, place: Place) -> Exception | None:
        """Why it would wait for ever, where who has it waits, in the end, for who asks."""
        mine = self._wait(place)
        cycle = self._looks.graph.deadlock(mine)
        if not cycle:
            return None
        links = tuple(link_of(wait, self._looks.named) for wait in cycle)
        self._note(Concern.DEADLOCK, place, links)
        bound, _ = self._places[place.what].waits_at(place)
        return ResourceDeadlock(mine.resource, [*sentences(links), _way_out(place.what, bound)])

    def _look(self, before_s: float) -> bool:
        """Notes those that wait since before this time, once each: what others have begun to wait for since may have closed
        a circle. Says whether anybody waits."""
        late = [place for place in self._waiting if place.since_s <= before_s and not place.is_noted]
        for place in filter(self._is_waiting, late):
            place.is_noted = True
            self._note(Concern.STARVED, place, (link_of(self._wait(place), self._looks.named),))
            self._moved(place)
        return bool(self._waiting)

    def _note(self, what: Concern, place: Place, links: tuple[CycleLink, ...]) -> None:
        bound, _ = self._places[place.what].waits_at(place)
        ms, by = round(1_000 * (self._clock.monotonic() - place.since_s)), Borrower(caller=place.caller)
        said = _said(place.what, bound)
        self._looks.noted_to(Note(what=what, resource=said, kind=KIND, by=by, ms=ms, cycle=links))

    # What the wait graph asks

    def waits(self) -> Iterator[Wait]:
        for key, room in self._used_lines():
            yield from self._line(key, room)

    def lines_for(self, node: Node) -> Iterator[tuple[Hashable, Iterable[Wait]]]:
        """The lines at the bounds against which something counts that comes back with this node."""
        for key, room in self._used_lines():
            if any(node in self._nodes(holder) for holder in room.holders):
                yield key, self._line(key, room)

    def _used_lines(self) -> list[tuple[tuple[What, str, str], Room[Place]]]:
        if self._lines:
            self._lines = {key: room for key, room in self._lines.items() if room.line}
        return list(self._lines.items())

    def _wait(self, place: Place) -> Wait:
        bound, _ = self._places[place.what].waits_at(place)
        key = (place.what, bound.scope, bound.name)
        return next(self._line(key, self._lines[key], [place]))

    def _line(
        self, key: tuple[What, str, str], room: Room[Place], these: Iterable[Place] | None = None
    ) -> Iterator[Wait]:
        """These that wait at one bound, or all, but those that are about to leave the line: all wait for the same."""
        blockers = [node for holder in room.holders for node in self._nodes(holder)]
        callers = [holder.caller for holder in room.holders]
        said = _said(key[0], Bound(*key[1:], room.size))
        for place in filter(self._is_waiting, room.line) if these is None else these:
            yield Wait(place.task, place.caller, said, blockers, callers, True, self._behind(place), key)

    def _is_waiting(self, place: Place) -> bool:
        """Whether it stands in line, and was not let in, refused or cancelled meanwhile."""
        future = self._waiting.get(place)
        return future is not None and not future.done()

    def _behind(self, place: Place) -> list[Node]:
        caller = place.caller
        above = (caller, *self._looks.above(caller)) if caller is not None else ()
        return [*place.asked.tasks, *place.asked.asker.frames, *above]

    def _nodes(self, place: Place) -> Iterable[Node]:
        """What it comes back with; one that still waits is gone when its task is refused."""
        return (place.task,) if place in self._waiting else place.comes_back(place)

    # Bytes

    async def _measured(self, bound: Bound) -> int:
        """What all that lives there takes now. It is looked at one after the other; who goes meanwhile counts no more, and
        what cannot be measured takes what it took before."""
        counted = self._bytes.get((bound.scope, bound.name), {})
        for place in list(counted):
            size = await place.bytes_of() if place.bytes_of is not None else None
            if size is not None and place in counted:
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
