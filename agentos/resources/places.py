"""Places: a number of things at once, bounded at several scopes together, as the turns of an agent and of the program.

Whoever asks goes through one room after the other, the narrowest scope first, and has its place once it is inside all of
them. Whoever waits at one room keeps its place in those behind it: all go the same way, so nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from agentos.resources.room import Order, Room

K = TypeVar("K", bound=Hashable)


class Bound(NamedTuple):
    """A bound that somebody falls under: the kind of scope (program, tenant, agent, conversation), its name, how many."""

    scope: str
    name: str
    size: int


class PlaceStatistics(msgspec.Struct, frozen=True):
    """One bound now: how many have a place, and how many wait at it. Who waits at a wider one has a place here."""

    scope: str
    name: str
    size: int
    held: int
    waiting: int


class Places(Generic[K]):
    """bounds_of: the bounds that one falls under, the narrowest first, asked once, as it comes; order makes the order of one
    room's line; granted is called when one that was refused has its place, moved, if given, when it came in at one bound
    and waits at the next."""

    def __init__(
        self,
        bounds_of: Callable[[K], Sequence[Bound]],
        order: Callable[[], Order[K]],
        granted: Callable[[K], None],
        moved: Callable[[K], None] | None = None,
    ) -> None:
        self._bounds_of, self._order, self._granted, self._moved = bounds_of, order, granted, moved
        self._rooms: dict[tuple[str, str], Room[K]] = {}
        self._ways: dict[K, Sequence[Bound]] = {}
        self._inside: set[K] = set()

    def take(self, who: K, *, free: bool = False) -> bool:
        """Whether it has its place now. A no puts it in line once; asking again asks for the same place. With free, it
        has one that no bound counts."""
        if who in self._inside:
            return True
        if free:
            self.leave(who)
            self._ways[who] = ()
        elif who not in self._ways:
            self._ways[who] = self._bounds_of(who)
            self._resize(self._ways[who])
        return self._goes_on(who)

    def leave(self, who: K) -> None:
        """It gives its place back, or stands in line no more. Nothing happens when it had none."""
        way = self._ways.pop(who, None)
        if way is None:
            return
        self._inside.discard(who)
        rooms = [room for bound in way if (room := self._rooms.get(bound[:2])) is not None]
        self._come_in([came for room in rooms for came in room.leave(who)])  # once it is gone from all of them
        for bound in way:
            room = self._rooms.get(bound[:2])
            if room is not None and not room.holders and not room.line:
                del self._rooms[bound[:2]]

    def ask_bounds_again(self) -> None:
        """Bounds have changed: who waits and falls under others than when it came stands in line anew."""
        others = [who for who in self if self.waits(who) and list(self._bounds_of(who)) != list(self._ways[who])]
        for who in others:
            self.leave(who)
        for who in others:
            if self.take(who):
                self._granted(who)

    def holds(self, who: K) -> bool:
        return who in self._inside

    def is_counted(self, who: K) -> bool:
        """Whether a bound counts it."""
        return bool(self._ways.get(who))

    def waits(self, who: K) -> bool:
        return who in self._ways and who not in self._inside

    def has_room(self, who: K) -> bool:
        """Whether one that has not asked yet would have its place at once."""
        rooms = ((self._rooms.get(bound[:2]), bound.size) for bound in self._bounds_of(who))
        return all(room is None or (not room.line and len(room.holders) < size) for room, size in rooms)

    def waits_at(self, who: K) -> tuple[Bound, list[K]]:
        """The bound at which one waits, and those that have a place there. Of one that does not wait, its widest."""
        way = self._ways[who]
        bound = next((one for one in way if who in self._rooms[one.scope, one.name].line), way[-1])
        return bound, list(self._rooms[bound.scope, bound.name].holders)

    @property
    def rooms(self) -> Mapping[tuple[str, str], Room[K]]:
        """The room of each bound that somebody falls under now, by its scope and name."""
        return self._rooms

    @property
    def waiting(self) -> int:
        """How many stand in line, wherever."""
        return len(self._ways) - len(self._inside)

    def __iter__(self) -> Iterator[K]:
        """All that have a place or stand in line, in the order in which they asked."""
        return iter(tuple(self._ways))

    def statistics(self) -> list[PlaceStatistics]:
        """The bounds that somebody falls under now."""
        return [
            PlaceStatistics(scope, name, room.size, len(room.holders), len(room.line))
            for (scope, name), room in sorted(self._rooms.items())
        ]

    def _goes_on(self, who: K) -> bool:
        """As far as there is room. Whether it is inside all."""
        for bound in self._ways[who]:
            room = self._rooms.get(bound[:2])
            if room is None:
                room = self._rooms[bound[:2]] = Room(bound.size, order=self._order())
            if not room.take(who):
                return False
        self._inside.add(who)
        return True

    def _come_in(self, came: Sequence[K]) -> None:
        """They came in at one of their bounds, and go on to the next."""
        for who in came:
            if self._goes_on(who):
                self._granted(who)
            elif self._moved is not None:
                self._moved(who)

    def _resize(self, way: Sequence[Bound]) -> None:
        """A bound that has changed counts from here on: who is inside stays, who waits for what there is more of comes in."""
        for scope, name, size in way:
            room = self._rooms.get((scope, name))
            if room is not None and room.size != size:
                room.size = size
                self._come_in(room.let_in())
