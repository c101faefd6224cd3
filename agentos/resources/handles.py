"""The handles of one resource: made when first needed, looked at before they are lent, replaced when they are broken.

Who may have one is not decided here; whoever asks was let in before.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar, cast

from agentos.clock import Clock, Timer
from agentos.errors import ResourceBroken
from agentos.resources.borrowing import Bounds, Factory

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
        self._free: deque[tuple[H, float]] = deque()
        self._out: dict[int, H] = {}
        self._dropped: set[int] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self.broken = 0
        self.closed = False

    @property
    def made(self) -> int:
        return len(self._free) + len(self._out)

    @property
    def idle(self) -> int:
        return len(self._free)

    def all(self) -> list[H]:
        """Every handle that lives, those that are lent first."""
        return [*self._out.values(), *(handle for handle, _ in self._free)]

    @property
    def ready(self) -> bool:
        """Whether `take_ready` has one: it is made, and needs no look."""
        return bool(self._free) and self.factory.check is None

    def take_ready(self) -> H:
        handle = self._free.pop()[0]
        self._out[id(handle)] = handle
        return handle

    async def take(self) -> H:
        """A sound handle, made if need be.

        Errors: ResourceBroken after tries_max of them; what the factory raises when it cannot make one.
        """
        why = ""
        for _ in range(self.bounds.tries_max):
            if not self._free:
                handle = await self.make()
                self._out[id(handle)] = handle
                return handle
            handle = self.take_ready()
            try:
                why = await self._fault(handle)
            except BaseException:  # a cancelled look says nothing of the handle
                self.give_back(handle)
                raise
            if not why:
                return handle
            self.drop(handle)
            self.give_back(handle)
        raise ResourceBroken(self.name, self.bounds.tries_max, why)

    async def make(self) -> H:
        """A new handle, within make_s."""
        try:
            async with asyncio.timeout(self.bounds.make_s) as limit:
                return await self.factory.make()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ResourceBroken(self.name, 1, f"not made within {self.bounds.make_s:g} s (make_s)") from error

    async def _fault(self, handle: H) -> str:
        """Why a handle is not sound, empty when it is."""
        if self.factory.check is None:
            return ""
        try:
            sound = self.factory.check(handle)
            if inspect.isawaitable(sound):
                async with asyncio.timeout(self.bounds.check_s):
                    sound = await sound
        except Exception as error:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return "" if sound else "its check says no"

    def add(self, handle: H) -> None:
        """One that was made before anybody asked."""
        self._put(handle)

    def give_back(self, handle: H) -> None:
        key = id(handle)
        if self._out.pop(key, None) is None:
            return
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
        if self.closed:
            self._end(handle)
            return
        self._free.append((handle, self.clock.monotonic()))
        if self._idle_s is not None and self._timer is None:
            self._timer = self.clock.call_later(self._idle_s, self._drop_idle)

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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _closed(self, handle: H) -> None:
        try:
            await self._close(handle)
        except Exception as error:
            _log.warning("a handle of resource %s did not close: %s: %s", self.name, type(error).__name__, error)

    async def _close(self, handle: H) -> None:
        close = self.factory.close
        closing = close(handle) if close is not None else None
        if inspect.isawaitable(closing):
            async with asyncio.timeout(self.bounds.close_s):
                await cast("Coroutine[Any, Any, None]", closing)

    async def close(self) -> None:
        """Closes all, the lent ones too. Raises an ExceptionGroup of what failed, once all were tried."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        handles = self.all()
        self._free.clear()
        self._out.clear()
        results = await asyncio.gather(*map(self._close, handles), *self._ends, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            why = "; ".join(f"{type(failure).__name__}: {failure}" for failure in failures[:FAILURES_SHOWN])
            raise ExceptionGroup(f"{len(failures)} handles of resource {self.name} did not close: {why}", failures)


class CommonHandle(Handles[H]):
    """The one handle of a read-write or stateless resource, which all who were let in have together."""

    def __init__(self, name: str, factory: Factory[H], bounds: Bounds, clock: Clock) -> None:
        super().__init__(name, factory, bounds, clock, idles=False)
        self._users: dict[int, int] = {}
        self._making = asyncio.Lock()

    @property
    def made(self) -> int:
        return len(self.all())

    @property
    def idle(self) -> int:
        return len(self._free) if not self._used else 0

    @property
    def _used(self) -> bool:
        return bool(self._free) and id(self._free[0][0]) in self._out

    def all(self) -> list[H]:
        return list({id(handle): handle for handle in super().all()}.values())

    @property
    def ready(self) -> bool:
        return bool(self._free) and (self.factory.check is None or self._used)

    def take_ready(self) -> H:
        handle = self._free[0][0]
        key = id(handle)
        self._out[key] = handle
        self._users[key] = self._users.get(key, 0) + 1
        return handle

    async def take(self) -> H:
        why = ""
        async with self._making:
            for _ in range(self.bounds.tries_max):
                if not self._free:
                    self._free.append((await self.make(), self.clock.monotonic()))
                    return self.take_ready()
                if self._used or not (why := await self._fault(self._free[0][0])):
                    return self.take_ready()
                self.drop(self._free[0][0])
        raise ResourceBroken(self.name, self.bounds.tries_max, why)

    def give_back(self, handle: H) -> None:
        key = id(handle)
        if key not in self._out:
            return
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._out[key]
            if not any(handle is kept for kept, _ in self._free):
                self._end(handle)

    def drop(self, handle: H) -> None:
        """Who comes next gets a new one; it is closed when the last of those that have it has given it back."""
        if not any(handle is kept for kept, _ in self._free):
            return
        self._free.clear()
        self.broken += 1
        if id(handle) not in self._out:
            self._end(handle)
