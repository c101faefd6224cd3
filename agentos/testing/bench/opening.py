"""How long the first word to a long conversation waits that is not in memory."""

from __future__ import annotations

from pathlib import Path

from agentos.testing import long_log
from agentos.testing.bench.figures import Figure, Samples

FIGURES = {"opening": Figure("ms, 100,000 entries, window of 1,000 messages", 50)}


async def opening(folder: Path, entries: int = 100_000, window_messages: int = 1_000, rounds: int = 30) -> Samples:
    """A sample is the wall time of one opening."""
    found = await long_log.measure(f"sqlite:///{folder / 'long.db'}", entries, window_messages, rounds)
    return {"opening": [(ms, None) for ms in found]}
