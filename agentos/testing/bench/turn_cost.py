"""What a turn costs: against bare loops that do the same work, and late in a conversation against early in it."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

import agentos.kernel
from agentos.testing.bench.bare import bare_database, bare_fan_out, bare_turns
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.turns import SLUG, TINY, at_once, by_tens, cpu_us, install, started

FIGURES = {
    "memory": Figure("us of CPU a turn", 20),
    "durable": Figure("us of CPU a turn", 6),
    "fan-out": Figure("us of CPU a turn", 4),
    "flat cpu": Figure("us of CPU, turn 1,000 and turn 10", 1.2),
    "flat bytes": Figure("bytes of heads and digests, turn 1,000 and turn 10", 1.2),
}

_BYTES_OF_TURNS = """
select sum(length(e.head) + 32) from entries e join logs l on l.n = e.n
where l.id = ? and e.turn > 0 and e.kind <> 'snapshot' group by e.turn order by e.turn
"""


async def memory(_folder: Path, turns: int = 600) -> Samples:
    bare_us = await cpu_us(lambda: bare_turns(turns), turns, repeat=5)
    async with agentos.kernel.open("memory:") as kernel:
        await install(kernel)
        ours_us = await cpu_us(lambda: by_tens(kernel, turns), turns)
    return {"memory": [(ours_us, bare_us)]}


async def durable(folder: Path, turns: int = 300) -> Samples:
    with closing(bare_database(folder / "bare.db")) as database:
        bare_us = await cpu_us(lambda: bare_turns(turns, database), turns)
    async with agentos.kernel.open(f"sqlite:///{folder / 'ours.db'}") as kernel:
        await install(kernel)
        ours_us = await cpu_us(lambda: by_tens(kernel, turns), turns)
    return {"durable": [(ours_us, bare_us)]}


async def fan_out(folder: Path, conversations: int = 1_000, turns: int = 3) -> Samples:
    with closing(bare_database(folder / "bare_fan.db")) as database:
        bare_us = await cpu_us(lambda: bare_fan_out(database, conversations, turns), conversations * turns)
    async with agentos.kernel.open(f"sqlite:///{folder / 'ours_fan.db'}") as kernel:
        await install(kernel)
        all_of_them = await started(kernel, conversations)
        ours_us = await cpu_us(lambda: at_once(all_of_them, turns), conversations * turns)
    return {"fan-out": [(ours_us, bare_us)]}


async def flat(folder: Path, turns: int = 1_000, window: int = 100) -> Samples:
    """The first number of each pair is about turn 1,000, the second from turn 10 on. The lower quartile of a window
    leaves out turns in which something else ran: a collection of garbage, a checkpoint."""
    async with agentos.kernel.open(f"sqlite:///{folder / 'flat.db'}") as kernel:
        await install(kernel)
        conversation = await kernel.start(SLUG)
        cpu: list[float] = []
        for _ in range(turns + window // 2):
            before = time.process_time()
            await conversation.ask(TINY.text)
            cpu.append((time.process_time() - before) * 1e6)
        rows = (await kernel.query(_BYTES_OF_TURNS, (conversation.id,))).rows
    sizes = [float(row[0]) for row in rows]
    early, late = slice(9, 9 + window), slice(turns - window // 2, turns + window // 2)
    return {
        "flat cpu": [(statistics.quantiles(cpu[late])[0], statistics.quantiles(cpu[early])[0])],
        "flat bytes": [(statistics.mean(sizes[late]), statistics.mean(sizes[early]))],
    }
