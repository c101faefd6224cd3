"""What tests of the file store share: stores in a folder, their segments, and the harm that is done to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentos.errors import StoreDamaged
from agentos.persistence.base import Verdict
from agentos.persistence.file import FileStore
from agentos.testing.log_units import LogUnits, append

STORED = [Verdict.STORED]


@asynccontextmanager
async def open_file(path: Path, **options: Any) -> AsyncIterator[tuple[FileStore, int]]:
    """A store that is open for the length of a block, with its writer's number."""
    store = FileStore(str(path), **options)
    number = await store.open("program")
    try:
        yield store, number
    finally:
        await store.close()


def segment(path: Path, number: int = 1) -> Path:
    return path / "segments" / f"{number:08}.jsonl"


def offsets(data: bytes) -> list[int]:
    """Where each line begins, and where the last one ends."""
    found = [0]
    for line in data.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


async def store_of_three_logs(path: Path, rounds: int = 4) -> list[LogUnits]:
    """Logs whose units stand in turn; each unit is a line and a write of its own. Abandoned, as by a crash."""
    store = FileStore(str(path))
    writer = await store.open("program")
    logs = [LogUnits(name, writer) for name in "abc"]
    for i in range(rounds):
        for log in logs:
            assert await append(store, log.unit("a", text=f"{log.id} {i}")) == STORED
    store.abandon()
    return logs


async def texts(store: FileStore, log: LogUnits) -> list[str] | str:
    """What was said in a log; "damaged" when a part of it was lost."""
    try:
        return [body or "" for entry in await store.entries(log.id) for _, _, _, body in entry.payloads]
    except StoreDamaged:
        return "damaged"


def said(log: LogUnits, rounds: int) -> list[str]:
    return [f"{log.id} {i}" for i in range(rounds)]
