"""Which items of the inbox have been given to their logs: each comes once, though it is posted here and read there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentos.ids import LogId


class InboxKeys:
    """The keys of items that were given, until the store remembers them.

    A reading that has begun may still give what the store came to remember meanwhile, so nothing is forgotten before its end.
    """

    def __init__(self) -> None:
        self._given: set[tuple[str, str]] = set()
        self._stored: set[tuple[str, str]] = set()
        self._readings = 0

    def give(self, log: LogId, key: str) -> bool:
        """Whether the item is to be given now: it has not been before."""
        if (log, key) in self._given:
            return False
        self._given.add((log, key))
        return True

    def take_back(self, log: LogId, key: str) -> None:
        """It was not given after all, or is to be given again."""
        self._given.discard((log, key))

    def stored(self, log: LogId, keys: Sequence[str]) -> None:
        """The store remembers these keys: a reading that begins from here on does not give them again."""
        self._stored.update((log, key) for key in keys)
        self._forget_stored()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While the inbox is read."""
        self._readings += 1
        try:
            yield
        finally:
            self._readings -= 1
            self._forget_stored()

    def _forget_stored(self) -> None:
        if not self._readings:
            self._given -= self._stored
            self._stored.clear()
