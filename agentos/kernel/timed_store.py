"""A store whose appends are timed, while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from agentos.clock import Clock
from agentos.errors import StoreUnavailable
from agentos.persistence.base import Unit, Verdict

Appended = list[Verdict] | asyncio.Future[list[Verdict]]


class Appends(Protocol):
    """What the tick asks of a store."""

    def append(self, units: Sequence[Unit], /) -> Appended: ...


class Tell(Protocol):
    def __call__(self, units: int, took_s: float, /, *, failed: bool) -> None: ...


class TimedStore:
    """Appends as the store behind it does, and tells of each how many units it had and how long it took."""

    def __init__(self, store: Appends, clock: Clock, tell: Tell) -> None:
        self._store, self._clock, self._tell = store, clock, tell

    def append(self, units: Sequence[Unit], /) -> Appended:
        began = self._clock.monotonic()
        ended = self._ended(len(units), began)
        try:
            result = self._store.append(units)
        except StoreUnavailable:
            ended(True)
            raise
        if isinstance(result, list):
            ended(False)
        else:
            result.add_done_callback(lambda done: ended(done.cancelled() or done.exception() is not None))
        return result

    def _ended(self, units: int, began: float) -> Callable[[bool], None]:
        return lambda failed: self._tell(units, self._clock.monotonic() - began, failed=failed)
