"""What the chat server answers from its scripts: shapes, streams, rules, models and functions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentos.errors import ConfigurationError
from agentos.testing.chat_server import ChatCall, ChatReply, ChatRequest, ChatServer
from agentos.testing.clock import ManualClock
from tests.models.chat_wire import (
    BODY,
    HELLO,
    STREAM,
    asking,
    chunks,
    connect,
    events,
    exchange,
    parts,
    post,
    text_of,
    timer_of,
    told,
)


async def streamed(server: ChatServer, body: Any = STREAM) -> list[Any]:
    return events(b"".join(chunks(parts((await exchange(server, post(body)))[0])[2])))


async def test_a_whole_answer_has_the_shape_of_the_api() -> None:
    reply = ChatReply(text="Hi.", thinking="Hm, hm.", calls=(ChatCall("search", {"q": 1}),))

    async with ChatServer([reply], clock=ManualClock()) as server:
        status, answer = await told(server, post())

    assert status == 200
    assert answer == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": ManualClock().now() // 1_000_000,
        "model": "m",
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hi.",
                    "refusal": None,
                    "reasoning_content": "Hm, hm.",
                    "tool_calls": [
                        {"id": "call_1_1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 6,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


async def test_a_stream_says_the_same_in_pieces() -> None:
    calls = (ChatCall("f", fragments=('{"a"', ":1}"), id="x"), ChatCall("g"))
    reply = ChatReply(deltas=("He", "llo"), thinking_deltas=("h", "m"), refusal="No.", calls=calls, finish_reason="odd")

    async with ChatServer([reply]) as server:
        *chunks_, usage, done = await streamed(server)

    choices = [choice for chunk in chunks_ for choice in chunk["choices"]]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": "He"},
        {"content": "llo"},
        {"refusal": "No."},
        {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "call_1_2", "type": "function", "function": {"name": "g", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None] * 11 + ["odd"]
    assert {chunk["usage"] for chunk in chunks_} == {None}
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 7)
    assert done == "[DONE]"


async def test_usage_comes_in_a_stream_only_when_it_is_asked_for() -> None:
    async with ChatServer(HELLO) as server:
        told_ = await streamed(server, {**BODY, "stream": True})

    assert not any("usage" in event for event in told_[:-1])
    assert told_[-2]["choices"][0]["finish_reason"] == "stop"


async def test_events_of_a_script_go_as_they_are() -> None:
    raw: list[Any] = [": keep-alive\r\n\r\n", {"choices": []}, 'data:{"choices":\ndata: []}\n\n', "event: odd\n\n"]

    async with ChatServer([{"events": raw}]) as server:
        answer = (await exchange(server, post(STREAM)))[0]

    assert b"".join(chunks(parts(answer)[2])) == (
        b': keep-alive\r\n\r\ndata: {"choices":[]}\n\ndata:{"choices":\ndata: []}\n\nevent: odd\n\n'
    )


async def test_each_of_several_choices_says_the_same() -> None:
    async with ChatServer(HELLO) as server:
        _, whole = await told(server, post({**BODY, "n": 2}))
        pieces = await streamed(server, {**BODY, "stream": True, "n": 2})

    assert [(one["index"], one["message"]["content"]) for one in whole["choices"]] == [(0, "Hello."), (1, "Hello.")]
    said = [choice for event in pieces[:-1] for choice in event["choices"] if choice["delta"].get("content")]
    assert [(one["index"], one["delta"]["content"]) for one in said] == [(0, "Hello."), (1, "Hello.")]


async def test_a_reply_may_set_headers_usage_and_the_pace_of_its_events() -> None:
    clock = ManualClock()
    reply = {
        "deltas": ["a", "b"],
        "delay_s": 5,
        "delta_delay_s": 1,
        "headers": {"X-RateLimit-Remaining": "7"},
        "usage": {"input_tokens": 10, "output_tokens": 50, "cached_tokens": 4},
    }

    async with ChatServer([reply], clock=clock) as server:
        wire = await connect(server)
        wire.send(post(STREAM))
        await timer_of(clock)
        assert wire.heard == b""
        clock.advance(5)
        for n in range(1, 6):
            await timer_of(clock)
            assert len(chunks(parts(wire.heard)[2])) == n
            clock.advance(1)
        await wire.over

    _, headers, body = parts(wire.heard)
    usage = events(b"".join(chunks(body)))[-2]["usage"]
    assert headers["x-ratelimit-remaining"] == "7"
    assert headers["x-request-id"] == "req_1"
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 50, 60)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 4}


async def test_steps_go_by_the_place_in_the_conversation_and_fill_their_templates() -> None:
    script = [{"text": "You said {input}."}, {"text": "Again {input}, and {results}."}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    second = {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "two"},
        ],
    }

    async with ChatServer(script) as server:
        assert await text_of(server, second) == "Again one, and two."
        assert await text_of(server, asking(("user", "one"))) == "You said one."


async def test_rules_go_by_what_a_request_says_and_by_its_step() -> None:
    script = [
        {"when": {"last_contains": "weather"}, "text": "Rain."},
        {"when": {"step": 1}, "text": "Step."},
        {"text": "Hm."},
    ]

    async with ChatServer(script) as server:
        said = [
            await text_of(server, asking(("user", "the weather"))),
            await text_of(server, asking(("user", "a"), ("assistant", "b"), ("user", "c"))),
            await text_of(server, asking(("user", "a"), ("assistant", "b"))),
        ]

    assert said == ["Rain.", "Hm.", "Step."]


async def test_each_model_has_its_own_script_and_an_unknown_one_does_not_exist() -> None:
    async with ChatServer({"parent": [{"text": "I ask."}], "child": [{"text": "I answer."}]}) as server:
        parent = await text_of(server, {**BODY, "model": "parent"})
        child = await text_of(server, {**BODY, "model": "child"})
        status, error = await told(server, post())

    assert (parent, child) == ("I ask.", "I answer.")
    assert (status, error["error"]["code"]) == (404, "model_not_found")


async def test_a_function_of_the_request_answers_too_also_an_async_one() -> None:
    def by_number(chat: ChatRequest) -> ChatReply | str:
        return ChatReply(text=f"{chat.number}: {chat.messages[-1]['content']}") if chat.number == 1 else "two"

    async def later(chat: ChatRequest) -> str:
        await asyncio.sleep(0)
        return chat.model

    async with ChatServer(by_number) as server:
        assert [await text_of(server), await text_of(server)] == ["1: go", "two"]
    async with ChatServer(later) as server:
        assert await text_of(server) == "m"


async def test_a_function_that_raises_gives_a_500_and_raises_again_where_the_test_sees_it() -> None:
    def broken(_: ChatRequest) -> str:
        raise KeyError("my own secret")

    with pytest.raises(ExceptionGroup) as raised:
        async with ChatServer(broken) as server:
            status, error = await told(server, post())

    assert (status, error["error"]["message"]) == (500, "The script raised KeyError.")
    assert [type(one) for one in raised.value.exceptions] == [KeyError]


async def test_a_script_that_has_no_step_left_says_so_to_client_and_test() -> None:
    async with ChatServer(HELLO) as server:
        status, error = await told(server, post(asking(("user", "a"), ("assistant", "b"), ("user", "c"))))

    assert (status, error["error"]["code"]) == (400, "script_exhausted")
    assert server.problems == ["request 1: The script of 'm' has no step for this request."]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("Hello.", "a list of steps is needed"),
        ([{"txet": "Hello."}], "unknown field `txet`"),
        ([{"finish": "lost"}], "no provider says finish 'lost'"),
        ([{"fault": {"kind": "fire"}}], "no fault is of kind 'fire'"),
        ([{"faults": [{"fault": "fire"}]}], "Invalid value 'fire'"),
        ({"m": [{"calls": [{"arguments": {}}]}]}, "script: m: Object missing required field `tool`"),
    ],
)
def test_a_script_that_is_none_is_refused_before_anything_listens(script: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ChatServer(script)


async def test_faults_of_a_script_are_data() -> None:
    script = [{"text": "Hello.", "faults": [{"fault": "close", "after": 5, "attempts": 1}]}]

    async with ChatServer(script) as server:
        first, second = [parts((await exchange(server, post()))[0])[2] for _ in range(2)]

    assert first == second.replace(b"chatcmpl-2", b"chatcmpl-1")[:5]
    assert json.loads(second)["choices"][0]["message"]["content"] == "Hello."
