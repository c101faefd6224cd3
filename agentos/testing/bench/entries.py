"""Durable entries a second on SQLite when many clients share each commit: what syncing each one costs then."""

from __future__ import annotations

from pathlib import Path

import agentos.kernel
from agentos.persistence import open_store
from agentos.settings import Settings
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.recorded import Recorded, append_by_clients, begin, record
from agentos.testing.bench.turns import at_once, install, started, wall_s

FIGURES = {
    "entries normal": Figure("entries/s at the store", 5_000, at_least=True),
    "entries normal:full": Figure("entries/s at the store, normal and full", 1.3),
    "entries turns": Figure("entries/s through the kernel, normal"),
    "entries turns normal:full": Figure("entries/s through the kernel, normal and full"),
}

TICK = Settings().tick_conversations
"""As many clients as one tick of a kernel takes."""
_ENTRIES = "select count(*) from entries"


async def entries(folder: Path, conversations: int = TICK, turns: int = 3, repeat: int = 3) -> Samples:
    """The units of so many conversations, each client waiting for its own; and the same turns as a kernel takes them."""
    recorded = await record(conversations, turns)
    samples: Samples = {name: [] for name in FIGURES}
    for number in range(repeat):
        normal, full = [await _at_store(_url(folder, f"store_{number}", name), recorded) for name in ("normal", "full")]
        samples["entries normal"].append((normal, None))
        samples["entries normal:full"].append((normal, full))
    normal, full = [await _in_turns(_url(folder, "turns", name), conversations, turns) for name in ("normal", "full")]
    samples["entries turns"].append((normal, None))
    samples["entries turns normal:full"].append((normal, full))
    return samples


def _url(folder: Path, name: str, durability: str) -> str:
    return f"sqlite:///{folder / f'{name}_{durability}.db'}?durability={durability}"


async def _at_store(url: str, recorded: Recorded) -> float:
    store = open_store(url)
    await begin(store, recorded)
    try:
        return recorded.entries / await wall_s(lambda: append_by_clients(store, recorded.lines))
    finally:
        await store.close()


async def _in_turns(url: str, conversations: int, turns: int) -> float:
    async with agentos.kernel.open(url) as kernel:
        await install(kernel)
        all_of_them = await started(kernel, conversations)
        ((before,),) = (await kernel.query(_ENTRIES)).rows
        elapsed_s = await wall_s(lambda: at_once(all_of_them, turns))
        ((after,),) = (await kernel.query(_ENTRIES)).rows
    return float(after - before) / elapsed_s
