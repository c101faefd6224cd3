"""What a turn takes in the file of a SQLite store, early and late in a conversation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import agentos.kernel
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.turns import LONGER, SLUG, TINY, Words, ask, at_once, install, started

KIB = 1_024
WINDOW_MESSAGES = 200
"""A conversation without a window comes to the end of its context some day."""
FIGURES = {
    "bytes tiny text": Figure("bytes a turn, pages of the file", 3 * KIB),
    "bytes 0.9 KB text": Figure("bytes a turn, pages of the file", 4 * KIB),
    "bytes flat": Figure("bytes a turn, the last tenth of the turns and the first", 1.2),
    "bytes of heads": Figure("bytes a turn, tiny text: what digests attest"),
    "bytes of many": Figure("bytes a turn, tiny text, conversations at once, pages of the file"),
}

_HEADS = "select sum(length(e.head)) from entries e join logs l on l.n = e.n where l.id = ? and e.seq > 1"


async def turn_bytes(folder: Path, turns: int = 1_000, conversations: int = 100) -> Samples:
    """One conversation of so many turns for each length of text; and as many turns of several conversations at once."""
    tiny, heads = await _grown(folder / "tiny.db", TINY, turns)
    longer, _ = await _grown(folder / "longer.db", LONGER, turns)
    tenth = turns // 10
    many = await _grown_at_once(folder / "many.db", conversations, turns // conversations)
    return {
        "bytes tiny text": [((tiny[-1] - tiny[0]) / turns, None)],
        "bytes 0.9 KB text": [((longer[-1] - longer[0]) / turns, None)],
        "bytes flat": [((sizes[-1] - sizes[-2]) / tenth, (sizes[1] - sizes[0]) / tenth) for sizes in (tiny, longer)],
        "bytes of heads": [(heads / turns, None)],
        "bytes of many": [(many, None)],
    }


async def _grown(path: Path, words: Words, turns: int) -> tuple[list[int], int]:
    """The size of the file after each tenth of the turns, from none on, and what the heads of all took."""
    async with agentos.kernel.open(f"sqlite:///{path}") as kernel:
        await install(kernel, words, WINDOW_MESSAGES)
        conversation = await kernel.start(SLUG)
        sizes = [size_of(path)]
        for _ in range(10):
            await ask(conversation, turns // 10, words)
            sizes.append(size_of(path))
        ((heads,),) = (await kernel.query(_HEADS, (conversation.id,))).rows
    return sizes, heads


async def _grown_at_once(path: Path, conversations: int, turns: int) -> float:
    """Bytes a turn."""
    async with agentos.kernel.open(f"sqlite:///{path}") as kernel:
        await install(kernel)
        all_of_them = await started(kernel, conversations)
        before = size_of(path)
        await at_once(all_of_them, turns)
        return (size_of(path) - before) / (conversations * turns)


def size_of(path: Path) -> int:
    """Bytes of all pages, those in the write-ahead log too."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        ((pages,),) = database.execute("pragma page_count")
        ((page_bytes,),) = database.execute("pragma page_size")
    return int(pages * page_bytes)
