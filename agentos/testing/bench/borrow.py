"""What borrowing costs where nobody is in the way, what a scope costs, and whether a crowd is served in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from agentos.clock import SystemClock
from agentos.components import Access, Pattern
from agentos.ids import RandomIds
from agentos.resources import Factory, Level, Resources, Scope, Shared
from agentos.testing.bench.figures import Figure, Samples

CROWD = 1_000
POOL = 8
MORE = 100
"""How many more come when a crowd stands in line."""
STRIDE = 387
"""Has no divisor in common with the length of the chain."""
FIGURES = {
    "borrow, exclusive": Figure("us of CPU, borrowed and returned", 15),
    "borrow, read-write": Figure("us of CPU, borrowed to read and returned", 15),
    "borrow, pool": Figure("us of CPU, borrowed and returned", 15),
    "borrow, at once": Figure("us of CPU, borrow_nowait on a pool", 15),
    "scope of a call": Figure("us of CPU, opened with one release and closed", 10),
    "blocked borrow, 1,000 in line": Figure("us of CPU, read-write, of one that holds what others wait for", 150),
    "blocked borrow, 1,000 in a chain": Figure("us of CPU, each holds what the next waits for", 150),
    "1,000 on a pool of 8": Figure("ms of CPU, all served"),
    "1,000 on a pool of 8, order": Figure("served in the order in which they came", CROWD, at_least=True),
}


async def borrow(_folder: Path, count: int = 5_000, crowd: int = CROWD) -> Samples:
    resources = Resources(SystemClock(), RandomIds(), hold_warn_s=60.0, wait_warn_s=30.0)
    program = Scope(Level.PROGRAM, "program")
    made = {pattern: await _made(resources, program, pattern) for pattern in Pattern}
    conversation = Scope(Level.CONVERSATION, "conversation", Scope(Level.AGENT, "agent", program))
    cpu_ms, in_turn = await _crowd(made[Pattern.POOL], crowd)
    samples: Samples = {
        "borrow, exclusive": [(await _us(lambda: _borrowed(made[Pattern.EXCLUSIVE]), count), None)],
        "borrow, read-write": [(await _us(lambda: _borrowed(made[Pattern.READ_WRITE], Access.READ), count), None)],
        "borrow, pool": [(await _us(lambda: _borrowed(made[Pattern.POOL]), count), None)],
        "borrow, at once": [(await _us(lambda: _borrowed_now(made[Pattern.POOL]), count), None)],
        "scope of a call": [(await _us(lambda: _opened(conversation), count), None)],
        "blocked borrow, 1,000 in line": [(await _in_line(resources, program, crowd), None)],
        "blocked borrow, 1,000 in a chain": [(await _in_chain(resources, program, crowd), None)],
        "1,000 on a pool of 8": [(cpu_ms, None)],
        "1,000 on a pool of 8, order": [(in_turn, None)],
    }
    await program.close()
    resources.shut()
    return samples


async def _made(resources: Resources, scope: Scope, pattern: Pattern, name: str = "") -> Shared[object]:
    async def make() -> object:
        return object()

    return await resources.create(scope, "bench", name or pattern.value, Factory(make), pattern=pattern, size=POOL)


async def _us(work: Callable[[], Awaitable[None]], count: int) -> float:
    """Of one piece of work, the least of five rounds: what else runs on the machine makes none faster."""
    rounds = []
    for _ in range(5):
        begun = time.process_time()
        for _ in range(count):
            await work()
        rounds.append(1e6 * (time.process_time() - begun) / count)
    return min(rounds)


async def _borrowed(shared: Shared[object], access: Access = Access.WRITE) -> None:
    async with shared.borrow(access=access):
        pass


async def _borrowed_now(shared: Shared[object]) -> None:
    with shared.borrow_nowait():
        pass


async def _opened(conversation: Scope) -> None:
    turn = Scope(Level.TURN, "turn", conversation)
    call = Scope(Level.CALL, "call", turn)
    call.push("release", lambda: None)
    await call.close()
    await turn.close()


async def _crowd(pool: Shared[object], crowd: int) -> tuple[float, float]:
    """The CPU time until all were served, in ms, and how many of them in the order in which they came."""
    served: list[int] = []

    async def one(number: int) -> None:
        async with pool.borrow():
            served.append(number)
            await asyncio.sleep(0)

    begun = time.process_time()
    await asyncio.gather(*(one(number) for number in range(crowd)))
    cpu_ms = 1e3 * (time.process_time() - begun)
    return cpu_ms, sum(number == place for place, number in enumerate(served))


async def _in_line(resources: Resources, program: Scope, crowd: int) -> float:
    """The CPU time of one more writer, in us, behind a crowd of them. Each has another resource, for which one waits."""
    common = await _made(resources, program, Pattern.READ_WRITE, "in line")
    own = [await _made(resources, program, Pattern.EXCLUSIVE, f"own {number}") for number in range(crowd + MORE)]

    async def writer(mine: Shared[object]) -> None:
        async with mine.borrow(), common.borrow():
            raise AssertionError("its turn does not come")

    async def begin(some: Sequence[Shared[object]]) -> list[asyncio.Task[None]]:
        holding = [asyncio.ensure_future(writer(mine)) for mine in some]
        behind = [asyncio.ensure_future(_borrowed(mine)) for mine in some]
        await asyncio.sleep(0)
        return holding + behind

    async with common.borrow(access=Access.READ):
        waiting = await begin(own[:crowd])
        begun = time.process_time()
        waiting += await begin(own[crowd:])
        cpu_us = 1e6 * (time.process_time() - begun) / (2 * MORE)
        await _cancelled(waiting)
    return cpu_us


async def _in_chain(resources: Resources, program: Scope, crowd: int) -> float:
    """The CPU time of one that waits, in us, over all of a chain, whose links come in an order that is none."""
    links = [await _made(resources, program, Pattern.EXCLUSIVE, f"link {number}") for number in range(crowd + 1)]
    doors = [asyncio.Event() for _ in range(crowd)]

    async def link(number: int) -> None:
        async with links[number].borrow():
            await doors[number].wait()
            async with links[number + 1].borrow():
                pass

    async with links[crowd].borrow():
        waiting = [asyncio.ensure_future(link(number)) for number in range(crowd)]
        await asyncio.sleep(0)
        begun = time.process_time()
        for number in range(crowd):
            doors[number * STRIDE % crowd].set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        cpu_us = 1e6 * (time.process_time() - begun) / crowd
        await _cancelled(waiting)
    return cpu_us


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
