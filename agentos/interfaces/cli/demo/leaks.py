"""How much a process holds: tasks, open files, threads, child processes, temporary files; counted by the leak meter."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import msgspec

from agentos.testing.leaks import held_by_process

SETTLE_S = 2.0
"""How long things that end by themselves (a reaped child, a thread on its last line) are given."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Counts; None where this system does not tell."""

    tasks: int
    files: int | None
    threads: int
    children: int | None
    temporary: int


def held(temporary: Path) -> Held:
    """What this process holds now; the caller's own task is left out."""
    counts = Counter(kind for kind, _ in held_by_process(temporary))
    return Held(
        tasks=counts["task"],
        files=counts["file"] or None,
        threads=counts["thread"],
        children=counts["child"] if Path("/proc/self/task").exists() else None,
        temporary=counts["temporary"],
    )


async def held_after(before: Held, temporary: Path) -> Held:
    """What is held once it equals `before`, or when SETTLE_S are over."""
    until = time.monotonic() + SETTLE_S
    after = held(temporary)
    while after != before and time.monotonic() < until:
        await asyncio.sleep(0.02)
        after = held(temporary)
    return after
