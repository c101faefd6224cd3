"""What rounds leave behind: blocks of memory, resident bytes, and nothing that is open."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from agentos.testing.leaks import LeakMeter
from agentos.testing.rounds.kinds import KINDS, place, rounds

WARM = 50


class Counted(NamedTuple):
    """blocks and bytes of this process before and after; us is what one round took."""

    blocks: tuple[int, int]
    bytes: tuple[int, int]
    us: float


async def counted(name: str, folder: Path, count: int) -> Counted:
    """So many rounds of one kind, after WARM that are not counted. Raises Leaked."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        async with place(Path(own)) as here:
            await rounds(KINDS[name], here, WARM)
            meter, before = LeakMeter(), _held()
            begun = time.perf_counter()
            await rounds(KINDS[name], here, count)
            us = (time.perf_counter() - begun) / count * 1e6
            await meter.check()
            after = _held()
    return Counted((before[0], after[0]), (before[1], after[1]), us)


def _held() -> tuple[int, int]:
    """Blocks that Python's own allocator has given out, and resident bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return sys.getallocatedblocks(), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
