"""The other process in `agentos.testing.process_contract`: opens a store by its URL and does what lines on stdin say.

    python -m agentos.testing.process_child URL NAME

Each line is one JSON object, `{"do": WORD, ...}`, and is answered by one on stdout, but for `burst`, which tells of each
batch that was acknowledged and never ends. The first line of stdout is the writer's number.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from agentos.persistence import open_store
from agentos.persistence.base import Store, StoredEntry, Unit, Verdict
from agentos.testing.log_units import LogUnits, append, post_of

TASKS = 8
UNIT = ("input.received", "turn.started", "model.requested")
"""Every unit that a child writes has three entries, so that a part of one is known when it is seen."""

Answer = dict[str, Any]


class Child:
    """A store that is open for writing, and the logs that this process began, by name."""

    def __init__(self, store: Store, writer: int, name: str) -> None:
        self.store, self.writer, self.name = store, writer, name
        self.logs: dict[str, LogUnits] = {}

    def log(self, name: str) -> LogUnits:
        return self.logs.setdefault(name, LogUnits(name, self.writer))

    async def append(self, logs: list[str]) -> Answer:
        """One unit for each of these logs, in one batch."""
        units = [self.log(name).unit(*UNIT, text=f"from {self.name}") for name in logs]
        verdicts = await append(self.store, *units)
        return {"verdicts": [verdict.value for verdict in verdicts], "heads": _heads(units)}

    async def erase(self, log: str) -> Answer:
        """All that this log of this process has said."""
        mine = self.log(log)
        seq = mine.seq
        (verdict,) = await append(self.store, mine.unit("payload.erased", erases=seq))
        return {"verdict": verdict.value, "settled": await self.store.settle_erased()}

    async def burst(self, logs: list[str]) -> Answer:
        """Appends without end and tells of all that was acknowledged."""
        for n in count():
            size = 10 if n % 5 else 30_000
            units = [self.log(name).unit(*UNIT, text="x" * size) for name in logs[: 1 + n % len(logs)]]
            verdicts = await append(self.store, *units)
            assert verdicts == [Verdict.STORED] * len(units), verdicts
            say(heads=_heads(units))
            await asyncio.sleep(0)
        raise AssertionError("it does not end by itself")

    async def tasks(self, units: int, shared: str) -> Answer:
        """So many tasks, each with a log of its own and so many units; a single one gathers theirs, as a tick does. All
        of them post to the inbox of one more log meanwhile."""
        waiting: list[tuple[Unit, asyncio.Future[Verdict]]] = []
        loop = asyncio.get_running_loop()

        async def task(n: int) -> None:
            log = self.log(f"{self.name} {n}")
            for i in range(units):
                future: asyncio.Future[Verdict] = loop.create_future()
                waiting.append((log.unit(*UNIT, text=f"{n}.{i}"), future))
                assert await future is Verdict.STORED
                assert await self.store.post(post_of(shared, f"{self.name} {n}.{i}"))

        running = asyncio.gather(*(task(n) for n in range(TASKS)))
        while not running.done():
            batch, waiting[:] = list(waiting), []
            if batch:
                for (_, future), verdict in zip(
                    batch, await append(self.store, *(unit for unit, _ in batch)), strict=True
                ):
                    future.set_result(verdict)
            await asyncio.sleep(0)
        await running
        return {"heads": {log.id: [log.seq, log.digest.hex()] for log in self.logs.values()}}

    async def post(self, log: str, keys: list[str]) -> Answer:
        """Which of these keys this process was the first to post."""
        return {"first": [key for key in keys if await self.store.post(post_of(log, key, self.name))]}

    async def watch(self, log: str, seq: int, lengths: int) -> Answer:
        """Reads a log again and again until it has come to a seq and was seen with so many lengths, however slow this process
        is beside the one that writes; what of it was ever seen that may not be."""
        wrong: list[str] = []
        seen = {0}
        while max(seen) < seq or len(seen) < lengths:
            stored = await self.store.entries(log)
            wrong += broken(log, stored)
            seen.add(len(stored))
            await asyncio.sleep(0)
        return {"lengths": sorted(seen), "wrong": wrong}


def broken(log: str, stored: Iterable[StoredEntry]) -> list[str]:
    """What is wrong with the entries of a log: a gap, a chain that does not hold, a unit of which a part is missing."""
    wrong, digest, last = [], hashlib.sha256(log.encode()).digest(), None
    for seq, entry in enumerate(stored, 1):
        digest, last = hashlib.sha256(digest + entry.head.encode()).digest(), entry
        if entry.seq != seq:
            wrong.append(f"{log} has {entry.seq} in the place of {seq}")
        if entry.digest != digest:
            wrong.append(f"{log} is not chained at {seq}")
    if last is not None and last.seq - last.unit != len(UNIT) - 1:
        wrong.append(f"{log} ends in the middle of the unit at {last.unit}")
    return wrong


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def _heads(units: Iterable[Unit]) -> dict[str, list[Any]]:
    return {unit.log: [unit.seq, unit.digest.hex()] for unit in units}


async def main(url: str, name: str) -> None:
    store = open_store(url)
    child = Child(store, await store.open(f"child {name}"), name)
    do: dict[str, Callable[..., Awaitable[Answer]]] = {
        "append": child.append,
        "burst": child.burst,
        "erase": child.erase,
        "tasks": child.tasks,
        "post": child.post,
        "watch": child.watch,
    }
    try:
        say(writer=child.writer)
        while line := await asyncio.to_thread(sys.stdin.readline):
            words = json.loads(line)
            say(**await do[words.pop("do")](**words))
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
