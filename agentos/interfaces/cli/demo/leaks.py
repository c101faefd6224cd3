"""What a process holds: tasks, open files, threads, child processes, temporary files. By Python's own library."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

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
    return Held(
        tasks=len(asyncio.all_tasks()) - 1,
        files=_open_files(),
        threads=threading.active_count(),
        children=_children(),
        temporary=sum(1 for _ in temporary.rglob("*")),
    )


async def held_after(before: Held, temporary: Path) -> Held:
    """What is held once it equals `before`, or when SETTLE_S are over."""
    until = time.monotonic() + SETTLE_S
    after = held(temporary)
    while after != before and time.monotonic() < until:
        await asyncio.sleep(0.02)
        after = held(temporary)
    return after


@contextmanager
def own_temporary_folder() -> Iterator[Path]:
    """A folder in which this process and its children make their temporary files, removed at the end."""
    before, before_here = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="agentos-demo-") as name:
        os.environ["TMPDIR"] = tempfile.tempdir = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before_here
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def _open_files() -> int | None:
    for place in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(place)) - 1  # one of them lists the others
    return None


def _children() -> int | None:
    """Child processes, those that ended but were not waited for included."""
    try:
        tasks = os.listdir("/proc/self/task")
        return sum(len(Path(f"/proc/self/task/{task}/children").read_text().split()) for task in tasks)
    except OSError:
        return None
