"""The one handle that all who were let in have together: of a read-write resource, or a stateless one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from agentos.clock import Clock
from agentos.components import Pattern
from agentos.errors import ResourceBroken
from agentos.resources.borrowing import Bounds, Factory
from agentos.resources.handles import Handles, words_of

H = TypeVar("H")


class CommonHandle(Handles[H]):
    """The one handle of a read-write or stateless resource, which all who were let in have together."""

    def __init__(self, name: str, factory: Factory[H], bounds: Bounds, clock: Clock) -> None:
        super().__init__(name, factory, bounds, clock, idles=False)
        self._users: dict[int, int] = {}
        self._making = asyncio.Lock()
        self._failures = 0
        self._why = ""

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

    async def take(self, found_broken: Callable[[], None], until_s: float | None = None) -> H:
        """Those who wait while one makes it fail with him when he cannot: each would try as long as he did."""
        failures = self._failures
        async with self._making:
            self._check_open()
            if self._failures > failures and not self._free:
                raise ResourceBroken(self.name, 1, f"somebody else could not make one: {self._why}")
            try:
                return await self._taken(found_broken, until_s)
            except Exception as error:
                self._failures += 1
                self._why = words_of(error)
                raise

    async def _taken(self, found_broken: Callable[[], None], until_s: float | None) -> H:
        why = ""
        for _ in range(self.bounds.tries_max):
            if not self._free:
                self._free.append((await self.make(until_s), self.clock.monotonic()))
                return self.take_ready()
            handle = self._free[0][0]
            why = "" if self._used else await self._fault(handle)
            if why:
                self.drop(handle)
                found_broken()
            elif self._free and self._free[0][0] is handle:  # nobody has closed it, or given it up, meanwhile
                return self.take_ready()
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


def handles_of(name: str, pattern: Pattern, factory: Factory[H], bounds: Bounds, clock: Clock) -> Handles[H]:
    """The handles of a resource that is used in this way."""
    if pattern in (Pattern.READ_WRITE, Pattern.STATELESS):
        return CommonHandle(name, factory, bounds, clock)
    return Handles(name, factory, bounds, clock, idles=pattern is Pattern.POOL)
