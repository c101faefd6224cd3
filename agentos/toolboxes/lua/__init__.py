"""Scripts in Lua as a tool."""

from agentos.toolboxes.lua.toolbox import LuaToolbox

__all__ = ["LuaToolbox"]
