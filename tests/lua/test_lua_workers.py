"""The workers of a toolbox: prepared ahead, bounded, replaced when they have died, and none left."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentos.clock import Clock
from agentos.errors import ConfigurationError, ResourceAccessTimeout, ResourceClosed
from agentos.resources.kinds.lua import LUA, Ended, LuaUnavailable, LuaWorker, LuaWorkers, Script
from agentos.resources.kinds.lua import worker as worker_module
from agentos.resources.shared import Shared
from agentos.testing import ManualClock
from agentos.testing.leaks import LeakMeter
from agentos.toolboxes.lua import LuaToolbox
from tests.lua.support import LONG_S, TIME_S, Bench, limits, lives


@asynccontextmanager
async def some(prepared: int = 0, clock: Clock | None = None, **more: Any) -> AsyncIterator[LuaWorkers]:
    found = LuaWorkers(limits(**more), name="calc", prepared=prepared, clock=clock)
    try:
        yield found
    finally:
        await found.close()


async def test_one_is_ready_for_who_asks_next() -> None:
    async with some(prepared=1) as workers:
        first = await workers.take()
        await asyncio.gather(*workers._tasks)
        [ready] = workers._ready

        assert await workers.take() is ready
        assert workers.taken == [first, ready]


async def test_one_that_died_while_it_waited_is_not_given_to_anybody() -> None:
    async with some(prepared=1) as workers:
        await workers.take()
        await asyncio.gather(*workers._tasks)
        [ready] = workers._ready
        await ready.end()

        taken = await workers.take()

        assert taken is not ready
        assert await Bench(taken).values("return 1") == [1]


async def test_beyond_the_bound_the_one_that_was_used_longest_ago_is_ended() -> None:
    async with some(workers_max=2) as workers:
        first, second = await workers.take(), await workers.take()
        workers.used(first)
        third = await workers.take()

        assert not second.alive
        assert workers.taken == [first, third]


async def test_where_all_run_scripts_others_wait_in_line_for_one_that_does_not() -> None:
    async with some(workers_max=1) as workers:
        only = await workers.take()
        running = asyncio.ensure_future(Bench(only).run("for i = 1, 1e6 do end return 1"))
        came: list[int] = []

        async def next_one(number: int) -> LuaWorker:
            worker = await workers.take()
            came.append(number)
            assert await Bench(worker).values("return 1") == [1]
            return worker

        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(next_one(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert not came
        others = await asyncio.gather(*waiting)

        assert isinstance(await running, Ended)
        assert came == [0, 1, 2]
        assert [worker.alive for worker in (only, *others)] == [False, False, False, True]


async def test_who_waits_too_long_for_a_worker_is_told_who_has_them() -> None:
    clock = ManualClock()
    async with some(workers_max=1, clock=clock) as workers:
        only = await workers.take()
        running = asyncio.ensure_future(Bench(only).run("while true do end"))
        taking = asyncio.ensure_future(workers.take())
        await asyncio.sleep(0)
        clock.advance(limits().wait_s)
        with pytest.raises(ResourceAccessTimeout, match=f"'calc' .1 at once. .* within 60 s; .*process {only.pid}"):
            await taking
        running.cancel()
        await asyncio.wait([running])

        assert (await workers.take()).alive


@pytest.mark.parametrize("steps", range(4))
async def test_who_is_cancelled_in_line_leaves_its_place_to_the_next(steps: int) -> None:
    async with some(workers_max=1) as workers:
        only = await workers.take()
        running = asyncio.ensure_future(Bench(only).run("while true do end"))
        await asyncio.sleep(0)
        first, second = asyncio.ensure_future(workers.take()), asyncio.ensure_future(workers.take())
        await asyncio.sleep(0)
        running.cancel()
        for _ in range(steps):
            await asyncio.sleep(0)
        first.cancel()
        worker = await second

        assert worker.alive
        assert workers.taken == [worker]
        assert workers._starting == 0


async def test_those_that_are_prepared_are_ended_when_nobody_asks_for_one() -> None:
    clock = ManualClock()
    async with some(prepared=1, clock=clock) as workers:
        taken = await workers.take()
        await asyncio.gather(*workers._tasks)
        [ready] = workers._ready
        clock.advance(limits().idle_s)
        await asyncio.gather(*workers._ends)

        assert not lives(ready.pid)
        assert taken.alive
        assert (await workers.take()).alive


async def test_one_that_dies_while_nobody_uses_it_leaves_no_dead_process() -> None:
    async with some() as workers:
        worker = await workers.take()
        os.kill(worker.pid, signal.SIGKILL)
        await worker._watcher
        assert worker._ended is not None
        await asyncio.wait([worker._ended])

        assert not lives(worker.pid)  # which one that nobody has reaped still would
        assert workers.taken == []


async def test_closing_ends_all_and_gives_no_more() -> None:
    async with some(prepared=1) as workers:
        taken = await workers.take()
        await asyncio.gather(*workers._tasks)
        pids = [taken.pid, workers._ready[0].pid]
        await workers.close()

        assert not any(lives(pid) for pid in pids)
        with pytest.raises(ResourceClosed):
            await workers.take()


async def test_one_that_becomes_ready_while_all_are_closed_is_ended_too() -> None:
    async with some() as workers:
        taking = asyncio.ensure_future(workers.take())
        await asyncio.sleep(0)
        await workers.close()
        with pytest.raises(ResourceClosed):
            await taking

        assert workers.taken == []


async def test_a_script_for_a_worker_that_has_ended_is_lost() -> None:
    async with some() as workers:
        worker = await workers.take()
        await worker.end()

        assert (await Bench(worker).failure("return 1"))[0] == "died"


async def test_a_shared_state_replaces_a_worker_that_was_lost() -> None:
    async with some() as workers:
        shared: Shared[LuaWorker] = Shared("calc", "lua", LUA.pattern, LUA.factory(workers=workers), bounds=LUA.bounds)
        async with shared.borrow() as first:
            assert (await Bench(first).failure("while true do end", time_s=TIME_S))[0] == "timeout"
        async with shared.borrow() as second:
            assert await Bench(second).values("return 1") == [1]
            [takes] = shared.takes()
        await shared.close()

    assert takes.pid == second.pid != first.pid
    assert (takes.bytes or 0) > 10_000


async def test_the_kind_can_be_asked_for_with_limits_of_its_own() -> None:
    shared: Shared[LuaWorker] = Shared("own", "lua", LUA.pattern, LUA.factory(tools=["a"], memory_bytes=8_000_000))
    async with shared.borrow() as worker:
        here = Bench(worker)
        assert await here.values("return tools.list()") == [["a"]]
        assert (await here.failure("return ('x'):rep(9000000)"))[0] == "memory"
    await shared.close()

    assert not lives(worker.pid)


ENDS = ("return 1", "error('x')", "while true do end", "local t = {} for i = 1, 1e9 do t[i] = {} end")


async def test_nothing_is_left_however_a_script_ends() -> None:
    meter = LeakMeter()
    for script in ENDS:
        async with some() as workers:
            await Bench(await workers.take()).run(script, time_s=TIME_S)
    for steps in range(0, 40, 3):
        await _cancelled_after(steps)

    await meter.check()


async def _cancelled_after(steps: int) -> None:
    """A start and a script that are cancelled after so many turns of the loop, wherever they are then."""

    async def work() -> None:
        async with some(prepared=1) as workers:
            worker = await workers.take()
            asked = Script(script="for i = 1, 1e7 do end return 1", now_s=0.0, time_s=LONG_S)
            await worker.run(asked, Bench(worker).call, lambda piece: None)

    task = asyncio.ensure_future(work())
    for _ in range(steps):
        await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.wait([task])


async def test_a_close_that_is_cancelled_ends_all_workers_before_it_goes_on() -> None:
    meter = LeakMeter()
    workers = LuaWorkers(limits(), name="calc", prepared=1)
    await workers.take()
    closing = asyncio.ensure_future(workers.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])

    assert closing.cancelled()
    await meter.check()


async def test_a_process_that_does_not_become_ready_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "PROGRAM", "/nowhere/worker.py")
    with pytest.raises(LuaUnavailable, match=r"it ended with exit code 2: .*worker\.py"):
        await LuaWorker.start(limits())


async def test_without_lupa_the_toolbox_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="Lua needs the package lupa, which is not installed: pip install"):
        await LuaToolbox("calc").open()
