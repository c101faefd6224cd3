"""What a script reaches when it calls a tool: those of its agent that the toolbox lists, through the gate of its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

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
        begun_s = asyncio.get_running_loop().time()
        try:
            inner = await self._context.call(tool, arguments)
        except AgentosError as error:  # too many calls, or arguments that cannot be kept
            return Reply(status="error", result_txt=str(error))
        return _reply(inner, asyncio.get_running_loop().time() - begun_s)


def _reply(inner: InnerResult, duration_s: float) -> Reply:
    return Reply(
        status=_status(inner),
        result_txt=inner.text,
        duration=round(duration_s, 6),
        trace_id=inner.call,
        outcome=inner.status.value,
        kind=inner.kind,
    )


def _status(inner: InnerResult) -> str:
    """The four words of agents-exe."""
    if inner.done:
        return "ok"
    if inner.kind == "unknown_tool":
        return "not-found"
    return "not-allowed" if inner.status is CallStatus.DENIED else "error"
