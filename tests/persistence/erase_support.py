"""What tests of erasing look for: words that may be in no file of a store once they are erased."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentos.persistence.base import Store, Unit, Verdict
from agentos.testing.log_units import SALT, LogUnits, append, post_of

CANARY = "canary-7f3a"
"""Stands in every text of the log that is to be erased, and in no other."""
SIZES = (0, 40, 900, 3_000, 20_000, 300_000)
"""Bytes behind the word: in one cell of a page, or on pages of their own, or too many to be written in place."""


def secret(place: str, size: int = 0) -> str:
    """The word is at the beginning and at the end."""
    return f"{CANARY} {place} {'x' * size} {CANARY}"


def files_with(folder: Path, word: str = CANARY) -> list[str]:
    """Names of the files below a folder that have the word in them.

    Another process looks: here, closing a file of SQLite would let go of the locks that it holds on it.
    """
    command = [sys.executable, "-I", "-S", "-c", _LOOK, str(folder), word]
    looked = subprocess.run(command, capture_output=True, text=True, check=True)
    return looked.stdout.splitlines()


_LOOK = """
import os, sys
for place, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(place, name), "rb") as file:
            if sys.argv[2].encode() in file.read():
                print(name)
"""


async def fill(store: Store, writer: int, *, name: str = "erased", rounds: int = len(SIZES)) -> LogUnits:
    """A log that has the word in its inputs, replies, arguments and results, and in its inbox, taken and not; in turn with
    others that do not."""
    log, other = LogUnits(name, writer), LogUnits(f"{name} other", writer)
    for i in range(rounds):
        size = SIZES[i % len(SIZES)]
        assert await store.post(post_of(log.id, f"post {i}", secret("in a post", size)))
        await stored(store, *_step(log, other, i, size))
        await stored(store, log.unit(text=secret("a reply", size), role="assistant", taken=[f"post {i}"]))
    await store.post(post_of(log.id, "not taken", secret("waiting", 5_000)))
    return log


def _step(log: LogUnits, other: LogUnits, i: int, size: int) -> list[Unit]:
    """One batch: an input with arguments and a result beside it, and the other log, which posts to the first."""
    seq = log.seq + 1
    values = [
        (seq, 1, "arguments", SALT, secret("arguments", size)),
        (seq + 1, 0, "result", SALT, secret("a result", size)),
    ]
    posts = [post_of(log.id, f"from the other {i}", secret("posted by a unit", size))]
    own = log.unit("input.received", "call.finished", text=secret("an input", size), payloads=values)
    return [own, other.unit(text=f"kept {i}" + "y" * size, posts=posts if i % 2 else [])]


async def stored(store: Store, *units: Unit) -> None:
    assert await append(store, *units) == [Verdict.STORED] * len(units)


def erasing(log: LogUnits) -> Unit:
    seq = log.seq
    return log.unit("payload.erased", erases=seq)


async def bodies(store: Store, log: LogUnits) -> set[str | None]:
    return {body for entry in await store.entries(log.id) for _, _, _, body in entry.payloads}
