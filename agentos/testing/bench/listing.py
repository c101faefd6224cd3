"""One page of very many conversations: first, sorted, filtered, and through the command that people use."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from agentos.kernel.listing import Listing, list_conversations
from agentos.kernel.reading import reading
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.testing.bench import command
from agentos.testing.bench.figures import Figure, Sample, Samples
from agentos.testing.many_conversations import RARE_AGENT, add_conversations

PAGES = {
    "list first page": Listing(),
    "list sorted": Listing(sort="started"),
    "list agent": Listing(agent="clerk"),
    "list rare agent": Listing(agent=RARE_AGENT, sort="started"),
    "list state": Listing(state="parked"),
    "list agent and state": Listing(agent="reader", state="closed"),
    "list roots": Listing(roots=True),
}
ANEW = "list, opened anew"
COMMANDS = {
    "ps": ("ps",),
    "ps filtered": ("ps", "--agent", "reader", "--state", "closed"),
}
FIGURES = {
    **{name: Figure("ms, 50 of 100,000", 20) for name in (*PAGES, ANEW)},
    **{name: Figure("ms, the whole command, its imports done") for name in COMMANDS},
}


async def listing(folder: Path, conversations: int = 100_000, repeat: int = 50) -> Samples:
    """A sample is the wall time of one page. A command is timed in a process that has run it before."""
    url = f"sqlite:///{folder / 'many.db'}"
    store = open_store(url)
    await add_conversations(store, await store.open("many"), conversations)
    await store.close()
    samples: Samples = {name: [] for name in FIGURES}
    for _ in range(repeat):
        async with reading(url) as opened:
            for name, page in PAGES.items():
                samples[name].append((await _page_ms(opened.store, page), None))
        begun = time.perf_counter()
        async with reading(url) as opened:
            await _page_ms(opened.store, Listing())
        samples[ANEW].append(((time.perf_counter() - begun) * 1_000, None))
    for name, words in COMMANDS.items():
        samples[name] = await _command(url, words, repeat)
    return samples


async def _page_ms(store: Store, page: Listing) -> float:
    begun = time.perf_counter()
    found = await list_conversations(store, page)
    elapsed_ms = (time.perf_counter() - begun) * 1_000
    assert found.conversations, "there is something to list"
    return elapsed_ms


async def _command(url: str, words: tuple[str, ...], repeat: int) -> list[Sample]:
    arguments = [sys.executable, "-m", command.__name__, str(repeat), *words, "--store", url]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{' '.join(words)} failed"
    return [(float(line), None) for line in said.split()]
