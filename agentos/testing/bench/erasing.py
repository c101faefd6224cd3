"""Erasing one conversation of very many, on SQLite: the whole command, until its bytes are overwritten in the file."""

from __future__ import annotations

import time
from pathlib import Path

import agentos.kernel
from agentos.persistence import open_store
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.turns import install, started
from agentos.testing.many_conversations import add_conversations

ERASE = "erase"
FIGURES = {ERASE: Figure("ms, one of 100,000, until its bytes are overwritten", 50)}


async def erasing(folder: Path, conversations: int = 100_000, repeat: int = 50) -> Samples:
    """A sample is the wall time of one erase, of a conversation with three turns. The kernel that erases is another one than
    that which ran them, as with the command."""
    url = f"sqlite:///{folder / 'erased.db'}"
    store = open_store(url)
    await add_conversations(store, await store.open("many"), conversations)
    await store.close()
    async with agentos.kernel.open(url) as kernel:
        await install(kernel)
        talks = await started(kernel, repeat)
        for talk in talks:
            for n in range(3):
                await talk.ask(f"input {n}")
    samples: Samples = {ERASE: []}
    async with agentos.kernel.open(url) as kernel:
        for talk in talks:
            begun = time.perf_counter()
            erasure = await kernel.erase(talk.id)
            samples[ERASE].append(((time.perf_counter() - begun) * 1_000, None))
            assert erasure.new == 1 and erasure.settled, "it is done, and done for good"
    return samples
