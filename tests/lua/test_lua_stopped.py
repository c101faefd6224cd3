"""A worker that is stopped, and so heeds no limit of its own: the time of its script ends it."""

from __future__ import annotations

import os
import signal

from agentos.resources.kinds.lua import LuaWorkers
from agentos.resources.kinds.lua.wire import Script
from agentos.resources.kinds.lua.worker import Lost
from tests.lua.support import Bench, limits, lives


async def _no_tool(*_asked: object) -> object:
    raise AssertionError("no tool is called")


async def test_a_script_of_a_worker_that_was_stopped_is_out_of_time_and_the_next_has_another() -> None:
    workers = LuaWorkers(limits(), name="calc", prepared=0)
    worker = await workers.take()
    os.kill(worker.pid, signal.SIGSTOP)
    ended = await worker.run(Script(script="return 1", now_s=0.0, time_s=0.2), _no_tool, print)  # type: ignore[arg-type]
    left = lives(worker.pid)
    values = await Bench(await workers.take()).values("return 2")
    await workers.close()

    assert isinstance(ended, Lost)
    assert (ended.kind, left, values) == ("timeout", False, [2])
