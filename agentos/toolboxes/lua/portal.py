"""What a script reaches when it calls a tool: those of its agent that the toolbox lists, through the gate of its turn."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from agentos.clock import Clock, SystemClock
from agentos.components import CallStatus
from agentos.errors import AgentosError
from agentos.ids import is_name
from agentos.ports import CallContext, InnerResult
from agentos.resources.kinds.lua import Reply


class Portal:
    """The road to tools for one script. tools are names, or patterns with `*` and `?`; what none allows is not asked for."""

    def __init__(self, tools: Sequence[str], context: CallContext) -> None:
        self._tools, self._context = tools, context

    async def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """The reply to the script, whatever becomes of the call."""
        if not is_name(tool) or not any(fnmatchcase(tool, pattern) for pattern in self._tools):
            listed = ", ".join(self._tools) or "none"
            return Reply(status="not-allowed", result_txt=f"scripts here may call these tools: {listed}")
        clock = self._context.clock
        begun_s = clock.monotonic()
        try:
            inner = await self._context.call(tool, arguments)
        except AgentosError as error:  # too many calls, or arguments that cannot be kept
            return Reply(status="error", result_txt=str(error), now_s=told_s(clock))
        return _reply(inner, clock.monotonic() - begun_s, told_s(clock))


def ticks(clock: Clock) -> bool:
    """Whether a clock goes on as that of any process does, so that nobody has to be told."""
    return isinstance(clock, SystemClock)


def told_s(clock: Clock) -> float | None:
    """What a running script has to be told of the time, in seconds since 1970."""
    return None if ticks(clock) else clock.now() / 1e6


def _reply(inner: InnerResult, duration_s: float, now_s: float | None) -> Reply:
    return Reply(
        status=_status(inner),
        result_txt=inner.text,
        duration=round(duration_s, 6),
        trace_id=inner.call,
        outcome=inner.status.value,
        kind=inner.kind,
        now_s=now_s,
    )


def _status(inner: InnerResult) -> str:
    """The four words of agents-exe."""
    if inner.done:
        return "ok"
    if inner.kind == "unknown_tool":
        return "not-found"
    return "not-allowed" if inner.status is CallStatus.DENIED else "error"
