"""How much of a script in Lua is borne."""

from __future__ import annotations

import msgspec


class LuaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one Lua state and of what it runs.

    memory_bytes: what Lua may take. time_s: how long one script may run, without what it waits for the tools that it
    calls. script_bytes: a script; values_bytes: what it gives, and the arguments of one tool, as JSON; printed_bytes: what
    is kept of what it prints; line_bytes: one message to or from its process, the result of a tool among them. start_s: how
    long a process may take until it is ready. workers_max: how many processes live at once, beside those that are prepared;
    wait_s: how long a script waits for one of them; idle_s: how long one is kept whose conversation runs nothing.
    """

    memory_bytes: int = 64 * 1024 * 1024
    time_s: float = 30.0
    script_bytes: int = 256 * 1024
    values_bytes: int = 1024 * 1024
    printed_bytes: int = 64 * 1024
    line_bytes: int = 8 * 1024 * 1024
    start_s: float = 10.0
    workers_max: int = 32
    wait_s: float = 60.0
    idle_s: float = 900.0
