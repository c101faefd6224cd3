"""From the bytes of a stream to one reply, whatever a server leaves out; C09, C11 to C14, C39, C40, C42."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.errors import ModelError
from agentos.events.model import Finish, ModelReply, ToolCall, Usage
from tests.models.chat_support import (
    USAGE,
    Answer,
    Server,
    chat,
    delta,
    event,
    json_answer,
    piece,
    reply_to,
    request,
    stream,
    streamed,
    tool,
    whole,
)

DONE = b"data: [DONE]\n\n"
STOP, CALLS = delta("stop"), delta("tool_calls")
TEXT = [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), STOP]
TOOLS = [tool("f"), tool("g"), tool("get_date")]


async def calls_of(*chunks: object, finish: object = CALLS) -> list[tuple[str, Any, str]]:
    reply = await reply_to(streamed(*chunks, finish), tools=TOOLS)
    return [(call.name, call.arguments, call.id) for call in reply.calls]


async def cut(answer: Answer, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await reply_to(answer, tools=TOOLS, **options)
    return raised.value


async def test_text_comes_in_pieces_and_as_a_whole() -> None:
    pieces: list[str] = []
    model = chat(Server(streamed(*TEXT, {**delta(), "choices": [], "usage": USAGE})))

    reply = await model.complete(request(), pieces.append)
    await model.close()

    assert pieces == ["Hel", "lo"]
    assert reply == ModelReply("Hello", usage=Usage(10, 50), model="gpt-test-2026", response="chatcmpl-7")


CASES: dict[str, tuple[list[object], list[tuple[str, Any, str]]]] = {
    "c09 no index at all": (
        [piece(id="a", name="f", args='{"x":'), piece(args="1}"), piece(id="b", name="g", args="{}")],
        [("f", {"x": 1}, "a"), ("g", {}, "b")],
    ),
    "c09 an index at first, then none": (
        [piece(0, "a", "f", '{"x":'), piece(args="1}"), piece(id="b", name="g", args="{}")],
        [("f", {"x": 1}, "a"), ("g", {}, "b")],
    ),
    "c09 no index at first, then one": (
        [piece(id="a", name="f"), piece(0, args='{"x":'), piece(0, args="1}"), piece(1, "b", "g", "{}")],
        [("f", {"x": 1}, "a"), ("g", {}, "b")],
    ),
    "c09 two calls without index, gone on with by it": (
        [piece(id="a", name="f"), piece(id="b", name="g"), piece(1, args='{"y":2}'), piece(0, args='{"x":1}')],
        [("f", {"x": 1}, "a"), ("g", {"y": 2}, "b")],
    ),
    "c09 neither index nor id": (
        [piece(name="f", args='{"x":'), piece(args="1}"), piece(name="g", args="{}")],
        [("f", {"x": 1}, ""), ("g", {}, "")],
    ),
    "c09 neither, and the same tool twice": (
        [piece(name="f", args='{"x":1}'), piece(name="f", args='{"x":2}')],
        [("f", {"x": 1}, ""), ("f", {"x": 2}, "")],
    ),
    "c11 interleaved, the id only once": (
        [
            piece(0, "a", "f"),
            piece(1, "b", "g"),
            piece(0, args='{"x"'),
            piece(1, args='{"y"'),
            piece(0, args=":1}"),
            piece(1, args=":2}"),
        ],
        [("f", {"x": 1}, "a"), ("g", {"y": 2}, "b")],
    ),
    "c11 the id comes late": (
        [piece(0, name="f"), piece(0, args="{}"), piece(0, "a")],
        [("f", {}, "a")],
    ),
    "c11 the id comes late and without an index": (
        [piece(name="f", args="{}"), piece(id="a")],
        [("f", {}, "a")],
    ),
    "c11 the name comes in two pieces": (
        [piece(0, "a", "get_"), piece(0, name="date", args='{"x":1}')],
        [("get_date", {"x": 1}, "a")],
    ),
    "c11 the name comes in two pieces without an index": (
        [piece(id="a", name="get_"), piece(name="date", args="{}"), piece(id="b", name="f", args="{}")],
        [("get_date", {}, "a"), ("f", {}, "b")],
    ),
    "the name is repeated with each piece": (
        [piece(0, "a", "f", '{"x":'), piece(0, "a", "f", "1"), piece(0, "a", "f", "}"), piece(0, "a", "f", "")],
        [("f", {"x": 1}, "a")],
    ),
    "each piece has an id of its own": (
        [piece(0, "a", "f", '{"x":'), piece(0, "other", None, "1}")],
        [("f", {"x": 1}, "a")],
    ),
    "all calls have index 0": (
        [piece(0, "a", "f", '{"x":1}'), piece(0, "b", "g", '{"y":2}')],
        [("f", {"x": 1}, "a"), ("g", {"y": 2}, "b")],
    ),
    "all calls have index 0 and no id": (
        [piece(0, name="f", args='{"x":1}'), piece(0, name="f", args='{"x":2}')],
        [("f", {"x": 1}, ""), ("f", {"x": 2}, "")],
    ),
    "one id for two calls": (
        [piece(0, "a", "f", "{}"), piece(1, "a", "f", '{"x":1}')],
        [("f", {}, "a"), ("f", {"x": 1}, "a")],
    ),
    "one id for two calls, and no index": (
        [piece(id="a", name="f", args="{}"), piece(id="a", name="g", args='{"x":1}')],
        [("f", {}, "a"), ("g", {"x": 1}, "a")],
    ),
    "an index far away": ([piece(10**9, "a", "f", "{}")], [("f", {}, "a")]),
    "arguments as an object": ([piece(0, "a", "f", {"x": 1})], [("f", {"x": 1}, "a")]),
    "a half of a character in each piece": (
        [piece(0, "a", "f", '{"x":"\ud83c'), piece(0, args='\udf0d"}')],
        [("f", {"x": "🌍"}, "a")],
    ),
    "tool_calls that are none": ([delta(tool_calls=None), delta(tool_calls="x"), delta(tool_calls=[7])], []),
    "the form before tool_calls": (
        [delta(function_call={"name": "f", "arguments": '{"x"'}), delta(function_call={"arguments": ":1}"})],
        [("f", {"x": 1}, "")],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
async def test_pieces_of_calls_find_their_call(chunks: list[object], expected: list[tuple[str, Any, str]]) -> None:
    assert await calls_of(*chunks) == expected


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        (" null\n", {}),
        (None, {}),
        ("{}", {}),
        (' {"x": 1} ', {"x": 1}),
        ('{"x": 1', '{"x": 1'),
        ("[1]", "[1]"),
        ('"{}"', '"{}"'),
        ("7", "7"),
        ('{"x": NaN}', '{"x": NaN}'),
        ('{"x": 1} and more', '{"x": 1} and more'),
        ('{"x": 12345678901234567890123}', {"x": 12345678901234567890123}),
        ('{"x": ' * 300 + "1" + "}" * 300, '{"x": ' * 300 + "1" + "}" * 300),
        ('{"x":' * 100_000 + "}", '{"x":' * 100_000 + "}"),
    ],
)
async def test_c12_arguments_are_an_object_or_the_raw_text(given: str | None, arguments: Any) -> None:
    in_stream = await calls_of(piece(0, "a", "f", given))
    function = {"name": "f"} if given is None else {"name": "f", "arguments": given}
    at_once = await reply_to(whole({"tool_calls": [{"id": "a", "function": function}]}), tools=TOOLS, stream=False)

    assert in_stream == [("f", arguments, "a")]
    assert at_once.calls == (ToolCall("f", arguments, "a"),)


async def test_c13_chunks_without_choices_come_first_and_last() -> None:
    empty = {"id": "", "object": "chat.completion.chunk", "model": "", "choices": []}
    reply = await reply_to(streamed({**empty, "prompt_filter_results": []}, *TEXT, {**empty, "usage": USAGE}))

    assert (reply.text, reply.finish, reply.usage) == ("Hello", Finish.STOP, Usage(10, 50))
    assert (reply.model, reply.response) == ("gpt-test-2026", "chatcmpl-7")


async def test_c13_usage_in_each_chunk_is_counted_once() -> None:
    growing = [{**delta(content="x"), "usage": {"prompt_tokens": 10, "completion_tokens": n}} for n in (1, 20, 50)]

    reply = await reply_to(streamed(*growing, {**STOP, "usage": None}, {**delta(), "usage": {}}))

    assert reply.usage == Usage(10, 50)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 7}}, Usage(10, 50, 7)),
        ({**USAGE, "cached_tokens": 7}, Usage(10, 50, 7)),
        ({**USAGE, "prompt_cache_hit_tokens": 7, "prompt_tokens_details": None}, Usage(10, 50, 7)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 2}}, Usage(10, 50, 7, 2)),
        ({**USAGE, "completion_tokens_details": {"reasoning_tokens": 30}}, Usage(10, 50, 0, 0, 30)),
        (
            {**USAGE, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 30}},
            Usage(10, 50, 0, 0, 30),
        ),
        ({"prompt_tokens": 10.0, "completion_tokens": -1, "x": "y"}, Usage(10, 0)),
        ({"prompt_tokens": True, "completion_tokens": 10**30}, Usage()),
        ("many", Usage()),
    ],
)
async def test_usage_has_many_spellings(usage: Any, expected: Usage) -> None:
    assert (await reply_to(streamed(*TEXT, {**delta(), "usage": usage}))).usage == expected


async def test_usage_may_stand_in_the_choice() -> None:
    last = {**delta(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}

    assert (await reply_to(streamed(delta(content="x"), last))).usage == Usage(10, 50)


C14 = stream(
    delta(content="你好 🌍"),
    delta(reasoning_content="мысль"),
    piece(0, "a", "f", '{"city":"杭州"'),
    piece(0, args="}"),
    CALLS,
    {"id": "", "choices": [], "usage": USAGE},
)


async def in_pieces(pieces: list[bytes], **options: Any) -> tuple[ModelReply | str, list[str]]:
    """The reply or the error, and the text that was told on the way."""
    told: list[str] = []
    model = chat(Server(Answer(pieces=pieces)), **options)
    try:
        reply: ModelReply | str = await model.complete(request(tools=TOOLS), told.append)
    except ModelError as error:
        reply = f"{error.kind}: {error} ({error.text})"
    await model.close()
    return reply, ["".join(told)]


async def test_c14_one_byte_at_a_time_is_the_same_text() -> None:
    reply, told = await in_pieces([bytes([byte]) for byte in C14])

    assert isinstance(reply, ModelReply)
    assert (reply.text, reply.thinking, told) == ("你好 🌍", "мысль", ["你好 🌍"])
    assert reply.calls == (ToolCall("f", {"city": "杭州"}, "a"),)


BODIES = {
    "whole": C14,
    "cr": C14.replace(b"\n", b"\r"),
    "crlf": C14.replace(b"\n", b"\r\n"),
    "bom, comments, fields": b"\xef\xbb\xbf: hi\n\nid: 1\nretry: 10\nevent: message\n"
    + C14.replace(b"data: ", b": c\ndata:"),
    "bad byte": C14.replace("杭".encode(), b"\xe6\xff"),
    "cut in a character": C14[: C14.index("🌍".encode()) + 2],
    "cut in an event": C14[: C14.index(b"reasoning")],
    "an error inside": stream(delta(content="so far"), {"error": {"message": "no", "code": 503}}),
    "not json": stream(delta(content="so far"), done=False) + b"data: <html>\n\n" + DONE,
}


@given(body=st.sampled_from(sorted(BODIES)), at=st.sets(st.integers(0, 2_000), max_size=12))
async def test_any_split_into_network_chunks_gives_the_same(body: str, at: set[int]) -> None:
    bytes_ = BODIES[body]
    cuts = sorted({1 + place % (len(bytes_) - 1) for place in at})
    pieces = [bytes_[a:b] for a, b in zip([0, *cuts], [*cuts, len(bytes_)], strict=True)]

    assert await in_pieces(pieces) == await in_pieces([bytes_])


@pytest.mark.parametrize("body", ["cr", "crlf", "bom, comments, fields"])
async def test_every_form_of_an_event_stream_says_the_same(body: str) -> None:
    assert await in_pieces([BODIES[body]]) == await in_pieces([C14])


async def test_data_of_several_lines_is_one_event() -> None:
    text = json.dumps(delta("stop", content="Hello"), indent=1).encode()
    body = b"data: " + text.replace(b"\n", b"\ndata: ") + b"\n\n"

    assert (await reply_to(Answer(pieces=[body, DONE]))).text == "Hello"


async def test_c14_a_bad_byte_is_an_error_that_names_it() -> None:
    error = await cut(Answer(pieces=[stream(delta(content="so far"), done=False), b'data: {"x": "\xff"}\n\n']))

    assert error.kind == "cut"
    assert "byte 0xff at offset" in str(error)
    assert error.text == "so far"


async def test_c14_an_unfinished_character_at_the_end_is_told() -> None:
    error = await cut(Answer(pieces=[stream(delta(content="so far"), done=False), "data: 🌍".encode()[:-1]]))

    assert (error.kind, error.text) == ("cut", "so far")
    assert "ends in the middle of a character" in str(error)


async def test_half_a_character_that_stays_alone_is_replaced_and_never_told_alone() -> None:
    told: list[str] = []
    halves = [delta(content="a\ud83c"), delta(content="\udf0db\ud83c"), delta(content="c"), STOP]
    model = chat(Server(streamed(*halves)))

    reply = await model.complete(request(), told.append)
    await model.close()

    assert told == ["a", "🌍b", "�c"]
    assert reply.text == "a🌍b�c"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_is_kept_apart_from_the_answer(field: str) -> None:
    told: list[str] = []
    model = chat(Server(streamed(delta(**{field: "hm, "}), delta(**{field: "yes"}), *TEXT)))

    reply = await model.complete(request(), told.append)
    await model.close()

    assert (reply.thinking, reply.text, told) == ("hm, yes", "Hello", ["Hel", "lo"])
    assert reply.kept_for == ""


async def test_thinking_that_is_sent_under_two_names_is_kept_once() -> None:
    assert (await reply_to(streamed(delta(reasoning_content="hm", reasoning="hm"), *TEXT))).thinking == "hm"


async def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hello"}]

    reply = await reply_to(streamed(delta(content=parts), delta(content=[{"type": "image"}, 7]), STOP))

    assert (reply.thinking, reply.text) == ("hm", "Hello")


REFUSAL = [delta(content=None, refusal="I can"), delta(refusal="not."), STOP]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (streamed(*REFUSAL), "I cannot."),
        (whole({"content": None, "refusal": "I cannot."}), "I cannot."),
        (streamed(delta("content_filter")), ""),
        (streamed(delta(content="So"), delta("content_filter")), "So"),
        (whole({"content": ""}, "content_filter"), ""),
    ],
)
async def test_c39_a_refusal_is_a_finish_with_its_text(answer: Answer, text: str) -> None:
    reply = await reply_to(answer)

    assert (reply.finish, reply.text) == (Finish.REFUSAL, text)


async def test_c40_length_is_a_finish_whatever_the_calls_look_like() -> None:
    half = await reply_to(streamed(piece(0, "a", "f", '{"path":"a","content":"abc'), delta("length")), tools=TOOLS)
    complete = await reply_to(streamed(piece(0, "a", "f", "{}"), delta("length")), tools=TOOLS)

    assert (half.finish, complete.finish) == (Finish.LENGTH, Finish.LENGTH)
    assert half.calls == (ToolCall("f", '{"path":"a","content":"abc', "a"),)


@pytest.mark.parametrize(
    ("word", "finish", "kept"),
    [
        ("stop", Finish.TOOL_USE, ""),
        ("tool_calls", Finish.TOOL_USE, ""),
        ("function_call", Finish.TOOL_USE, ""),
        ("end_of_thought", Finish.TOOL_USE, "end_of_thought"),
        ("model_length", Finish.LENGTH, ""),
    ],
)
async def test_calls_make_it_a_tool_use_whatever_the_server_says(word: str, finish: Finish, kept: str) -> None:
    reply = await reply_to(streamed(piece(0, "a", "f", "{}"), delta(word)), tools=TOOLS)

    assert (reply.finish, reply.finish_word, len(reply.calls)) == (finish, kept, 1)


async def test_an_unknown_finish_is_a_stop_that_keeps_its_word() -> None:
    reply = await reply_to(streamed(delta(content="x"), delta("eos_token")))

    assert (reply.finish, reply.finish_word) == (Finish.STOP, "eos_token")


HALF = delta(content="Half a sen")


@pytest.mark.parametrize(
    "answer",
    [
        streamed(HALF, done=False),
        streamed(HALF),
        Answer(pieces=[stream(HALF, done=False)], breaks=httpx.ReadError("connection reset by peer")),
        Answer(pieces=[stream(HALF, done=False)], breaks=httpx.RemoteProtocolError("peer closed connection")),
        Answer(pieces=[stream(HALF, STOP, done=False)[:-30]]),
        Answer(pieces=[stream(HALF, done=False), b"data: {\n\n"]),
        streamed(HALF, delta("error")),
        streamed(HALF, delta("insufficient_system_resource")),
    ],
    ids=["end", "done", "reset", "closed", "in the finish", "no json", "error", "no room"],
)
async def test_c42_a_stream_without_a_finish_is_cut_and_keeps_its_text(answer: Answer) -> None:
    error = await cut(answer)

    assert (error.kind, error.text) == ("cut", "Half a sen")
    assert str(error).startswith("chat.example: ")


async def test_c42_nothing_at_all_is_cut_too() -> None:
    assert (await cut(streamed(done=False))).kind == "cut"
    assert (await cut(streamed())).kind == "cut"


@pytest.mark.parametrize(
    "tail",
    [
        Answer(pieces=[stream(*TEXT, done=False)]),
        Answer(pieces=[stream(*TEXT, done=False)], breaks=httpx.ReadError("reset")),
        Answer(pieces=[stream(*TEXT, done=False), b"data: [DO"]),
        Answer(pieces=[stream(*TEXT, done=False), b"\xff"]),
        Answer(pieces=[stream(*TEXT, done=False)[:-2]]),
        Answer(pieces=[stream(*TEXT), stream(delta(content="after the end"))]),
    ],
    ids=["no done", "reset", "half a done", "bad byte", "no empty line", "more after done"],
)
async def test_what_comes_after_the_finish_takes_nothing_from_the_answer(tail: Answer) -> None:
    reply = await reply_to(tail)

    assert (reply.text, reply.finish) == ("Hello", Finish.STOP)


async def test_a_server_that_keeps_the_stream_open_after_the_finish_is_not_waited_for() -> None:
    class Open(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield stream(*TEXT)
            await asyncio.get_running_loop().create_future()

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Open())

    model = chat(httpx.MockTransport(answer), timeouts={"tail_s": 0.01})

    assert (await model.complete(request(), lambda piece: None)).text == "Hello"
    await model.close()


@pytest.mark.parametrize(
    ("chunk", "kind", "words"),
    [
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, "overloaded", "Overloaded"),
        ({"error": {"message": "slow down", "code": 429}}, "rate_limit", "slow down"),
        ({"error": {"message": "gone", "code": "server_error"}, "choices": []}, "overloaded", "gone"),
        ({"error": "it broke"}, "overloaded", "it broke"),
        ({"object": "error", "message": "bad request", "code": 400}, "invalid_request", "bad request"),
        ({"error": {"message": "no money", "code": "insufficient_quota"}}, "quota", "no money"),
    ],
)
async def test_an_error_inside_a_stream_is_an_error(chunk: object, kind: str, words: str) -> None:
    error = await cut(streamed(HALF, chunk))

    assert (error.kind, error.text) == (kind, "Half a sen")
    assert words in str(error)


async def test_only_the_first_of_several_choices_counts() -> None:
    other = {
        **delta(content="other"),
        "choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}],
    }

    reply = await reply_to(streamed(TEXT[1], other, TEXT[2], other, STOP))

    assert reply.text == "Hello"


MESSAGES: list[tuple[dict[str, Any], str, list[object]]] = [
    ({"content": "你好"}, "stop", [delta(content="你"), delta(content="好")]),
    ({"content": None, "refusal": "no"}, "stop", [delta(refusal="no")]),
    ({"content": "x", "reasoning_content": "hm"}, "length", [delta(reasoning_content="hm"), delta(content="x")]),
    (
        {"content": None, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}]},
        "tool_calls",
        [piece(0, "a", "f"), piece(0, args='{"x"'), piece(0, args=":1}")],
    ),
    (
        {
            "content": "two",
            "tool_calls": [{"id": i, "function": {"name": "f", "arguments": ""}} for i in ("a", "a", "b")],
        },
        "stop",
        [delta(content="two"), piece(0, "a", "f"), piece(1, "a", "f", ""), piece(2, "b", "f")],
    ),
]


@pytest.mark.parametrize(("message", "finish", "chunks"), MESSAGES)
async def test_whole_and_streamed_are_the_same_reply(
    message: dict[str, Any], finish: str, chunks: list[object]
) -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 3}}

    at_once = await reply_to(whole(message, finish, usage), tools=TOOLS, stream=False)
    streamed_ = await reply_to(streamed(*chunks, delta(finish), {"choices": [], "usage": usage}), tools=TOOLS)

    assert at_once == streamed_


async def test_a_server_may_answer_in_the_other_way_than_it_was_asked() -> None:
    at_once, streamed_ = whole({"content": "Hello"}), streamed(*TEXT)

    assert (await reply_to(at_once, stream=True)).text == "Hello"
    assert (await reply_to(streamed_, stream=False)).text == "Hello"
    assert (await reply_to(Answer(pieces=streamed_.pieces, headers={}), stream=True)).text == "Hello"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(pieces=[b'{"choices": [{"mess'], headers={"content-type": "application/json"}), "cut", "no JSON"),
        (Answer(pieces=[b"<html>"], headers={"content-type": "text/html"}), "invalid_request", "is base_url right"),
        (json_answer([]), "unavailable", "no JSON object"),
        (json_answer({"object": "list"}), "unavailable", "no choices"),
        (json_answer({"error": {"message": "no", "code": 401}}), "auth", "no"),
        (whole({"content": "x"}, None), "cut", "without a finish reason"),
        (Answer(pieces=[b"\xff{}"], headers={"content-type": "application/json"}), "cut", "byte 0xff at offset 0"),
    ],
)
async def test_a_whole_answer_that_is_none_is_an_error(answer: Answer, kind: str, words: str) -> None:
    error = await cut(answer, stream=False)

    assert error.kind == kind
    assert words in str(error)


DEEP = "[" * 700 + "]" * 700


@pytest.mark.parametrize(
    "chunk",
    [
        '{"choices": [{"delta": {"content": %s}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": {"x": %s}}}]}}]}',
        '{"choices": %s}',
        '{"usage": {"prompt_tokens_details": %s}}',
        '{"error": %s}',
        '{"error": {"message": %s}}',
    ],
)
async def test_what_is_nested_without_need_breaks_nothing(chunk: str) -> None:
    raw = b"data: " + (chunk % DEEP).encode() + b"\n\n"

    reply, _ = await in_pieces([raw, event(STOP), DONE])

    assert isinstance(reply, ModelReply) or reply.startswith("overloaded: ")


WORDS = ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id", "text"]
WORDS += [
    "finish_reason",
    "usage",
    "prompt_tokens",
    "error",
    "code",
    "refusal",
    "reasoning",
    "type",
    "thinking",
    "object",
]
LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 600) | st.floats(allow_nan=False) | st.sampled_from(["", "{}", "stop"])
)
ANY = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
)


@given(st.lists(ANY, max_size=4))
async def test_no_chunk_of_any_form_breaks_the_adapter(chunks: list[object]) -> None:
    nested = [{"choices": [{"delta": chunk, "finish_reason": "stop"}]} for chunk in chunks]

    for said in (chunks, nested, [{"choices": chunks}], [{"error": chunks}]):
        reply, _ = await in_pieces([stream(*said)])
        assert isinstance(reply, (ModelReply, str))


@given(at=st.integers(0, len(C14) - 1), junk=st.binary(max_size=8), lost=st.integers(0, 40))
async def test_no_damage_to_the_bytes_breaks_the_adapter(at: int, junk: bytes, lost: int) -> None:
    reply, _ = await in_pieces([C14[:at] + junk + C14[at + lost :]])

    assert isinstance(reply, (ModelReply, str))


async def test_an_answer_has_a_bound() -> None:
    error = await cut(streamed(HALF, delta(content="x" * 5_000)), timeouts={"response_bytes_max": 2_000})

    assert error.kind == "invalid_request"
    assert "more than 2,000 bytes (response_bytes_max)" in str(error)
