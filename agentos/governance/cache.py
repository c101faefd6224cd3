"""Compiled forms of pinned data, kept by the identity of what they were made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """Makes a value once for each object. It holds the object too, so that its identity is not given to another one.

    At most size_max objects; the oldest goes first.
    """

    def __init__(self, make: Callable[[K], V], size_max: int) -> None:
        self._make, self._size_max = make, size_max
        self._entries: dict[int, tuple[K, V]] = {}

    def get(self, of: K) -> V:
        entry = self._entries.get(id(of))
        if entry is not None:
            return entry[1]
        value = self._make(of)
        if len(self._entries) >= self._size_max:
            del self._entries[next(iter(self._entries))]
        self._entries[id(of)] = (of, value)
        return value

    def __len__(self) -> int:
        return len(self._entries)
