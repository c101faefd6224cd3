"""Fewer rounds of garbage collection while a store is read: what is made then is hardly ever part of a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GC_THRESHOLD = 50_000
"""How many new objects there may be before the youngest are looked through."""

_held: list[tuple[int, int, int]] = []
"""The thresholds as they were, once for each block that runs: blocks of several tasks need not end in order."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """For the length of a block. Where the collector is off, or rarer still, it stays so."""
    before = gc.get_threshold()
    _held.append(_held[0] if _held else before)
    if 0 < before[0] < GC_THRESHOLD:
        gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        found = _held.pop()
        if not _held:
            gc.set_threshold(*found)
