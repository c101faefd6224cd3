"""A Chat Completions server in the shape of a transport: it keeps what it was sent and answers byte by byte as told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from agentos.components import AgentContext, ModelRef, ToolSpec, TurnLimits
from agentos.events.model import Message, ModelReply, ModelRequest, Role, ToolCall
from agentos.ids import Digest, LogId, Name, agent_id
from agentos.models.openai_chat import OpenAIChat
from agentos.secrets import KeyFiles
from agentos.testing.clock import ManualClock

HOST = "https://chat.example/v1"


class Answer(msgspec.Struct, kw_only=True):
    """pieces are sent as they are, one network chunk each; then the connection breaks with `breaks`, or ends."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": "text/event-stream"})
    breaks: Exception | None = None


class Server(httpx.AsyncBaseTransport):
    """Gives its answers one after the other; the last one again and again. An exception is raised instead."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status, headers=dict(answer.headers), stream=_Pieces(answer), request=request)

    async def aclose(self) -> None:
        self.closed = True

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._answer.pieces:
            yield piece
        if self._answer.breaks is not None:
            raise self._answer.breaks


# What a server says


def event(value: object) -> bytes:
    """Half a character has no UTF-8: a server that breaks a text there writes it as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    halved = any("\ud800" <= char <= "\udfff" for char in text)
    return b"data: " + (json.dumps(value) if halved else text).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of a stream, with these fields in its delta."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "chatcmpl-7", "object": "chat.completion.chunk", "model": "gpt-test-2026", "choices": [choice]}


def piece(index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None) -> dict[str, Any]:
    """One chunk with a piece of a call; what is not said is not there."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    call = {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}
    return delta(tool_calls=[call])


USAGE = {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60}


def stream(*chunks: object, done: bool = True) -> bytes:
    return b"".join(map(event, chunks)) + (b"data: [DONE]\n\n" if done else b"")


def streamed(*chunks: object, done: bool = True) -> Answer:
    return Answer(pieces=[stream(*chunks, done=done)])


def whole(message: Mapping[str, Any], finish: str | None = "stop", usage: object = None) -> Answer:
    """An answer that is no stream."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {"id": "chatcmpl-7", "model": "gpt-test-2026", "choices": [choice], "usage": usage}
    return json_answer(body)


def json_answer(body: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        pieces=[json.dumps(body).encode()], status=status, headers={"content-type": "application/json", **named}
    )


# Who asks


def chat(
    transport: httpx.AsyncBaseTransport,
    *,
    environ: Mapping[str, str] | None = None,
    override: str | None = None,
    base: Path | None = None,
    keys: Sequence[Path] = (),
    model: str = "gpt-test",
    clock: ManualClock | None = None,
    **options: Any,
) -> OpenAIChat:
    """A model at HOST, where the environment holds nothing but what is said here."""
    options.setdefault("base_url", HOST)
    return OpenAIChat(
        ModelRef(
            kind="openai", name=model, options={key: value for key, value in options.items() if value is not None}
        ),
        environ=environ or {},
        base_url=override,
        base=base,
        keys=KeyFiles(keys),
        clock=clock or ManualClock(),
        transport=transport,
    )


def user(text: str = "go") -> Message:
    return Message(Role.USER, text)


def asked(*calls: ToolCall, text: str = "", **more: Any) -> Message:
    return Message(Role.ASSISTANT, text, calls, **more)


def result(call: ToolCall, text: str) -> Message:
    return Message(Role.TOOL, text, (), call.id, call.name)


def tool(name: str, schema: Any = None, description: str = "It helps.") -> ToolSpec:
    return ToolSpec(name=Name(name), description=description, schema={"type": "object"} if schema is None else schema)


def request(*messages: Message, tools: Sequence[ToolSpec] = (), prompt: Sequence[str] = ("Be brief.",)) -> ModelRequest:
    context = AgentContext(
        agent=agent_id("tester"),
        slug=Name("tester"),
        prompt=tuple(prompt),
        model=ModelRef(kind="openai", name="gpt-test"),
        limits=TurnLimits(),
        tools=tuple(tools),
    )
    return ModelRequest(context, messages or (user(),), LogId("conversation_x"), Digest("d"))


async def reply_to(answer: Answer, *messages: Message, tools: Sequence[ToolSpec] = (), **options: Any) -> ModelReply:
    """What comes of one answer."""
    model = chat(Server(answer), **options)
    try:
        return await model.complete(request(*messages, tools=tools), lambda piece: None)
    finally:
        await model.close()
