"""From a script to the answer for one request, and from the kinds of a script's faults to what they are in HTTP."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from agentos.components import AgentContext, ModelRef, TurnLimits
from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.ids import Digest, LogId, Name, agent_id
from agentos.models.script import ALL_AGENTS, Fault, filled, load_script, script_of, step_of
from agentos.models.tokens import usage_of
from agentos.testing.chat_server.faults import Close, ErrorObject, NoDone, NoFinish, Reset, Stall, Status, WireFault
from agentos.testing.chat_server.reply import ChatReply, ChatRequest

ReplyFunction = Callable[[ChatRequest], "ChatReply | str | Awaitable[ChatReply | str]"]
STATUSES = {
    "rate_limit": 429,
    "overloaded": 503,
    "auth": 401,
    "invalid_request": 400,
    "context": 400,
    "quota": 429,
    "unavailable": 501,
}
CODES = {"context": "context_length_exceeded", "quota": "insufficient_quota"}
CUT_WHOLE_BYTES = 20
"""What comes of a whole answer that is cut; of a stream it is its text."""


class ChatScript:
    """What the server answers: steps by a model's name, or a function of the request.

    Raises ConfigurationError for a script that is none.
    """

    def __init__(self, script: object) -> None:
        self._function: ReplyFunction | None = script if callable(script) else None
        self._steps = {} if callable(script) else _read(script)

    @property
    def models(self) -> list[str]:
        """The names that the script has."""
        return sorted(name for name in self._steps if name != ALL_AGENTS)

    def knows(self, model: str) -> bool:
        return self._function is not None or ALL_AGENTS in self._steps or model in self._steps

    async def reply_to(self, request: ChatRequest) -> ChatReply | None:
        """The answer, with its templates filled; None when the script holds none for it."""
        if self._function is None:
            neutral = neutral_request(request)
            step = step_of(self._steps, neutral)[1]
            return _filled(step, neutral) if isinstance(step, ChatReply) else None
        reply = self._function(request)
        if inspect.isawaitable(reply):
            reply = await reply
        return ChatReply(text=reply) if isinstance(reply, str) else reply


def usage(request: ChatRequest, reply: ChatReply) -> Usage:
    """What the reply says, else tokens as the scripted model counts them."""
    if reply.usage is not None:
        return reply.usage
    text = reply.text if reply.text is not None else "".join(reply.deltas)
    said = "".join([text, reply.refusal, reply.thinking, *reply.thinking_deltas])
    calls = tuple(ToolCall(call.tool, "".join(call.fragments) or call.arguments) for call in reply.calls)
    return usage_of(neutral_request(request), ModelReply(said, calls, Finish.STOP))


def faults_of(reply: ChatReply, request: ChatRequest) -> tuple[ChatReply, tuple[WireFault, ...]]:
    """The reply as far as it comes in this attempt, and what then goes wrong."""
    fault = reply.fault
    if fault is None or (fault.attempts is not None and request.attempt > fault.attempts):
        return reply, reply.faults
    begun = msgspec.structs.replace(reply, text=fault.text, deltas=(), calls=(), events=(), refusal="", usage=None)
    return begun, (*reply.faults, *_in_http(fault, bool(fault.text) and request.stream, request.stream))


def neutral_request(request: ChatRequest) -> ModelRequest:
    """The request as a script sees it: the model's name stands for the agent's slug."""
    messages = [message for one in request.messages if (message := _message(one, request.messages)) is not None]
    last_input = max((n for n, message in enumerate(messages) if message.role is Role.USER), default=-1)
    context = AgentContext(
        agent=agent_id("chat"),
        slug=Name(request.model),
        prompt=tuple(_text(one) for one in request.messages if one["role"] in ("system", "developer")),
        model=ModelRef(kind="scripted"),
        limits=TurnLimits(),
    )
    step = sum(message.role is Role.ASSISTANT for message in messages[last_input + 1 :])
    conversation, digest = LogId("conversation_chat"), Digest("")
    return ModelRequest(context, messages, conversation, digest, step_index=step, attempt=request.attempt)


def _read(script: object) -> dict[str, tuple[Any, ...]]:
    read = load_script(script, ChatReply) if isinstance(script, Path) else script_of(script, step=ChatReply)
    return dict(read)


def _filled(reply: ChatReply, request: ModelRequest) -> ChatReply:
    return msgspec.structs.replace(
        reply,
        text=filled(reply.text, request),
        deltas=tuple(filled(piece, request) for piece in reply.deltas),
        calls=tuple(msgspec.structs.replace(call, arguments=filled(call.arguments, request)) for call in reply.calls),
    )


def _in_http(fault: Fault, begun: bool, stream: bool) -> tuple[WireFault, ...]:
    """begun: the stream has said something already, so that it is too late for another status."""
    unfinished = (NoFinish(), NoDone())
    match fault.kind:
        case "network":
            return (*unfinished, Reset()) if begun else (Reset(0, "wire"),)
        case "timeout":
            return (*unfinished, Stall()) if begun else (Stall(0, "wire"),)
        case "cut":
            return unfinished if stream else (Close(CUT_WHOLE_BYTES),)
    code = CODES.get(fault.kind, fault.kind)
    if begun:
        return (*unfinished, ErrorObject(_EVENTS_BEGUN, f"The script says so ({fault.kind}).", fault.kind, code))
    wait = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
    message = {"message": f"The script says so ({fault.kind}).", "type": fault.kind, "param": None, "code": code}
    return (Status(STATUSES[fault.kind], wait, {"error": message}),)


_EVENTS_BEGUN = 2  # the role, and the text


def _message(one: dict[str, Any], messages: list[dict[str, Any]]) -> Message | None:
    match one["role"]:
        case "user":
            return Message(Role.USER, _text(one))
        case "assistant":
            calls = tuple(
                ToolCall(call["function"]["name"], call["function"]["arguments"], call["id"])
                for call in one.get("tool_calls", ())
            )
            return Message(Role.ASSISTANT, _text(one), calls)
        case "tool":
            return Message(Role.TOOL, _text(one), call_id=one["tool_call_id"], name=_tool_of(one, messages))
    return None


def _tool_of(result: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    asked = (call for message in messages for call in message.get("tool_calls", ()))
    return next((call["function"]["name"] for call in asked if call["id"] == result["tool_call_id"]), "")


def _text(message: dict[str, Any]) -> str:
    """The text of a message; parts that are none are left out."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
