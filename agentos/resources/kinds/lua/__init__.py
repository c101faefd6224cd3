"""Lua states, each in a process of its own."""

from agentos.resources.kinds.lua.kind import KIND, LUA, lua_kind
from agentos.resources.kinds.lua.limits import LuaLimits
from agentos.resources.kinds.lua.wire import Call, Ended, Reply, Script
from agentos.resources.kinds.lua.worker import CallTool, Lost, LuaUnavailable, LuaWorker, check_lupa
from agentos.resources.kinds.lua.workers import LuaWorkers

__all__ = [
    "KIND",
    "LUA",
    "Call",
    "CallTool",
    "Ended",
    "Lost",
    "LuaLimits",
    "LuaUnavailable",
    "LuaWorker",
    "LuaWorkers",
    "Reply",
    "Script",
    "check_lupa",
    "lua_kind",
]
