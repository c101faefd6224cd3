"""A process that is kept: there whenever it is asked for, started anew a few times, and gone with all below it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import pytest

from agentos.errors import ProcessGaveUp, ProcessLost, ProcessNotStarted, ResourceClosed
from agentos.resources.kinds.process import KeptLimits, KeptProcess, ProcessState, Program, kept_process
from agentos.resources.process.command import ProcessLimits, inherited
from agentos.resources.process.live import LiveProcess
from agentos.resources.process.survivors import stat_of
from agentos.testing.clock import ManualClock
from agentos.testing.leaks import leak_meter

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")

HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
QUICK = ProcessLimits(grace_s=0.2, drain_s=0.2, leftover_s=0.1)
ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
DEAF = "import time\nprint('ready', flush=True)\ntime.sleep(1000)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF
WITHOUT_END = (
    "import os, sys\nprint('ready', flush=True)\n"
    "while True:\n    os.write(1, b'flood\\n' * 10000)\n    os.write(2, b'moan\\n' * 10000)"
)


class Words:
    """A use that keeps the words it heard, at most a few, and is ready with the first one."""

    def __init__(self) -> None:
        self.heard_words: list[str] = []
        self.heard_bytes = 0
        self.news = asyncio.Event()
        self.gone = asyncio.Event()
        self.error: ProcessLost | None = None

    def heard(self, chunk: memoryview) -> None:
        self.heard_bytes += len(chunk)
        if len(self.heard_words) < 100:
            self.heard_words += bytes(chunk).decode().split()
        self.news.set()

    async def prepare(self, live: LiveProcess) -> None:
        await self.until(1)

    def lost(self, error: ProcessLost) -> None:
        self.error = error
        self.gone.set()

    async def until(self, count: int) -> None:
        while len(self.heard_words) < count:
            self.news.clear()
            await self.news.wait()


class Uses:
    """All incarnations' uses, oldest first."""

    def __init__(self) -> None:
        self.all: list[Words] = []

    def next(self) -> Words:
        self.all.append(Words())
        return self.all[-1]


def program(source: str) -> Program:
    return Program(argv=(sys.executable, "-c", source), environment=inherited(), cwd=os.getcwd())


def kept(source: str, uses: Uses, clock: ManualClock | None = None, **limits: float) -> KeptProcess:
    bounds = KeptLimits(**{"close_s": 0.1, "process": QUICK, **limits})  # type: ignore[arg-type]
    return KeptProcess("it", program(source), uses.next, limits=bounds, clock=clock)


async def say(process: KeptProcess, word: str) -> None:
    assert (await process.ready()).write(f"{word}\n".encode()) is not None


async def test_it_is_fed_and_heard_and_ends_by_itself_when_its_stdin_closes() -> None:
    uses = Uses()
    process = kept(ECHO, uses, close_s=HANG_S)
    await process.open()
    await say(process, "abc")
    await uses.all[0].until(2)
    pid, sound = process.pid, process.healthy()
    await process.close()

    assert uses.all[0].heard_words == ["ready", "cba"]
    assert (pid is not None, sound, process.healthy(), process.state) == (True, True, False, ProcessState.CLOSED)
    assert str(uses.all[0].error) == "it: was closed"
    with pytest.raises(ResourceClosed):
        await process.ready()


async def test_one_that_is_killed_is_told_and_started_anew_when_it_is_asked_for() -> None:
    uses = Uses()
    process = kept(ECHO, uses)
    await process.open()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    await uses.all[0].gone.wait()
    down = [process.state, process.problem, process.pid]
    await say(process, "abc")
    await uses.all[1].until(2)
    up = [process.state, process.problem, process.started]
    await process.close()

    assert down == [ProcessState.DOWN, "ended with signal SIGKILL", None]
    assert up == [ProcessState.READY, "", 2]


async def test_all_who_ask_while_it_starts_get_the_same_one_and_may_be_cancelled() -> None:
    uses = Uses()
    process = kept(ECHO, uses)
    await process.open()
    process.end("is of no more use")
    asked = [asyncio.create_task(process.ready()) for _ in range(10)]
    await asyncio.sleep(0)
    for one in asked[:5]:
        one.cancel()
    lives = await asyncio.gather(*asked[5:])
    started = process.started
    await process.close()

    assert len({id(live) for live in lives}) == 1
    assert all(one.cancelled() for one in asked[:5])
    assert started <= 2


async def test_one_that_does_not_come_up_again_is_given_up() -> None:
    uses, clock = Uses(), ManualClock()
    process = kept(ECHO, uses, clock, restarts_max=1)
    await process.open()
    for _ in range(2):
        await process.ready()
        process.end("is of no more use")
        await uses.all[-1].gone.wait()
    refused = await asyncio.gather(process.ready(), process.ready(), return_exceptions=True)
    clock.advance(3_600)
    later = await asyncio.gather(process.ready(), return_exceptions=True)
    state = process.state
    await process.close()

    assert [type(error) for error in [*refused, *later]] == [ProcessGaveUp] * 3
    assert str(refused[0]) == (
        "it: ended again after 1 restarts within 60 s, so it is not started any more; it is of no more use"
    )
    assert state is ProcessState.FAILED


async def test_one_that_is_renewed_is_started_again_and_one_that_ran_is_another_then() -> None:
    uses, clock = Uses(), ManualClock()
    process = kept(ECHO, uses, clock, restarts_max=0)
    await process.open()
    first = process.pid
    process.end("is of no more use")
    await uses.all[0].gone.wait()
    with pytest.raises(ProcessGaveUp):
        await process.ready()
    gave_up = process.renew()
    second = (await process.ready()).pid
    await process.close()

    assert (gave_up, process.renew()) == (True, False)
    assert first != second


async def test_one_that_is_renewed_twice_is_still_another_that_does_not_count() -> None:
    process = kept(ECHO, Uses(), restarts_max=0)
    await process.open()
    renewed = process.renew(), process.renew()
    await process.ready()
    started = process.started
    await process.close()

    assert renewed == (True, False)
    assert started == 2


async def test_one_that_was_asked_for_while_it_was_started_is_not_started_again_when_that_one_ends() -> None:
    """Nobody asks any more by then."""
    uses = Uses()
    process = kept(ECHO, uses)
    await process.open()
    process.end("is of no more use")
    await asyncio.gather(*(process.ready() for _ in range(3)))
    process.end("is of no more use")
    await uses.all[-1].gone.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    started, state = process.started, process.state
    await process.close()

    assert (started, state) == (2, ProcessState.DOWN)


async def test_whoever_closes_it_too_waits_until_nothing_is_left_of_it() -> None:
    process = kept(STUBBORN, Uses())
    await process.open()
    pid = process.pid
    assert pid is not None
    first = asyncio.create_task(process.close())
    await asyncio.sleep(0)
    await process.close()
    left = stat_of(pid)
    await first

    assert left is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import sys\nsys.exit('no paper')", "it: ended with exit code 1 before it was ready; it said: no paper"),
        ("import time\ntime.sleep(1000)", "it: was not ready in 0.3 s (start_s)"),
        ("import os, time\nos.close(1)\ntime.sleep(1000)", "it: closed its pipes, and was ended before it was ready"),
    ],
)
async def test_one_that_never_gets_ready_is_not_there_and_leaves_nothing(source: str, said: str) -> None:
    process = kept(source, Uses(), start_s=0.3 if "start_s" in said else HANG_S)
    with pytest.raises(ProcessNotStarted) as refused:
        await process.open()

    assert str(refused.value) == said
    assert process.state is ProcessState.CLOSED


@pytest.mark.parametrize("source", [DEAF, STUBBORN, WITHOUT_END])
async def test_one_that_does_not_listen_is_ended_all_the_same(source: str) -> None:
    async with leak_meter():
        uses = Uses()
        process = kept(source, uses)
        await process.open()
        await process.close()

    assert uses.all[0].error is not None
    assert len(uses.all[0].error.said) <= 510


async def test_what_it_does_not_read_is_bounded() -> None:
    process = kept(DEAF, Uses(), unread_bytes=1_000_000)
    await process.open()
    live = await process.ready()
    taken = 0
    while live.write(b"x" * 100_000) is not None:
        taken += 1
    await process.close()

    assert 10 <= taken <= 11


CUTS: list[Callable[[KeptProcess], Awaitable[object]]] = [KeptProcess.open, KeptProcess.ready, KeptProcess.close]


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 200])
@pytest.mark.parametrize("work", CUTS)
async def test_a_cancel_at_any_await_leaves_nothing(
    work: Callable[[KeptProcess], Awaitable[object]], turns: int
) -> None:
    async with leak_meter():
        process = kept(ECHO, Uses())
        if work is not KeptProcess.open:
            await process.open()
            process.end("is of no more use")
        cut = asyncio.ensure_future(work(process))
        for _ in range(turns):
            await asyncio.sleep(0)
        cut.cancel()
        await asyncio.wait([cut], timeout=HANG_S)
        await process.close()

    assert cut.done()


@pytest.mark.parametrize("turns", range(8))
async def test_one_that_gets_ready_just_as_it_is_closed_stays_closed(turns: int) -> None:
    class Gated(Words):
        begun, gate = asyncio.Event(), asyncio.Event()

        async def prepare(self, live: LiveProcess) -> None:
            self.begun.set()
            await self.gate.wait()

    async with leak_meter(), asyncio.timeout(HANG_S):
        process = KeptProcess("it", program(ECHO), Gated, limits=KeptLimits(close_s=0.1, process=QUICK))
        opening = asyncio.create_task(process.open())
        await Gated.begun.wait()
        Gated.gate.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        await process.close()
        await asyncio.wait([opening])

    assert (process.started, process.state) == (1, ProcessState.CLOSED)
    assert opening.exception() is None or isinstance(opening.exception(), ResourceClosed | ProcessNotStarted)


async def test_as_a_resource_it_tells_its_number_and_is_unsound_once_given_up() -> None:
    factory = kept_process(program(ECHO), Uses().next, limits=KeptLimits(restarts_max=0, process=QUICK))
    process = await factory.make()
    assert factory.takes is not None
    assert factory.check is not None
    takes, sound = factory.takes(process), factory.check(process)
    process.end("is of no more use")
    with pytest.raises(ProcessGaveUp):
        await process.ready()
    unsound = factory.check(process)
    await process.close()

    assert takes.pid is not None
    assert (sound, unsound) == (True, False)
