"""The Lua toolbox of agents-exe. What its scripts reach of files and the network is explained and left out."""

from __future__ import annotations

from agentos.definitions.agents_exe.reading import Part, Tagged, part_of
from agentos.definitions.agents_exe.toolboxes import COMMON, Boxes
from agentos.definitions.source import Keys

_MODULES = {"allowedPaths": "fs", "fileSandbox": "fs", "allowedHosts": "http"}
"""The keys that are for modules which this version lacks."""
_KEYS = ("name", "description", "maxMemoryMB", "maxExecutionTimeSeconds", "allowedTools", *_MODULES)


def lua(boxes: Boxes, found: Tagged) -> None:
    part = part_of(boxes.notes, found, (*_KEYS, *COMMON))
    name = None if part is None else boxes.name_of(part)
    if part is None or name is None or not boxes.free_tool(part, f"lua_{name}_execute"):
        return
    keys, put = boxes.start("lua", name, part.at("name")), boxes.draft.put
    put((*keys, "description"), part.text("description"), part.at("description"))
    put((*keys, "tool"), f"lua_{name}_execute", part.at("name"))
    put((*keys, "state"), "call", part.keys)
    _limits(boxes, keys, part)
    for origin, tool in part.texts("allowedTools"):
        boxes.draft.add((*keys, "tools"), tool, origin)
    for key, module in _MODULES.items():
        if part.value(key):
            part.warn(key, f"scripts have no module {module} in this version; read past")
    boxes.common(part)


def _limits(boxes: Boxes, keys: Keys, part: Part) -> None:
    """Whole units of memory, and seconds; both above 0."""
    memory_mb, time_s = part.number("maxMemoryMB"), part.number("maxExecutionTimeSeconds")
    if memory_mb is not None and not (float(memory_mb).is_integer() and memory_mb >= 1):
        part.error("maxMemoryMB", "a whole number above 0 is needed here")
    elif memory_mb is not None:
        boxes.draft.put((*keys, "memory_mb"), int(memory_mb), part.at("maxMemoryMB"))
    if time_s is not None and not 0 < time_s < float("inf"):
        part.error("maxExecutionTimeSeconds", "a number above 0 is needed here")
    elif time_s is not None:
        boxes.draft.put((*keys, "time_s"), time_s, part.at("maxExecutionTimeSeconds"))
