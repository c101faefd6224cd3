"""A cache: bounded by number and bytes, forgetful after a while, and never making one thing twice at the same time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.components import Pattern
from agentos.errors import ResourceBroken, ResourceClosed, ResourceDeadlock
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.finishing import unheard
from agentos.resources.process.family import insist
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class CacheLimits(msgspec.Struct, frozen=True, kw_only=True):
    """At most entries_max values, of bytes_max in all, each for ttl_s at most (None: as long as there is room)."""

    entries_max: int = 1_000
    bytes_max: int = 64 * 1024 * 1024
    ttl_s: float | None = 300.0


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept now and is being made, and how often so far a value was there, was missing, and was dropped."""

    entries: int
    bytes: int
    making: int
    hits: int
    misses: int
    dropped: int


class _Kept(NamedTuple, Generic[V]):
    value: V
    size: int
    until_s: float | None


class _Making(Generic[V]):
    """A value that is being made, for how many, and for which others its making waits."""

    task: asyncio.Task[V]

    def __init__(self) -> None:
        self.waiters = 0
        self.waits_for: list[_Making[Any]] = []

    def leads_to(self, other: _Making[Any]) -> bool:
        """Whether it is the other one, or waits for it, by itself or by those that it waits for."""
        seen: set[_Making[Any]] = set()
        following: list[_Making[Any]] = [self]
        while following:
            one = following.pop()
            if one is other:
                return True
            if one not in seen:
                seen.add(one)
                following += one.waits_for
        return False


_OWN: ContextVar[_Making[Any] | None] = ContextVar(
    "the making of a cached value that a task is at work on", default=None
)


class Cache(Generic[K, V]):
    """Values by key. make gives one that is missing, size_of what it takes in bytes; one that is larger than the whole
    cache is given and not kept. The one that was used longest ago goes first."""

    def __init__(
        self,
        name: str,
        make: Callable[[K], Awaitable[V]],
        size_of: Callable[[V], int],
        *,
        limits: CacheLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name, self.limits = name, limits or CacheLimits()
        self._make, self._size_of, self._clock = make, size_of, clock or SystemClock()
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()
        self._making: dict[K, _Making[V]] = {}
        self._tasks: set[asyncio.Task[V]] = set()
        self._bytes = self._hits = self._misses = self._dropped = 0
        self.closed = False

    async def get(self, key: K) -> V:
        """The value, made if it is missing: once, for all who ask meanwhile.

        Whoever is cancelled leaves the others waiting; when nobody waits any more, the making is cancelled too.
        Errors: ResourceClosed; ResourceDeadlock when the making of a value asks for that value, be it by way of others,
        of other caches, or of tasks that it has begun; whatever make raises, which is not kept.
        """
        if self.closed:
            raise ResourceClosed(self.name)
        kept = self._kept.get(key)
        if kept is not None and not self._is_over(kept):
            self._hits += 1
            self._kept.move_to_end(key)
            return kept.value
        self._misses += 1
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = self._begun(key)
        return await self._wait(key, making)

    def forget(self, key: K) -> None:
        """The next one to ask has it made anew. What is being made is given to those who wait, and not kept."""
        self._drop(key)
        self._making.pop(key, None)

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(
            entries=len(self._kept),
            bytes=self._bytes,
            making=len(self._making),
            hits=self._hits,
            misses=self._misses,
            dropped=self._dropped,
        )

    async def close(self) -> None:
        """Drops everything. What is being made is cancelled; whoever waits for it gets ResourceClosed."""
        self.closed = True
        tasks = list(self._tasks)  # those too whose key was forgotten meanwhile
        for task in tasks:
            task.cancel()
        self._kept.clear()
        self._bytes = 0
        if tasks:
            await insist(_all_done(tasks))

    def _begun(self, key: K) -> _Making[V]:
        making: _Making[V] = _Making()
        making.task = task = asyncio.create_task(self._made(key, making), name=f"cache {self.name}")
        task.add_done_callback(unheard)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return making

    async def _wait(self, key: K, making: _Making[V]) -> V:
        own = _OWN.get()
        if own is not None and making.leads_to(own):  # two that wait for each other could not even be cancelled
            raise ResourceDeadlock(self.name, ["the making of a value asks for the value itself"])
        making.waiters += 1
        waits = own.waits_for if own is not None else []
        waits.append(making)
        try:
            await asyncio.wait([making.task])
        finally:
            waits.remove(making)
            making.waiters -= 1
            if not making.waiters and not making.task.done():
                if self._making.get(key) is making:  # whoever asks from now on has it made anew
                    del self._making[key]
                making.task.cancel()
                await insist(_all_done([making.task]))
        if making.task.cancelled():
            raise ResourceClosed(self.name) if self.closed else ResourceBroken(self.name, 1, "its making was cancelled")
        return making.task.result()

    async def _made(self, key: K, making: _Making[V]) -> V:
        _OWN.set(making)
        try:
            value = await self._make(key)
            if self._making.get(key) is making and not self.closed:
                self._keep(key, value)
            return value
        finally:
            if self._making.get(key) is making:
                del self._making[key]

    def _keep(self, key: K, value: V) -> None:
        size = self._size_of(value)
        self._drop(key)
        if size > self.limits.bytes_max or self.limits.entries_max < 1:
            return
        ttl_s = self.limits.ttl_s
        self._kept[key] = _Kept(value, size, None if ttl_s is None else self._clock.monotonic() + ttl_s)
        self._bytes += size
        while len(self._kept) > self.limits.entries_max or self._bytes > self.limits.bytes_max:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: K) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size
            self._dropped += 1

    def _is_over(self, kept: _Kept[V]) -> bool:
        return kept.until_s is not None and self._clock.monotonic() >= kept.until_s


def cache(
    make: Callable[[K], Awaitable[V]],
    size_of: Callable[[V], int],
    *,
    name: str = "cache",
    limits: CacheLimits | None = None,
    clock: Clock | None = None,
) -> Factory[Cache[K, V]]:
    """How a cache is made as a resource, looked at before it is lent, and given back."""

    async def made() -> Cache[K, V]:
        return Cache(name, make, size_of, limits=limits, clock=clock)

    return Factory(
        make=made,
        close=Cache.close,
        check=lambda one: not one.closed,
        takes=lambda one: Takes(bytes=one.statistics().bytes),
    )


CACHE = ResourceKind(
    name="cache", factory=cache, pattern=Pattern.STATELESS, level=Level.TOOLBOX, told_name_and_clock=True
)
"""All use it at once: what is made meanwhile is made once."""


async def _all_done(tasks: list[asyncio.Task[V]]) -> None:
    await asyncio.wait(tasks)
