"""What PostgreSQL costs this process, against SQLite that stores the same units in it."""

from __future__ import annotations

from pathlib import Path

import asyncpg

import agentos.kernel
from agentos.persistence import open_store
from agentos.testing.bench.figures import Figure, Samples
from agentos.testing.bench.recorded import Recorded, append_by, begin, record
from agentos.testing.bench.turns import at_once, cpu_us, install, started
from agentos.testing.postgres import PostgresServer

BATCHES = (1, 16, 256)
FIGURES = {
    **{f"postgresql {size}": Figure(f"us of CPU a unit, in batches of {size}", 2) for size in BATCHES},
    "postgresql turns": Figure("us of CPU a turn, conversations at once", 2),
    "postgresql wait": Figure("us of CPU: a bare asyncpg statement of 1 ms, and a unit alone on SQLite"),
}
_WAITS, _WAIT = 200, "select pg_sleep(0.001)"


async def postgresql(folder: Path, conversations: int = 256, turns: int = 1, rounds: int = 3) -> Samples:
    """A server of its own, gone afterwards; its own CPU is that of other processes."""
    recorded = await record(conversations, turns)
    samples: Samples = {name: [] for name in FIGURES}
    with PostgresServer() as server:
        for number in range(rounds):
            for size in BATCHES:
                ours = await _units_us(server.new_schema_url(), recorded, size)
                other = await _units_us(f"sqlite:///{folder / f'units_{number}_{size}.db'}", recorded, size)
                samples[f"postgresql {size}"].append((ours, other))
            ours = await _turns_us(server.new_schema_url(), conversations, turns)
            other = await _turns_us(f"sqlite:///{folder / f'turns_{number}.db'}", conversations, turns)
            samples["postgresql turns"].append((ours, other))
            alone = samples["postgresql 1"][-1][1]
            samples["postgresql wait"].append((await _wait_us(server.url()), alone))
    return samples


async def _wait_us(dsn: str) -> float:
    """What a process pays for no more than waiting for a server and hearing of it: nothing that a lone unit could spare."""
    connection = await asyncpg.connect(dsn)
    try:
        return await cpu_us(lambda: connection.fetchval(_WAIT), 1, repeat=_WAITS)
    finally:
        await connection.close()


async def _units_us(url: str, recorded: Recorded, size: int) -> float:
    store = open_store(url)
    await begin(store, recorded)
    try:
        return await cpu_us(lambda: append_by(store, recorded.lines, size), recorded.units)
    finally:
        await store.close()


async def _turns_us(url: str, conversations: int, turns: int) -> float:
    async with agentos.kernel.open(url) as kernel:
        await install(kernel)
        all_of_them = await started(kernel, conversations)
        return await cpu_us(lambda: at_once(all_of_them, turns), conversations * turns)
