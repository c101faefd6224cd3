"""How many entries verify and strict replay take in a second of one core: one long conversation and many short ones.

Entries over the processor time of the whole process, reading of the store included. Beside each stands a bare loop over
the same store: it reads every head, hashes it after the one before, and decodes it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from agentos.events.entry import decode_head
from agentos.history import verify_store
from agentos.history.collecting import rarely_collected
from agentos.persistence import open_store
from agentos.testing import replay_speed
from agentos.testing.bench.figures import Figure, Samples

FIGURES = {
    "verify": Figure("entries/s, one core", 50_000, at_least=True),
    "verify:bare": Figure("CPU us an entry, verify and a bare loop"),
    "replay": Figure("entries/s, one core", 20_000, at_least=True),
    "replay:bare": Figure("CPU us an entry, replay and a bare loop"),
}

ENTRIES = 30_000
_HEADS = "select head from entries order by n, seq"


async def verify(folder: Path, entries: int = ENTRIES, repeat: int = 5) -> Samples:
    """The whole store, each time opened anew."""
    path = await _filled(folder, entries)
    samples: Samples = {"verify": [], "verify:bare": []}
    for _ in range(repeat):
        bare, ours = _bare_us(path), await _verified_per_s(f"sqlite:///{path}")
        samples["verify"].append((ours, None))
        samples["verify:bare"].append((1e6 / ours, bare))
    return samples


async def replay(folder: Path, entries: int = ENTRIES, repeat: int = 5) -> Samples:
    """Every conversation of the store, in this process."""
    path = await _filled(folder, entries)
    samples: Samples = {"replay": [], "replay:bare": []}
    for _ in range(repeat):
        bare = _bare_us(path)
        with rarely_collected():
            ours = await replay_speed.entries_per_s(f"sqlite:///{path}")
        samples["replay"].append((ours, None))
        samples["replay:bare"].append((1e6 / ours, bare))
    return samples


async def _filled(folder: Path, entries: int) -> Path:
    path = folder / "history.db"
    await replay_speed.fill(f"sqlite:///{path}", entries)
    return path


async def _verified_per_s(url: str) -> float:
    """Raises AssertionError when something differs."""
    store = open_store(url)
    begun = time.process_time()
    try:
        report = await verify_store(store)
    finally:
        await store.close()
    assert report.ok, report.differences[:3]
    return report.entries / (time.process_time() - begun)


def _bare_us(path: Path) -> float:
    """Microseconds of CPU an entry."""
    digest, count = b"", 0
    with closing(sqlite3.connect(path)) as db:
        begun = time.process_time()
        for (head,) in db.execute(_HEADS).fetchall():
            digest = hashlib.sha256(digest + head.encode()).digest()
            decode_head(head)
            count += 1
        return (time.process_time() - begun) / count * 1e6
