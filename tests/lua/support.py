"""A Lua worker for the length of a test, and short ways to run scripts in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentos.resources.kinds.lua import Ended, Lost, LuaLimits, LuaWorker, Reply, Script

MEMORY_BYTES = 16 * 1024 * 1024
TIME_S = 0.25
"""What a script that never ends costs a test."""
SOON_S = 1.0
"""The same, and time enough for what a script that does end has to do."""
LONG_S = 30.0
"""More than any script here takes on a busy machine."""


def limits(**more: Any) -> LuaLimits:
    return LuaLimits(**{"memory_bytes": MEMORY_BYTES, "time_s": LONG_S, **more})


class Bench:
    """A worker, what its scripts printed, and what they called."""

    def __init__(self, worker: LuaWorker) -> None:
        self.worker = worker
        self.printed: list[str] = []
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.reply = Reply(status="ok", result_txt='{"found": [1, 2]}')

    async def run(
        self, script: str, *, time_s: float = LONG_S, now_s: float = 0.0, fresh: bool = False
    ) -> Ended | Lost:
        asked = Script(script=script, now_s=now_s, time_s=time_s, fresh=fresh)
        return await self.worker.run(asked, self.call, self.printed.append)

    async def values(self, script: str, **more: Any) -> list[Any]:
        ended = await self.run(script, **more)
        assert isinstance(ended, Ended)
        assert ended.kind == "done", ended.text
        return ended.values

    async def failure(self, script: str, **more: Any) -> tuple[str, str]:
        """The kind and the words of a script that does not work out."""
        ended = await self.run(script, **more)
        assert isinstance(ended, Lost) or ended.kind != "done"
        return ended.kind, ended.text

    async def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        self.called.append((tool, arguments))
        return self.reply


@asynccontextmanager
async def bench(tools: tuple[str, ...] = (), **bounds: Any) -> AsyncIterator[Bench]:
    worker = await LuaWorker.start(limits(**bounds), tools)
    try:
        yield Bench(worker)
    finally:
        await worker.end()


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
