"""Thousands of texts of many conversations, written and erased in any order: none of those erased is left in a file.

A page of a database keeps what stood in it when its rows are moved elsewhere, so some order of writing might leave a copy.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from agentos.persistence import open_store
from agentos.testing.erase_contract import erasing, said
from agentos.testing.log_units import LogUnits, append, post_of

CONVERSATIONS, ROUNDS, ERASED = 60, 40, 50
CANARY = re.compile(rb"canary (\d+) y")


@pytest.mark.parametrize("chars_max", [60, 900, 6_000])
@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_no_order_of_writing_and_erasing_leaves_one(kind: str, chars_max: int, tmp_path: Path) -> None:
    dice = random.Random(chars_max)
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}" if kind == "sqlite" else f"file:{tmp_path / 'a'}")
    writer = await store.open("writer")
    logs = [LogUnits(f"conversation {n}", writer) for n in range(CONVERSATIONS)]

    def text(n: int) -> str:
        return f"canary {n} " + "y" * dice.randrange(1, chars_max)

    for round_ in range(ROUNDS):
        order = dice.sample(range(CONVERSATIONS), CONVERSATIONS)
        await append(store, *(said(logs[n], text(n)) for n in order))
        n = dice.randrange(CONVERSATIONS)
        await store.post(post_of(logs[n].id, f"waits {round_}", text(n)))
    gone = dice.sample(range(CONVERSATIONS), ERASED)
    for n in gone:
        await append(store, erasing(logs[n]))
    is_settled = await store.settle_erased()
    found = canaries(tmp_path)
    await store.close()

    assert is_settled
    assert found == canaries(tmp_path) == set(range(CONVERSATIONS)) - set(gone)


def canaries(folder: Path) -> set[int]:
    """The conversations of which a text stands in a file."""
    return {int(number) for path in folder.rglob("*") if path.is_file() for number in CANARY.findall(path.read_bytes())}
