"""Every kind of resource, made, used and closed again and again: nothing stays, neither open nor in memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.resources.kinds.known import KNOWN
from agentos.testing.leaks import LeakMeter
from agentos.testing.rounds import KINDS, Kind, Place, place, rounds

COUNT, SLOW_COUNT = 40, 5
BLOCKS_A_ROUND_MAX = 1
"""Less than the least that a round could leave: an object with its place in a list or a mapping."""
SEGMENTS = 4
"""What a round leaves is left in each of them; caches that fill, and what is on its way out, come and go."""


@pytest.fixture(autouse=True)
def _what_was_before_is_set_aside() -> Iterator[None]:
    """Out of the collections that are made here: after some thousand tests it is millions of objects."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_every_kind_that_a_kernel_knows_has_its_rounds() -> None:
    assert {kind.name for kind in KNOWN} <= KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
async def test_rounds_leave_nothing_open_and_memory_as_it_was(name: str, tmp_path: Path, no_leaks: LeakMeter) -> None:
    kind = KINDS[name]
    count = SLOW_COUNT if kind.slow else COUNT
    async with place(tmp_path) as here:
        await rounds(kind, here, 1)
        meter = LeakMeter()
        await rounds(kind, here, count)
        await meter.check()
        grown = [await _grown(kind, here, count, meter) for _ in range(0 if kind.slow else SEGMENTS)]

        assert len(here.resources) == 0
        assert here.scope.children == ()
    assert kind.slow or min(grown) < BLOCKS_A_ROUND_MAX * count  # a few rounds say nothing of memory


async def _grown(kind: Kind, here: Place, count: int, meter: LeakMeter) -> int:
    """By how many blocks of Python's own allocator so many rounds have grown this process."""
    gc.collect()
    before = sys.getallocatedblocks()
    await rounds(kind, here, count)
    await meter.check()
    gc.collect()
    return sys.getallocatedblocks() - before
