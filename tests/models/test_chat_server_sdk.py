"""The official client of the API is content with the chat server: sync and async, whole and in streams, with tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from agentos.testing.chat_server import (
    ChatReply,
    ChatServer,
    Close,
    ErrorObject,
    Pieces,
    Reset,
    Status,
    WireFault,
)

ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "The weather in Hangzhou and Oslo?"}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
SCRIPT = [
    {
        "deltas": ["Let me ", "look 🌍."],
        "thinking": "Two cities.",
        "calls": [
            {"tool": "weather", "fragments": ['{"city"', ': "杭', '州"}']},
            {"tool": "weather", "arguments": {"city": "Oslo"}},
        ],
        "usage": {"input_tokens": 30, "output_tokens": 12, "cached_tokens": 5},
    },
    {"text": "Results: {results}", "finish": "stop"},
]


@asynccontextmanager
async def served(
    script: Any, *faults: WireFault, retries: int = 0, **more: Any
) -> AsyncIterator[tuple[ChatServer, Any]]:
    """A server whose first answer has these faults, and an async client of it."""
    async with (
        ChatServer(script, faults={1: faults}, key="key", **more) as server,
        AsyncOpenAI(base_url=server.url, api_key="key", max_retries=retries) as client,
    ):
        yield server, client


def results(message: Any) -> list[ChatCompletionMessageParam]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": f"{json.loads(call.function.arguments)['city']}: rain"}
        for call in message.tool_calls
    ]


async def test_a_conversation_with_tools_goes_round_whole() -> None:
    async with served(SCRIPT, extra_keys=["reasoning_content"]) as (server, client):
        first = await client.chat.completions.create(model="m", messages=ASK, tools=TOOLS, temperature=0)
        message = first.choices[0].message
        again = [*ASK, message, *results(message)]
        second = await client.chat.completions.create(model="m", messages=again, tools=TOOLS)

    assert (message.content, message.reasoning_content) == ("Let me look 🌍.", "Two cities.")
    assert first.choices[0].finish_reason == "tool_calls"
    assert first.usage.total_tokens == 42
    assert first.usage.prompt_tokens_details.cached_tokens == 5
    assert second.choices[0].message.content == "Results: 杭州: rain\nOslo: rain"
    assert second.choices[0].finish_reason == "stop"
    assert server.problems == []


@pytest.mark.parametrize(
    "faults", [(), (Pieces(1),), (Pieces(1, "wire"),)], ids=["as it is", "in bytes", "in wire bytes"]
)
async def test_a_stream_gives_the_same_message_as_a_whole_answer(faults: tuple[WireFault, ...]) -> None:
    async with served(SCRIPT, *faults) as (server, client):
        asked = client.chat.completions.stream(
            model="m", messages=ASK, tools=TOOLS, stream_options={"include_usage": True}
        )
        async with asked as stream:
            seen = [event.type async for event in stream]
            streamed = await stream.get_final_completion()
        whole = await client.chat.completions.create(model="m", messages=ASK, tools=TOOLS)

    message, other = streamed.choices[0].message, whole.choices[0].message
    assert message.content == other.content
    assert [call.function.arguments for call in message.tool_calls] == ['{"city": "杭州"}', '{"city":"Oslo"}']
    assert [call.function.name for call in other.tool_calls] == ["weather", "weather"]
    assert streamed.usage == whole.usage
    assert seen.count("content.delta") == 3  # the role comes with an empty one
    assert seen.count("tool_calls.function.arguments.done") == 2
    assert server.problems == []


async def test_the_sync_client_is_served_whole_and_in_a_stream() -> None:
    def ask(url: str) -> tuple[str | None, str]:
        with OpenAI(base_url=url, api_key="key", max_retries=0) as client:
            whole = client.chat.completions.create(model="m", messages=ASK)
            stream = client.chat.completions.create(model="m", messages=ASK, stream=True)
            pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
            return whole.choices[0].message.content, "".join(pieces)

    async with ChatServer([{"deltas": ["Grüß ", "Gott"]}], key="key") as server:
        assert await anyio.to_thread.run_sync(ask, server.url) == ("Grüß Gott", "Grüß Gott")


async def test_a_refusal_is_a_refusal_whole_and_in_a_stream() -> None:
    async with served([ChatReply(refusal="I will not.")]) as (_, client):
        whole = await client.chat.completions.create(model="m", messages=ASK)
        async with client.chat.completions.stream(model="m", messages=ASK) as stream:
            streamed = await stream.get_final_completion()

    for answer in (whole, streamed):
        assert answer.choices[0].message.refusal == "I will not."
        assert not answer.choices[0].message.content


async def test_models_are_listed_page_by_page_and_retrieved() -> None:
    async with served({"parent": SCRIPT, "child": SCRIPT}) as (_, client):
        names = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("child")

    assert names == ["child", "parent"]
    assert one.id == "child"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(400), openai.BadRequestError),
        (Status(401), openai.AuthenticationError),
        (Status(403), openai.PermissionDeniedError),
        (Status(404), openai.NotFoundError),
        (Status(422), openai.UnprocessableEntityError),
        (Status(429, {"Retry-After": "0"}), openai.RateLimitError),
        (Status(503), openai.InternalServerError),
        (Status(502, body="<h1>Bad Gateway</h1>"), openai.InternalServerError),
        (Reset(0, "wire"), openai.APIConnectionError),
        (Close(0, "wire"), openai.APIConnectionError),
    ],
)
async def test_faults_are_the_errors_that_the_client_has_for_them(fault: WireFault, error: type[Exception]) -> None:
    async with served(SCRIPT, fault) as (_, client):
        with pytest.raises(error):
            await client.chat.completions.create(model="m", messages=ASK)


async def test_the_client_repeats_a_request_that_the_server_was_told_to_fail_once() -> None:
    async with served(SCRIPT, Status(429, {"Retry-After-Ms": "1"}), retries=1) as (server, client):
        answer = await client.chat.completions.create(model="m", messages=ASK)

    assert answer.choices[0].message.content == "Let me look 🌍."
    assert [(one.number, one.attempt) for one in server.requests] == [(1, 1), (2, 2)]


async def test_an_error_in_a_stream_is_an_error_of_the_client() -> None:
    async with served(SCRIPT, ErrorObject(2, "Out of order.")) as (_, client):
        with pytest.raises(openai.APIError, match="Out of order"):
            async for _ in await client.chat.completions.create(model="m", messages=ASK, stream=True):
                pass


async def test_a_refused_request_tells_the_client_its_place() -> None:
    orphan: list[ChatCompletionMessageParam] = [*ASK, {"role": "tool", "tool_call_id": "c9", "content": "rain"}]

    async with served(SCRIPT) as (server, client):
        with pytest.raises(openai.BadRequestError) as raised:
            await client.chat.completions.create(model="m", messages=orphan)

    assert raised.value.param == "messages[1].tool_call_id"
    assert raised.value.type == "invalid_request_error"
    assert len(server.problems) == 1


async def test_a_wrong_key_and_an_unknown_model_are_told_apart() -> None:
    async with ChatServer({"m": SCRIPT}, key="key") as server:
        async with AsyncOpenAI(base_url=server.url, api_key="other", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(model="m", messages=ASK)
        async with AsyncOpenAI(base_url=server.url, api_key="key", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError) as raised:
                await client.chat.completions.create(model="other", messages=ASK)

    assert raised.value.code == "model_not_found"
