"""Erasing one conversation of very many, on SQLite: the whole command, until its bytes are overwritten in the file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import agentos.kernel
from agentos.kernel import Conversation, Kernel
from agentos.persistence import open_store
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_rows import IndexedText, Portion
from agentos.testing.bench.figures import Figure, Sample, Samples
from agentos.testing.bench.turns import install, started
from agentos.testing.many_conversations import add_conversations

ERASE, BEHIND, INDEXED = "erase", "erase, log to be copied", "erase, search index beside"
FIGURES = {
    ERASE: Figure("ms, one of 100,000, until its bytes are overwritten", 50),
    BEHIND: Figure("ms, the same when 8 MB of the write-ahead log wait to be copied to any place of the file first"),
    INDEXED: Figure("ms, the same with a search index of 100,000 texts, which is written anew"),
}
WAITING_CONVERSATIONS = 5_000
"""What was written since the log was copied the last time: about wal_copy_bytes."""
TEXTS = 100_000
TEXT_WORDS = 12


async def erasing(folder: Path, conversations: int = 100_000, repeat: int = 50, texts: int = TEXTS) -> Samples:
    """A sample is the wall time of one erase, of a conversation with three turns. The kernel that erases is another one than
    that which ran them, as with the command. The figures that are told and not judged are of a tenth as many."""
    url = f"sqlite:///{folder / 'erased.db'}"
    store = open_store(url)
    await add_conversations(store, await store.open("many"), conversations)
    await store.close()
    few = max(repeat // 10, 1)
    async with agentos.kernel.open(url) as kernel:
        await install(kernel)
        talks = await started(kernel, repeat + 2 * few)
        for talk in talks:
            for n in range(3):
                await talk.ask(f"input {n}")
    async with agentos.kernel.open(url) as kernel:
        samples: Samples = {ERASE: [await _erased(kernel, talk) for talk in talks[:repeat]]}
        samples[BEHIND] = []
        for n, talk in enumerate(talks[repeat : repeat + few]):
            first = conversations + n * WAITING_CONVERSATIONS
            await add_conversations(kernel.store, kernel.ticker.writer, WAITING_CONVERSATIONS, first=first)
            samples[BEHIND].append(await _erased(kernel, talk))
        _index(url, [talk.id for talk in talks], texts)
        samples[INDEXED] = [await _erased(kernel, talk) for talk in talks[repeat + few :]]
    return samples


async def _erased(kernel: Kernel, talk: Conversation) -> Sample:
    begun = time.perf_counter()
    erasure = await kernel.erase(talk.id)
    elapsed_ms = (time.perf_counter() - begun) * 1_000
    assert erasure.new == 1, "it was not erased before"
    assert erasure.settled, "it is done for good"
    return elapsed_ms, None


def _index(url: str, logs: Sequence[str], texts: int) -> None:
    """An index as a search leaves it, of these logs."""
    path = SearchIndex.beside(url)
    assert path is not None
    index = SearchIndex(path)
    for n, log in enumerate(logs):
        index.add([_portion(log, range(n, texts, len(logs)))])
    index.close()


def _portion(log: str, numbers: Sequence[int]) -> Portion:
    said = [
        IndexedText(seq=n, i=0, role="user", part="text", tool=None, turn=1, call=0, at=n, text=_text(number))
        for n, number in enumerate(numbers, 1)
    ]
    return Portion(log=log, after=0, seq=len(said), digest=b"", texts=said, calls=())


def _text(number: int) -> str:
    return " ".join(f"word{(number * 7_919 + n * n) % 20_011}" for n in range(TEXT_WORDS))
