"""Answers as they go to the wire: a status, headers, and the segments of a body with their faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentos.testing.chat_server import bodies
from agentos.testing.chat_server.faults import BadByte, ContentType, Cut, Status, WireFault
from agentos.testing.chat_server.reply import ChatReply, ChatRequest
from agentos.testing.chat_server.scripts import usage
from agentos.testing.chat_server.wire import Answer, Segment, cut, with_bad_byte

JSON, EVENTS, HTML = "application/json", "text/event-stream; charset=utf-8", "text/html; charset=utf-8"
ERROR_TYPES = {429: "rate_limit_error", 529: "overloaded_error"}
MESSAGES = {
    429: "Rate limit reached for requests.",
    503: "The engine is currently overloaded, please try again later.",
    529: "Overloaded.",
}


def completion(
    request: ChatRequest, reply: ChatReply, faults: tuple[WireFault, ...], created_s: int, headers: Mapping[str, str]
) -> Answer:
    """The answer of a script, as a stream or whole, with the faults that its body has."""
    spent = usage(request, reply)
    if request.stream:
        told = bodies.with_faults(bodies.events(request, reply, spent, created_s), faults)
        segments = [Segment(bodies.encoded(event), reply.delta_delay_s if n else 0.0) for n, event in enumerate(told)]
    else:
        body = bodies.whole_with_faults(bodies.whole(request, reply, spent, created_s), faults)
        segments = [Segment(msgspec.json.encode(body))]
    for fault in faults:
        if isinstance(fault, BadByte):
            segments = with_bad_byte(segments, fault.at)
        elif isinstance(fault, Cut):
            segments = cut(segments, fault)
    named = {"content-type": EVENTS if request.stream else JSON, **headers, **_lower(reply.headers)}
    for fault in faults:
        if isinstance(fault, ContentType):
            named["content-type"] = fault.value
    if not request.stream:
        named["content-length"] = str(sum(len(segment.data) for segment in segments))
    return Answer(200, named, segments, reply.delay_s)


def status_answer(fault: Status, headers: Mapping[str, str]) -> Answer:
    """Another status instead of an answer."""
    if fault.body is None:
        return error_answer(fault.status, headers={**headers, **_lower(fault.headers)})
    if isinstance(fault.body, str):
        return _answer(fault.status, fault.body.encode(), {"content-type": HTML, **headers, **_lower(fault.headers)})
    return json_answer(fault.status, fault.body, {**headers, **_lower(fault.headers)})


def error_answer(
    status: int, message: str | None = None, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """An error object that fits the status."""
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    said = message or MESSAGES.get(status, f"The server answers with the status {status}.")
    return json_answer(status, bodies.error(said, kind, code=code), headers)


def json_answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return _answer(status, msgspec.json.encode(body), {"content-type": JSON, **(headers or {})})


def _answer(status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    return Answer(status, {**headers, "content-length": str(len(body))}, [Segment(body)])


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
