"""Models and toolboxes that fail by a plan, in all the ways that real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from agentos.clock import Clock
from agentos.components import ToolSpec
from agentos.errors import ModelError, ToolError
from agentos.events.model import ModelReply, ModelRequest
from agentos.ids import Name
from agentos.models.base import ModelClient, OnDelta
from agentos.ports import CallContext
from agentos.testing.faults import FaultPlan
from agentos.toolboxes.base import Doubt, Toolbox

SLOW_S = 5.0
MODEL_ERRORS = ("rate_limit", "overloaded", "network", "timeout", "auth", "invalid_request", "unavailable")


class FaultyModel:
    """Any model, with faults at `model`: one of MODEL_ERRORS, `cut` (in the middle of its text), `raise`, `cancel`
    (itself), `hang` (until it is cancelled) and `slow` (SLOW_S, then its answer)."""

    def __init__(self, inner: ModelClient, plan: FaultPlan, clock: Clock) -> None:
        self.inner, self.plan, self.clock = inner, plan, clock

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        kind = self.plan.visit("model")
        if kind in MODEL_ERRORS:
            raise ModelError(kind, f"{kind}, for a test", retry_after_s=2.0 if kind == "rate_limit" else None)
        if kind == "raise":
            raise RuntimeError("the adapter has a bug, for a test")
        if kind == "cancel":
            raise asyncio.CancelledError
        if kind == "hang":
            await asyncio.get_running_loop().create_future()
        if kind == "slow":
            await self.clock.sleep(SLOW_S)
        reply = await self.inner.complete(request, on_delta)
        if kind == "cut":
            raise ModelError("cut", "cut, for a test", text=reply.text[: len(reply.text) // 2])
        return reply

    async def close(self) -> None:
        await self.inner.close()


class FaultyToolbox:
    """Any toolbox, with faults at `tool`: `raise`, `exit` (SystemExit), `error` (a ToolError), `cancel` (itself),
    `hang` (until it is cancelled), `slow`, `late` (it does its work, then raises) and `stubborn` (it is not to be
    cancelled while it works)."""

    kind: ClassVar[Name] = Name("faulty")

    def __init__(self, inner: Toolbox, plan: FaultPlan, clock: Clock) -> None:
        self.inner, self.plan, self.clock = inner, plan, clock
        self.name, self.sharing, self.size = inner.name, inner.sharing, inner.size

    async def open(self) -> None:
        await self.inner.open()

    def tools(self) -> Sequence[ToolSpec]:
        return self.inner.tools()

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        kind = self.plan.visit("tool")
        if kind in _RAISED:
            raise _RAISED[kind]("broken, for a test")
        if kind == "hang":
            await asyncio.get_running_loop().create_future()
        if kind == "slow":
            await self.clock.sleep(SLOW_S)
        if kind == "stubborn":
            return await _stubbornly(asyncio.ensure_future(self.inner.call(tool, arguments, context)))
        result = await self.inner.call(tool, arguments, context)
        if kind == "late":
            raise RuntimeError("broken after its work, for a test")
        return result

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return await self.inner.probe(tool, arguments, key)

    async def close(self) -> None:
        await self.inner.close()


_RAISED: dict[str | None, type[BaseException]] = {
    "raise": RuntimeError,
    "exit": SystemExit,
    "error": ToolError,
    "cancel": asyncio.CancelledError,
}


async def _stubbornly(work: asyncio.Future[object]) -> object:
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            continue
    return work.result()
