"""What a fork takes, of a short conversation and of a long one: forks in an open turn, and where none is open."""

from __future__ import annotations

from pathlib import Path

import agentos.kernel
from agentos.kernel import Fork, Kernel
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.turn_bytes import KIB, size_of
from agentos.testing.long_log import install_chronicler, long_conversation

SHORT_ENTRIES = 10
WINDOW_MESSAGES = 200
FIGURES = {
    "fork bytes": Figure("bytes of heads and payloads, a fork in an open turn", 2 * KIB),
    "fork bytes flat": Figure("bytes of heads and payloads, of a long conversation and of a short one", 1.2),
    "fork file": Figure("bytes a fork, pages of the file", 2 * KIB),
    "fork file idle": Figure("bytes a fork where no turn is open, pages of the file", 2 * KIB),
    "fork file flat": Figure("bytes a fork, pages of the file, of a long conversation and of a short one", 1.2),
}

_OWN = """
select (select sum(length(head)) from entries where n = logs.n)
    + coalesce((select sum(length(salt) + length(body)) from payloads where n = logs.n), 0)
from logs where id = ?
"""
_REQUESTS = """
select max(e.seq) from entries e join logs on logs.n = e.n where logs.id = ? and e.kind = 'model.requested'
"""


async def fork_bytes(folder: Path, entries: int = 10_000, forks: int = 200) -> Samples:
    """Forks of a conversation with that many entries, and of one with few."""
    long_ = await _forked(folder / "long.db", entries, forks)
    short = await _forked(folder / "short.db", SHORT_ENTRIES, forks)
    return {
        "fork bytes": [(long_[0], None), (short[0], None)],
        "fork bytes flat": [(long_[0], short[0])],
        "fork file": [(long_[1], None), (short[1], None)],
        "fork file idle": [(long_[2], None), (short[2], None)],
        "fork file flat": [(long_[1], short[1])],
    }


async def _forked(path: Path, entries: int, forks: int) -> tuple[float, float, float]:
    """Bytes of heads and payloads of a fork in an open turn, of the file for it, and of the file for one in none."""
    async with agentos.kernel.open(f"sqlite:///{path}") as kernel:
        await install_chronicler(kernel, WINDOW_MESSAGES)
        conversation = await long_conversation(kernel, entries)
        ((request,),) = (await kernel.query(_REQUESTS, (conversation.id,))).rows
        begun = size_of(path)
        made = [await _fork(kernel, conversation.id, request) for _ in range(forks)]
        opened = size_of(path)
        for _ in range(forks):
            await _fork(kernel, conversation.id, None)
        idle = size_of(path)
        own = [(await kernel.query(_OWN, (fork.id,))).rows[0][0] for fork in made]
    return max(own), (opened - begun) / forks, (idle - opened) / forks


async def _fork(kernel: Kernel, conversation: str, at: int | None) -> Fork:
    made = await kernel.fork(conversation, at, run=False)
    assert bool(made.turn) is (at is not None), "a turn is open where a model is asked, and none at the end"
    return made
