"""One of several processes of a scenario: a kernel that does the steps it is told, beside others over the same store.

The parent (`scenario_processes`) tells on stdin and hears on stdout, a JSON object a line. Time goes on by itself here: who
waits for another process waits for what that one does next.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from agentos.testing.scenario_file import load_scenario
from agentos.testing.scenario_life import Carried, Life
from agentos.testing.scenario_result import StepResult
from agentos.testing.scenario_steps import done
from agentos.testing.scenario_world import without

MODULE = "agentos.testing.scenario_process"
TICK_S, REAL_TICK_S = 0.01, 0.002
"""How far the clock goes on, and how often: about five times as fast as time outside."""


class Begin(msgspec.Struct, kw_only=True, tag=True):
    """The first line: which scenario, what this process is called, and what its life before left. number counts lives."""

    file: str
    folder: str
    process: str
    number: int
    carried: Carried
    url: str


class Do(msgspec.Struct, kw_only=True, tag=True):
    """A step by its number, with what others know by now: the names of conversations, the writers by process."""

    step: int
    names: dict[str, str]
    writers: dict[str, int]


class Stand(msgspec.Struct, kw_only=True, tag=True):
    """Tell the last words, then stand still until the end comes."""


class Close(msgspec.Struct, kw_only=True, tag=True):
    """Close the kernel in good order, and end."""


class Begun(msgspec.Struct, kw_only=True, tag=True):
    writer: int


class Done(msgspec.Struct, kw_only=True, tag=True):
    result: StepResult
    names: dict[str, str]


Told = Begin | Do | Stand | Close
Heard = Begun | Done | Carried


def main() -> None:
    told = msgspec.json.decode(sys.stdin.buffer.readline(), type=Told)
    assert isinstance(told, Begin), "it is the first line"
    asyncio.run(_live(told))


async def _live(begin: Begin) -> None:
    life = Life(load_scenario(Path(begin.file)), Path(begin.folder), begin.carried, url=begin.url)
    await life.open()
    time = asyncio.get_running_loop().create_task(_pass_time(life))
    _tell(Begun(writer=life.kernel.ticker.writer))
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        told = msgspec.json.decode(line, type=Told)
        if isinstance(told, Do):
            _tell(await _do(life, begin, told))
        elif isinstance(told, Stand):
            lost = await _lost(life)
            _tell(_owned(life.last_words(), lost))
            sys.stdin.buffer.read()
            os._exit(1)
        else:
            break
    time.cancel()
    lost = await _lost(life)
    _tell(_owned(await life.close(), lost))


async def _lost(life: Life) -> list[str]:
    """The conversations in memory that another process has taken over: this one may not know it yet."""
    writer = life.kernel.ticker.writer
    rows = [await life.kernel.store.log(log) for log in list(life.kernel.ticker.loaded)]
    return [row.id for row in rows if row is not None and row.owner != writer]


def _owned(carried: Carried, lost: list[str]) -> Carried:
    carried.world = without(carried.world, lost)
    return carried


async def _pass_time(life: Life) -> None:
    while True:
        await asyncio.sleep(REAL_TICK_S)
        life.clock.advance(TICK_S)


async def _do(life: Life, begin: Begin, told: Do) -> Done:
    life.names |= told.names
    life.writers = told.writers
    step = life.scenario.steps[told.step]
    saw, wrong = await done(life, step)
    result = StepResult(
        life=begin.number,
        line=life.scenario.line(told.step),
        word=step.word,
        saw=saw,
        wrong=wrong,
        child=True,
        process=begin.process,
    )
    return Done(result=result, names=life.names)


def _tell(words: Heard) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(words) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
