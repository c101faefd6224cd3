"""Forks at the end of any unit, stored and not run."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.ids import LogId
from agentos.kernel import Kernel
from agentos.persistence.base import StoredEntry


def ends_of_units(entries: Sequence[StoredEntry]) -> list[int]:
    return [
        entry.seq
        for entry, later in zip(entries, [*entries[1:], None], strict=True)
        if not later or later.unit == later.seq
    ]


async def fork(kernel: Kernel, parent: str, upto: int) -> LogId | None:
    """A fork with its first unit; None when no turn was open there, and the fork has nothing to take up."""
    made = await kernel.fork(parent, upto, run=False)
    assert made.upto == upto
    return LogId(made.id) if made.turn else None
