"""How many entries a strict replay decides again in a second of one core: one long conversation and many short ones.

    python -m agentos.testing.replay_speed --entries 30000

Entries are counted over the processor time of the whole process, reading of the store included, with the settings of the
processes that `agentos replay` begins.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import agentos.kernel
from agentos.history import Identical, replay_all
from agentos.history.collecting import GC_THRESHOLD
from agentos.kernel import Kernel
from agentos.persistence import open_store
from agentos.testing.long_log import SLUG, TEXT, install_chronicler, long_conversation

TURNS = 3
"""Of a short conversation."""
TURN_ENTRIES = 11
TOGETHER = 20
"""How many short conversations are written at once."""


async def fill(url: str, entries: int) -> None:
    """A third of the entries in one conversation, the others in short ones."""
    async with agentos.kernel.open(url) as kernel:
        await install_chronicler(kernel, 1_000)
        await long_conversation(kernel, entries // 3)
        for _ in range(entries * 2 // 3 // (TURNS * TURN_ENTRIES * TOGETHER)):
            await asyncio.gather(*(_short(kernel) for _ in range(TOGETHER)))


async def entries_per_s(url: str) -> float:
    """Of one replay of the whole store. Raises AssertionError when something is not decided again."""
    store = open_store(url)
    begun, entries = time.process_time(), 0
    try:
        async for result in replay_all(store):
            if isinstance(result, Identical):
                entries += result.entries
            else:
                assert str(result).startswith("skipped"), result
    finally:
        await store.close()
    return entries / (time.process_time() - begun)


async def _short(kernel: Kernel) -> None:
    conversation = await kernel.start(SLUG)
    for _ in range(TURNS):
        await conversation.ask(TEXT)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agentos.testing.replay_speed", description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--store", help="the URL of a store that is there; by default one is made in a temporary folder"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="agentos-replay-") as folder:
        url = options.store or f"sqlite:///{Path(folder) / 'replay.db'}"
        if options.store is None:
            asyncio.run(fill(url, options.entries))
        gc.set_threshold(GC_THRESHOLD)
        found = [asyncio.run(entries_per_s(url)) for _ in range(options.rounds)]
    print("entries a second:", " ".join(f"{speed:,.0f}" for speed in found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
