"""Searching 100,000 messages: making the index, bringing it up to date, finding, and forgetting one conversation."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

from agentos.history import Search, Wanted
from agentos.persistence import open_store
from agentos.persistence.base import MessageRow, Store
from agentos.persistence.search_index import SearchIndex
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.log_units import SALT, LogUnits, append

CONVERSATIONS = 1_000
MESSAGES_EACH = 100
MESSAGE_WORDS = 30
VOCABULARY = 20_000
"""Different words; the n'th is used 1/n times as often as the first."""

FIGURES = {
    "search index made": Figure("s, 100,000 messages"),
    "search index size": Figure("MB"),
    "search nothing new": Figure("ms, the whole search"),
    "search rare word": Figure("ms, 20 hits"),
    "search two words": Figure("ms, 20 hits"),
    "search common word": Figure("ms, 20 of all that have it, nearly all"),
    "search newest": Figure("ms, 20 of all that have it, nearly all"),
    "search one agent": Figure("ms, 20 hits"),
    "search after one message": Figure("ms, the whole search"),
    "search forget": Figure("ms, one conversation"),
}


async def search(folder: Path, conversations: int = CONVERSATIONS, repeat: int = 5) -> Samples:
    """A sample is the wall time of one search, the look for what moved included."""
    store = open_store(f"sqlite:///{folder / 'many.db'}")
    last = await add_messages(store, await store.open("many"), conversations)
    samples: Samples = {name: [] for name in FIGURES}
    with closing(Search(store)) as searching:
        samples["search index made"].append((await _elapsed_ms(searching.find("w1")) / 1_000, None))
        path = SearchIndex.beside(store.url)
        assert path is not None
        samples["search index size"].append((path.stat().st_size / 1e6, None))
        for n in range(repeat):
            for name, work in _searches(searching).items():
                samples[name].append((await _elapsed_ms(work), None))
            await append(store, last.unit(text=f"one more {n}"))
            samples["search after one message"].append((await _elapsed_ms(searching.find(f'"more {n}"')), None))
            begun = time.perf_counter()
            SearchIndex(path).forget([LogUnits(f"said {n}", 0).id])
            samples["search forget"].append(((time.perf_counter() - begun) * 1_000, None))
    await store.close()
    return samples


def _searches(searching: Search) -> dict[str, Awaitable[Any]]:
    return {
        "search nothing new": searching.find("nothing"),
        "search rare word": searching.find(f"w{VOCABULARY // 2}"),
        "search two words": searching.find("w3 w40"),
        "search common word": searching.find("w1"),
        "search newest": searching.find("w1", newest=True),
        "search one agent": searching.find("w40", Wanted(agent="agent_x")),
    }


async def add_messages(store: Store, writer: int, conversations: int) -> LogUnits:
    """So many conversations of one unit each; gives the last one, to go on with."""
    dice = random.Random(1)
    words = [f"w{n}" for n in range(1, VOCABULARY + 1)]
    weights = list(accumulate(1 / n for n in range(1, VOCABULARY + 1)))
    for n in range(conversations):
        log = LogUnits(f"said {n}", writer)
        messages: list[MessageRow] = [
            (seq, "user", 0, 0, SALT, " ".join(dice.choices(words, cum_weights=weights, k=MESSAGE_WORDS)))
            for seq in range(1, MESSAGES_EACH + 1)
        ]
        kinds = ("input.received",) * MESSAGES_EACH
        await append(store, log.unit(*kinds, messages=messages, conversation=log.conversation()))
    return log


async def _elapsed_ms(work: Awaitable[Any]) -> float:
    begun = time.perf_counter()
    await work
    return (time.perf_counter() - begun) * 1_000
