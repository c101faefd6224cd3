"""A model that answers as a script says (see `script`). All it knows of a conversation is in the request, so one object
serves thousands of them, and goes on rightly after a crash."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentos.clock import Clock, SystemClock
from agentos.errors import ModelError
from agentos.events.model import Finish, ModelReply, ModelRequest, ToolCall
from agentos.models.base import OnDelta
from agentos.models.script import Step, filled, load_script, script_of, step_of
from agentos.models.tokens import usage_of

Reply = Callable[[ModelRequest], ModelReply | Awaitable[ModelReply]]


class ScriptExhausted(ModelError):
    """A conversation asked for a step that its script does not have."""

    def __init__(self, agent: str, step: int) -> None:
        self.agent, self.step = agent, step
        which = f"step {step}" if step else "rule that fits"
        super().__init__("invalid_request", f"the script of {agent} has no {which}")


class ScriptedModel:
    """Answers from a script: a list or mapping, the path of a YAML file, or a function of the request.

    Raises ConfigurationError for a script that is none.
    """

    def __init__(self, script: object, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._reply: Reply | None = script if callable(script) else None
        if self._reply is None:
            self._script = load_script(script) if isinstance(script, Path) else script_of(script)

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        if self._reply is not None:
            return await _called(self._reply, request, on_delta)
        number, step = step_of(self._script, request)
        if step is None:
            raise ScriptExhausted(request.context.slug, number)
        if step.delay_s > 0:
            await self._clock.sleep(step.delay_s)
        _fail(step, request, on_delta)
        return _answer(step, request, on_delta)

    async def close(self) -> None:
        return None


async def _called(function: Reply, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
    reply = function(request)
    if inspect.isawaitable(reply):
        reply = await reply
    if reply.text:
        on_delta(reply.text)
    return reply


def _fail(step: Step, request: ModelRequest, on_delta: OnDelta) -> None:
    fault = step.fault
    if fault is None or (fault.attempts is not None and request.attempt > fault.attempts):
        return
    if fault.text:
        on_delta(fault.text)
    why = f"the script says so ({fault.kind})"
    raise ModelError(fault.kind, why, retry_after_s=fault.retry_after_s, text=fault.text)


def _answer(step: Step, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
    pieces = [filled(piece, request) for piece in step.deltas]
    text = filled(step.text, request) if step.text is not None else "".join(pieces)
    calls = tuple(ToolCall(call.tool, filled(call.arguments, request), call.id) for call in step.calls)
    for piece in pieces or ([text] if text else []):
        on_delta(piece)
    finish = step.finish or (Finish.TOOL_USE if calls else Finish.STOP)
    reply = ModelReply(text, calls, finish)
    return ModelReply(text, calls, finish, step.usage or usage_of(request, reply))
