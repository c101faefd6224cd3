"""The places that the handles of one resource have among all that are bounded: taken before one is made, given back when it
has closed. Where nothing is bounded there are none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from agentos.clock import Clock
from agentos.resources.account import Account, Place, What, asked_for, by_its_end, by_its_task
from agentos.resources.borrowing import Bounds, Factory, Takes
from agentos.resources.wait_graph import Node

H = TypeVar("H")
_log = logging.getLogger(__name__)


class Of(Protocol[H]):
    """The handles whose places these are: see `Handles`. give_up closes one that nobody has, and says whether."""

    name: str
    factory: Factory[H]
    bounds: Bounds
    clock: Clock

    def is_lent(self, handle: H) -> bool: ...
    def give_up(self, handle: H) -> bool: ...
    def takes_of(self, handle: H) -> Takes: ...


class HandlePlaces(Generic[H]):
    """account: on whose account handles are made; without one, on that of whoever has one made. users: the tasks that have
    one."""

    def __init__(self, of: Of[H], *, is_pool: bool) -> None:
        self._of, self._is_pool = of, is_pool
        self.account: Account | None = None
        self.users: Callable[[], Iterable[Node]] = tuple
        self._places: dict[int, list[Place]] = {}
        self._asking: set[Place] = set()

    async def take(self, until_s: float | None) -> Place | None:
        """One for a handle that is about to be made, waited for until this monotonic time, and for make_s at most: others
        may wait for the same handle. None where nothing is counted. Raises as `Place.take`, and as check_bytes."""
        asked = asked_for(self.account)
        if asked is None:
            return None
        wanted, of = f"a handle of {self._of.name}", self._of
        await asked.account.bearer.check_bytes(asked, wanted)
        place = Place(asked, What.HANDLES, wanted, by_its_task if self._is_pool else by_its_end)
        left_s = of.bounds.make_s if until_s is None else until_s - of.clock.monotonic()
        self._asking.add(place)
        try:
            return await place.take(max(0.0, min(left_s, of.bounds.make_s)))
        finally:
            self._asking.discard(place)

    def refuse(self, error: Exception) -> None:
        """Has all end with this error that wait for a place."""
        for place in self._asking:
            place.refuse(error)

    def keep(self, place: Place, handle: H) -> None:
        """A place is that of a handle from here on. One of a pool is free for others when a user goes on; one that nobody
        has is closed for who needs its place."""
        self._places.setdefault(id(handle), []).append(place)
        place.bytes_of = lambda: self._bytes_of(handle)
        if self._is_pool:
            place.comes_back = lambda place: self.users() if self._of.is_lent(handle) else (place,)
            place.spare = lambda: self._of.give_up(handle)

    def give_back(self, handle: H) -> None:
        """A handle has closed."""
        places = self._places.get(id(handle))
        if places:
            places.pop().give_back()
            if not places:
                del self._places[id(handle)]

    def is_wanted(self, handle: H) -> bool:
        """Whether somebody waits for what a handle of a pool takes that is about to be idle."""
        return self._is_pool and any(place.is_wanted for place in self._places.get(id(handle), ()))

    async def _bytes_of(self, handle: H) -> int | None:
        """What it takes now; None of one that cannot be measured, or not within check_s."""
        measure = self._of.factory.measure
        if measure is None:
            return self._of.takes_of(handle).bytes
        try:
            async with asyncio.timeout(self._of.bounds.check_s):
                return await measure(handle)
        except Exception as error:
            _log.debug("what a handle of %s takes could not be measured: %r", self._of.name, error)
            return None
