"""How long a conversation waits for its Lua state, and for a script in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from agentos.resources.kinds.lua import Ended, LuaLimits, LuaWorker, Reply, Script
from agentos.testing.bench.figures import Figure, Samples

WORKERS = 20
SCRIPTS = 300
FIGURES = {
    "Lua worker": Figure("ms, until a process takes scripts", 60),
    "Lua script": Figure("ms, return 1 + 1", 2),
    "Lua script with a tool": Figure("ms, one call of a tool that answers at once"),
}


async def lua(folder: Path, workers: int = WORKERS, scripts: int = SCRIPTS) -> Samples:
    """A sample is the wall time of one start, or of one script."""
    limits = LuaLimits()
    starts = [await _start_ms(limits) for _ in range(workers)]
    worker = await LuaWorker.start(limits)
    try:
        plain = [await _script_ms(worker, "return 1 + 1") for _ in range(scripts)]
        calling = [await _script_ms(worker, "return tools.any{number = 1}") for _ in range(scripts)]
    finally:
        await worker.end()
    found = {"Lua worker": starts, "Lua script": plain, "Lua script with a tool": calling}
    return {name: [(ms, None) for ms in taken] for name, taken in found.items()}


async def _start_ms(limits: LuaLimits) -> float:
    begun = time.perf_counter()
    worker = await LuaWorker.start(limits)
    ready_ms = (time.perf_counter() - begun) * 1e3
    await worker.end()
    return ready_ms


async def _script_ms(worker: LuaWorker, script: str) -> float:
    begun = time.perf_counter()
    ended = await worker.run(Script(script=script, now_s=0.0, time_s=10.0), _answer, _ignore)
    assert isinstance(ended, Ended) and ended.kind == "done", ended
    return (time.perf_counter() - begun) * 1e3


async def _answer(tool: str, arguments: dict[str, Any]) -> Reply:
    return Reply(status="ok", result_txt="1")


def _ignore(piece: str) -> None:
    """These scripts print nothing."""
