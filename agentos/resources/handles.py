"""The handles of one resource: made when first needed, looked at before they are lent, replaced when they are broken.

Who may have one is not decided here; whoever asks was let in before.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from agentos.clock import Clock, Timer
from agentos.errors import ResourceBroken, ResourceClosed
from agentos.resources.account import Place, making
from agentos.resources.borrowing import Bounds, Factory, Takes
from agentos.resources.finishing import finish
from agentos.resources.handle_places import HandlePlaces
from agentos.resources.waited import waited_for

H = TypeVar("H")
_log = logging.getLogger(__name__)
FAILURES_SHOWN = 3
"""So many of the handles that do not close are told of in words."""


class Handles(Generic[H]):
    """The handles of an exclusive resource or a pool: each is lent to one at a time, the last returned first.

    made counts those that live, broken those that were found unsound so far.
    """

    def __init__(self, name: str, factory: Factory[H], bounds: Bounds, clock: Clock, *, idles: bool) -> None:
        self.name, self.factory, self.bounds, self.clock = name, factory, bounds, clock
        self._idle_s = bounds.idle_s if idles else None
        self.places: HandlePlaces[H] = HandlePlaces(self, is_pool=idles)
        self._free: deque[tuple[H, float]] = deque()
        self._out: dict[int, H] = {}
        self._again: dict[int, int] = {}  # how often more, where a factory gives one object several times
        self._dropped: set[int] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._takes_failed = False
        self.broken = 0
        self.closed = False

    @property
    def made(self) -> int:
        return len(self._free) + len(self._out) + sum(self._again.values())

    @property
    def idle(self) -> int:
        return len(self._free)

    def all(self) -> list[H]:
        """Every handle that lives, those that are lent first."""
        again = (self._out[key] for key, count in self._again.items() for _ in range(count))
        return [*self._out.values(), *again, *(handle for handle, _ in self._free)]

    def takes(self) -> list[Takes]:
        """What each takes of the machine."""
        return [self.takes_of(handle) for handle in self.all()] if self.factory.takes is not None else []

    def takes_of(self, handle: H) -> Takes:
        """Who looks at all resources is not to fail for one; it is told once."""
        if self.factory.takes is None:
            return Takes()
        try:
            return self.factory.takes(handle)
        except Exception as error:
            if not self._takes_failed:
                _log.warning("what resource %s takes is not known: %s", self.name, words_of(error))
            self._takes_failed = True
            return Takes()

    @property
    def ready(self) -> bool:
        """Whether `take_ready` has one: it is made, and needs no look."""
        return bool(self._free) and self.factory.check is None

    def take_ready(self) -> H:
        return self._lent(self._free.pop()[0])

    def _lent(self, handle: H) -> H:
        key = id(handle)
        if key in self._out:
            self._again[key] = self._again.get(key, 0) + 1
        else:
            self._out[key] = handle
        return handle

    async def take(self, found_broken: Callable[[], None], until_s: float | None = None) -> H:
        """A sound handle, made if need be. found_broken is told of each that is not; until_s is the monotonic time until
        which a place for one that has to be made is waited for.

        Errors: ResourceBroken after tries_max of them; what `make` raises when it cannot make one.
        """
        why = ""
        for _ in range(self.bounds.tries_max):
            if not self._free:
                return self._lent(await self.make(until_s))
            handle = self.take_ready()
            try:
                why = await self._fault(handle)
            except BaseException:  # a cancelled look says nothing of the handle
                self.give_back(handle)
                raise
            if not why:
                self._check_open()
                return handle
            self.drop(handle)
            self.give_back(handle)
            found_broken()
        raise ResourceBroken(self.name, self.bounds.tries_max, why)

    async def make(self, until_s: float | None = None) -> H:
        """A new handle, within make_s. One that comes after all was closed is closed too: ResourceClosed.

        Where handles are bounded it first has a place among them; raises as `HandlePlaces.take` does.
        """
        self._check_open()
        place = await self.places.take(until_s)
        try:
            self._check_open()
            handle = await self._made(place)
        except BaseException:
            if place is not None:
                place.give_back()
            raise
        if place is not None:
            self.places.keep(place, handle)
        if self.closed:
            await self._closed(handle)
        self._check_open()
        return handle

    async def _made(self, place: Place | None) -> H:
        try:
            async with asyncio.timeout(self.bounds.make_s) as limit:
                with making(place):
                    made = self.factory.make()
                    if not inspect.isawaitable(made):
                        raise TypeError(f"resource {self.name!r}: its factory's make is no async function")
                    return await made
        except TimeoutError as error:
            if not limit.expired():
                raise
            why = f"not made within {self.bounds.make_s:g} s (make_s){waited_for(error)}"
            raise ResourceBroken(self.name, 1, why) from error

    def _check_open(self) -> None:
        if self.closed:
            raise ResourceClosed(self.name)

    async def _fault(self, handle: H) -> str:
        """Why a handle is not sound, empty when it is."""
        if self.factory.check is None:
            return ""
        limit: asyncio.Timeout | None = None
        try:
            sound = self.factory.check(handle)
            if inspect.isawaitable(sound):
                async with asyncio.timeout(self.bounds.check_s) as limit:
                    sound = await sound
        except Exception as error:
            if limit is not None and limit.expired():
                return f"its check took over {self.bounds.check_s:g} s (check_s)"
            return words_of(error)
        return "" if sound else "its check says no"

    def add(self, handle: H) -> None:
        """One that was made before anybody asked."""
        self._put(handle)

    def give_back(self, handle: H) -> None:
        key = id(handle)
        if key not in self._out:
            return
        if (again := self._again.pop(key, 0)) > 1:
            self._again[key] = again - 1
        elif not again:
            del self._out[key]
        if key in self._dropped:
            self._dropped.discard(key)
            self._end(handle)
        else:
            self._put(handle)

    def drop(self, handle: H) -> None:
        """One that is lent is broken: nobody gets it again, and once it is given back it is closed in the background."""
        key = id(handle)
        if key in self._out and key not in self._dropped:
            self._dropped.add(key)
            self.broken += 1

    def _put(self, handle: H) -> None:
        if self.closed or self.places.is_wanted(handle):
            self._end(handle)
            return
        self._free.append((handle, self.clock.monotonic()))
        if self._idle_s is not None and self._timer is None:
            self._timer = self.clock.call_later(self._idle_s, self._drop_idle)

    def is_lent(self, handle: H) -> bool:
        return id(handle) in self._out

    def give_up(self, handle: H) -> bool:
        """Closes one that nobody has, and says whether; handles may be equal and not the same."""
        index = next((i for i, (kept, _) in enumerate(self._free) if kept is handle), None)
        if index is None or self.is_lent(handle):
            return False
        del self._free[index]
        self._end(handle)
        return True

    def _drop_idle(self) -> None:
        """Closes those that nobody has had for idle_s; the least recently used stand first."""
        assert self._idle_s is not None, "only a pool that drops idle handles has a timer"
        self._timer = None
        now = self.clock.monotonic()
        while self._free and now - self._free[0][1] >= self._idle_s:
            self._end(self._free.popleft()[0])
        if self._free:
            self._timer = self.clock.call_later(self._idle_s - (now - self._free[0][1]), self._drop_idle)

    def _end(self, handle: H) -> None:
        if self.factory.close is not None:
            self._spawn(self._closed(handle))
        else:
            self.places.give_back(handle)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _closed(self, handle: H) -> None:
        try:
            await self._close(handle)
        except Exception as error:
            _log.warning("a handle of resource %s did not close: %s", self.name, words_of(error))

    async def _close(self, handle: H) -> None:
        """To its end, within close_s; whoever waits for it is cancelled after."""
        try:
            closing = self.factory.close(handle) if self.factory.close is not None else None
            if not inspect.isawaitable(closing):
                return
            failure, cancelled = await finish(closing, self.bounds.close_s, "close_s")
        finally:
            self.places.give_back(handle)
        if failure is not None:
            raise failure
        if cancelled is not None:
            raise cancelled

    async def close(self) -> None:
        """Closes all, the lent ones too, to the end also for one who is cancelled. Raises an ExceptionGroup of what failed,
        once all were tried."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        handles = self.all()
        self._free.clear()
        self._out.clear()
        self._again.clear()
        closing = asyncio.gather(*map(self._close, handles), *self._ends, return_exceptions=True)
        _, cancelled = await finish(closing, None)
        failed = _failed(self.name, [result for result in closing.result() if isinstance(result, Exception)])
        if cancelled is not None:
            raise cancelled from failed
        if failed is not None:
            raise failed


def words_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _failed(name: str, failures: list[Exception]) -> ExceptionGroup[Exception] | None:
    if not failures:
        return None
    why = "; ".join(f"{type(failure).__name__}: {failure}" for failure in failures[:FAILURES_SHOWN])
    return ExceptionGroup(f"{len(failures)} handles of resource {name} did not close: {why}", failures)
