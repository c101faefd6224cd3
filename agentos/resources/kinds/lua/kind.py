"""The kind `lua`: the Lua state of a conversation, one script at a time; its process ends with the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import Pattern
from agentos.resources.borrowing import Bounds, Factory, Takes
from agentos.resources.kinds.lua.limits import LuaLimits
from agentos.resources.kinds.lua.worker import LuaWorker
from agentos.resources.kinds.lua.workers import LuaWorkers
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

KIND = "lua"


def lua(workers: LuaWorkers | None = None, tools: Sequence[str] = (), **limits: Any) -> Factory[LuaWorker]:
    """A factory of workers, out of these or with `LuaLimits` of their own. tools are told to scripts by `tools.list()`.

    Raises msgspec.ValidationError for a limit that there is not.
    """
    if workers is not None:
        return Factory(workers.take, close=_end, check=_is_alive, takes=_takes)
    bounds, names = msgspec.convert(limits, LuaLimits, strict=False), tuple(tools)

    async def make() -> LuaWorker:
        return await LuaWorker.start(bounds, names)

    return Factory(make, close=_end, check=_is_alive, takes=_takes)


async def _end(worker: LuaWorker) -> None:
    await worker.end()


def _is_alive(worker: LuaWorker) -> bool:
    return worker.alive


def _takes(worker: LuaWorker) -> Takes:
    return Takes(pid=worker.pid, bytes=worker.memory_bytes)


def lua_kind(limits: LuaLimits) -> ResourceKind:
    """A pool of one: unlike an exclusive resource it gives up a handle that nobody has used for idle_s."""
    bounds = Bounds(make_s=limits.wait_s + 2 * limits.start_s, idle_s=limits.idle_s)
    return ResourceKind(name=KIND, factory=lua, pattern=Pattern.POOL, bounds=bounds, level=Level.CONVERSATION)


LUA = lua_kind(LuaLimits())
