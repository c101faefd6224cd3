"""Bodies of answers in the shapes of the API: whole, as a stream of events, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agentos.events.model import Usage
from agentos.models.tokens import tokens
from agentos.testing.chat_refusal import Refusal
from agentos.testing.chat_server.faults import EmptyChoices, ErrorObject, NoDone, NoFinish, NoIndex, WireFault, first
from agentos.testing.chat_server.reply import FINISH_REASONS, ChatCall, ChatReply, ChatRequest

DONE = "data: [DONE]\n\n"
Event = dict[str, Any] | str
"""An object goes as the data of one event, a text as it is."""


def whole(request: ChatRequest, reply: ChatReply, usage: Usage, created_s: int) -> dict[str, Any]:
    """A whole answer. Each of `n` choices says the same."""
    message: dict[str, Any] = {"role": "assistant", "content": _text(reply), "refusal": reply.refusal or None}
    if reply.thinking or reply.thinking_deltas:
        message["reasoning_content"] = reply.thinking or "".join(reply.thinking_deltas)
    if reply.calls:
        message["tool_calls"] = [
            _call(request, n, call) | {"function": {"name": call.tool, "arguments": "".join(fragments_of(call))}}
            for n, call in enumerate(reply.calls)
        ]
    said = {"message": message, "logprobs": None, "finish_reason": finish_reason_of(reply)}
    return _head(request, "chat.completion", created_s) | {
        "choices": [{"index": n, **said} for n in range(request.choices)],
        "usage": _usage(reply, usage),
    }


def events(request: ChatRequest, reply: ChatReply, usage: Usage, created_s: int) -> list[Event]:
    """The events of a stream, without a fault."""
    if reply.events:
        return list(reply.events)
    head = _head(request, "chat.completion.chunk", created_s) | ({"usage": None} if request.include_usage else {})
    told: list[Event] = [
        head | {"choices": [{"index": n, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        for delta, finish in _deltas(request, reply)
        for n in range(request.choices)
    ]
    if request.include_usage:
        told.append(head | {"choices": [], "usage": _usage(reply, usage)})
    return [*told, DONE]


def with_faults(told: list[Event], faults: tuple[WireFault, ...]) -> list[Event]:
    """The events of a stream whose faults are in what it says."""
    for fault in faults:
        match fault:
            case NoFinish():
                told = [event for event in told if isinstance(event, str) or not _finishes(event)]
            case NoDone():
                told = [event for event in told if event != DONE]
            case NoIndex():
                told = [event if isinstance(event, str) else _without_index(event) for event in told]
            case EmptyChoices():
                told = _among_empty_choices(told)
            case ErrorObject(after_events=after):
                told = [*told[:after], error_object(fault)]
            case _:
                continue
    return told


def whole_with_faults(body: dict[str, Any], faults: tuple[WireFault, ...]) -> dict[str, Any]:
    """A whole answer whose faults are in what it says."""
    error = first(faults, ErrorObject)
    if error is not None:
        return error_object(error)
    if first(faults, NoFinish):
        return body | {"choices": [choice | {"finish_reason": None} for choice in body["choices"]]}
    return body | {"choices": []} if first(faults, EmptyChoices) else body


def encoded(event: Event) -> bytes:
    return event.encode() if isinstance(event, str) else b"data: " + msgspec.json.encode(event) + b"\n\n"


def error(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_object(fault: ErrorObject) -> dict[str, Any]:
    return error(fault.message, fault.type, code=fault.code)


def refused(refusal: Refusal) -> dict[str, Any]:
    return error(refusal.message, "invalid_request_error", refusal.param, refusal.code)


def finish_reason_of(reply: ChatReply) -> str:
    if reply.finish_reason is not None:
        return reply.finish_reason
    return FINISH_REASONS[reply.finish] if reply.finish is not None else "tool_calls" if reply.calls else "stop"


def fragments_of(call: ChatCall) -> tuple[str, ...]:
    """The pieces of the text of a call's arguments; a text stands for itself, be it JSON or not."""
    if call.fragments:
        return call.fragments
    return (call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode(),)


def _deltas(request: ChatRequest, reply: ChatReply) -> Iterator[tuple[dict[str, Any], str | None]]:
    yield {"role": "assistant", "content": None if reply.calls and not _text(reply) else "", "refusal": None}, None
    for piece in reply.thinking_deltas or _some(reply.thinking):
        yield {"reasoning_content": piece}, None
    for piece in reply.deltas or _some(reply.text):
        yield {"content": piece}, None
    for piece in _some(reply.refusal):
        yield {"refusal": piece}, None
    for n, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": n, **_call(request, n, call)}]}, None
        for piece in fragments_of(call):
            yield {"tool_calls": [{"index": n, "function": {"arguments": piece}}]}, None
    yield {}, finish_reason_of(reply)


def _some(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()


def _text(reply: ChatReply) -> str | None:
    """The text of an answer; null where only calls or a refusal come, as the API has it."""
    text = reply.text if reply.text is not None else "".join(reply.deltas)
    return text or (None if reply.calls or reply.refusal else "")


def _call(request: ChatRequest, n: int, call: ChatCall) -> dict[str, Any]:
    id_ = call.id or f"call_{request.number}_{n + 1}"
    return {"id": id_, "type": "function", "function": {"name": call.tool, "arguments": ""}}


def _head(request: ChatRequest, kind: str, created_s: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": created_s,
        "model": request.model,
        "system_fingerprint": None,
    }


def _usage(reply: ChatReply, usage: Usage) -> dict[str, Any]:
    thought = reply.thinking or "".join(reply.thinking_deltas)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": min(tokens(len(thought)), usage.output_tokens)},
    }


def _finishes(event: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") is not None for choice in event.get("choices", ()))


def _without_index(event: dict[str, Any]) -> dict[str, Any]:
    choices = []
    for choice in event.get("choices", ()):
        delta = dict(choice.get("delta", {}))
        if "tool_calls" in delta:
            delta["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in delta["tool_calls"]]
        choices.append(choice | {"delta": delta})
    return event | {"choices": choices}


def _among_empty_choices(told: list[Event]) -> list[Event]:
    empty: Event = next((event | {"choices": []} for event in told if isinstance(event, dict)), {"choices": []})
    end = len(told) - (told[-1:] == [DONE])
    return [empty, *told[:end], empty, *told[end:]]
