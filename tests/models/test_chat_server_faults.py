"""The faults of the chat server as they are on the wire, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentos.testing.chat_server import (
    BadByte,
    ChatServer,
    Close,
    ContentType,
    Cut,
    EmptyChoices,
    ErrorObject,
    NoDone,
    NoFinish,
    NoIndex,
    Pieces,
    Reset,
    SlowHead,
    Stall,
    Status,
    WireFault,
)
from agentos.testing.clock import ManualClock
from tests.models.chat_wire import BODY, STREAM, chunks, connect, events, exchange, parts, post, timer_of

REPLY: dict[str, Any] = {
    "deltas": ["Grüße, ", "你好 🌍"],
    "calls": [{"tool": "search", "fragments": ['{"city":', '"杭州"}']}],
}


def serving(*faults: WireFault, script: Any = None) -> ChatServer:
    """A server whose answers are the same each time."""
    return ChatServer(script or [REPLY], faults={1: faults}, clock=ManualClock())


async def answered(*faults: WireFault, body: Any = STREAM) -> tuple[bytes, Exception | None]:
    async with serving(*faults) as server:
        return await exchange(server, post(body))


async def body_of(*faults: WireFault) -> bytes:
    """The body of a stream that ended as it should, its chunks put together."""
    answer, error = await answered(*faults)
    found = chunks(parts(answer)[2])
    assert error is None
    assert found[-1] == b""
    return b"".join(found)


async def test_without_a_fault_an_answer_is_the_same_each_time() -> None:
    first, second = await answered(), await answered()

    assert first == second
    assert first[1] is None
    assert chunks(parts(first[0])[2])[-1] == b""


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
async def test_a_close_at_each_byte_of_the_wire_leaves_just_what_came_before(body: dict[str, Any]) -> None:
    whole, _ = await answered(body=body)

    for after in range(len(whole)):
        assert await answered(Close(after, "wire"), body=body) == (whole[:after], None)


async def test_a_reset_at_each_byte_of_the_wire_comes_behind_what_was_written() -> None:
    whole, _ = await answered()

    for after in range(len(whole)):
        heard, error = await answered(Reset(after, "wire"))
        assert heard == whole[:after]
        assert isinstance(error, ConnectionResetError)


async def test_a_stall_anywhere_on_the_wire_says_nothing_more_and_does_not_end() -> None:
    whole, _ = await answered()

    for after in range(0, len(whole), 7):
        async with serving(Stall(after, "wire")) as server:
            wire = await connect(server)
            wire.send(post(STREAM))
            await wire.until(after)
            assert not wire.over.done()
        await wire.over
        assert wire.heard == whole[:after]


async def test_a_stall_ends_when_the_client_leaves_and_the_server_knows_who_left() -> None:
    async with serving(Stall(10)) as server:
        wire = await connect(server)
        wire.send(post(STREAM))
        await wire.until(100)
        wire.close()
        await wire.over
        assert (await exchange(server, post(STREAM)))[1] is None

        assert server.left == [1]


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
async def test_a_close_in_the_body_counts_its_bytes_alone_and_lacks_the_proper_end(body: dict[str, Any]) -> None:
    whole, _ = await answered(body=body)
    status, headers, wire = parts(whole)
    said = b"".join(chunks(wire)) if body is STREAM else wire

    for after in (0, 1, 40, len(said)):
        heard, error = await answered(Close(after), body=body)
        assert parts(heard)[:2] == (status, headers)
        assert error is None
        if body is STREAM:
            assert b"" not in chunks(parts(heard)[2])
            assert b"".join(chunks(parts(heard)[2])) == said[:after]
        else:
            assert parts(heard)[2] == said[:after]


async def test_a_close_without_a_place_comes_behind_the_whole_body_and_lacks_its_last_chunk() -> None:
    whole, _ = await answered()

    assert await answered(Close()) == (whole.removesuffix(b"0\r\n\r\n"), None)


async def test_a_cut_body_ends_as_properly_as_a_whole_one() -> None:
    whole = await body_of()

    for after in range(0, len(whole), 5):
        assert await body_of(Cut(after)) == whole[:after]


async def test_a_cut_whole_answer_declares_the_length_that_it_has() -> None:
    answer, error = await answered(Cut(30), body=BODY)

    _, headers, body = parts(answer)
    assert error is None
    assert headers["content-length"] == "30"
    assert len(body) == 30


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_pieces_of_the_body_are_chunks_of_their_own(size: int) -> None:
    whole = await body_of()
    answer, _ = await answered(Pieces(size))

    found = chunks(parts(answer)[2])
    assert b"".join(found) == whole
    assert max(map(len, found)) <= size
    assert size > 1 or set(map(len, found)) == {1, 0}


async def test_each_byte_of_the_wire_may_be_a_write_of_its_own() -> None:
    whole, _ = await answered()

    async with serving(Pieces(1, "wire")) as server:
        wire = await connect(server)
        wire.send(post(STREAM))
        await wire.over

    assert wire.heard == whole
    assert [len(read) for read in wire.reads] == [1] * len(whole)


async def test_a_bad_byte_stands_at_its_place_and_nowhere_else() -> None:
    whole = await body_of()

    for at in range(0, len(whole), 11):
        assert await body_of(BadByte(at)) == whole[:at] + b"\xff" + whole[at + 1 :]
    assert await body_of(BadByte(len(whole))) == whole


async def test_faults_may_be_joined() -> None:
    whole = await body_of()

    answer, error = await answered(BadByte(3), Pieces(2), Reset(9))

    assert b"".join(chunks(parts(answer)[2])) == whole[:3] + b"\xff" + whole[4:9]
    assert isinstance(error, ConnectionResetError)


async def test_a_stream_without_a_finish_goes_from_its_last_delta_to_done() -> None:
    told = events(await body_of(NoFinish()))

    choices = [choice for event in told[:-1] for choice in event["choices"]]
    assert told[-1] == "[DONE]"
    assert {choice["finish_reason"] for choice in choices} == {None}
    assert choices[-1]["delta"]["tool_calls"][0]["function"]["arguments"] == '"杭州"}'


async def test_a_stream_without_done_ends_with_its_usage() -> None:
    told = events(await body_of(NoDone()))

    assert told == events(await body_of())[:-1]
    assert told[-1]["usage"]["total_tokens"] > 0


async def test_pieces_of_calls_may_lack_their_index() -> None:
    told = events(await body_of(NoIndex()))

    pieces = [piece for event in told[:-1] for one in event["choices"] for piece in one["delta"].get("tool_calls", ())]
    assert len(pieces) == 3
    assert not any("index" in piece for piece in pieces)
    assert [piece.get("id") for piece in pieces] == ["call_1_1", None, None]


async def test_chunks_without_choices_come_first_and_last() -> None:
    told = events(await body_of(EmptyChoices()))

    assert (told[0]["choices"], told[-2]["choices"], told[-1]) == ([], [], "[DONE]")
    assert [*told[1:-2], told[-1]] == events(await body_of())


async def test_an_error_object_ends_a_stream_in_its_middle() -> None:
    told = events(await body_of(ErrorObject(2, "Out of order.", code="broken")))

    assert told[:2] == events(await body_of())[:2]
    assert told[2:] == [
        {"error": {"message": "Out of order.", "type": "server_error", "param": None, "code": "broken"}}
    ]


async def test_an_error_object_may_come_under_the_status_200() -> None:
    status, _, body = parts((await answered(ErrorObject(message="No."), body=BODY))[0])

    assert status == 200
    assert json.loads(body)["error"]["message"] == "No."


async def test_a_whole_answer_may_lack_its_finish_or_its_choices() -> None:
    unfinished = json.loads(parts((await answered(NoFinish(), body=BODY))[0])[2])
    empty = json.loads(parts((await answered(EmptyChoices(), body=BODY))[0])[2])

    assert unfinished["choices"][0]["finish_reason"] is None
    assert empty["choices"] == []


async def test_the_right_body_may_have_the_wrong_name() -> None:
    whole, _ = await answered()

    wrong, _ = await answered(ContentType("text/plain"))

    assert wrong == whole.replace(b"text/event-stream; charset=utf-8", b"text/plain")


@pytest.mark.parametrize(
    ("fault", "status", "headers", "kind"),
    [
        (Status(429, {"Retry-After": "3"}), 429, {"retry-after": "3"}, "rate_limit_error"),
        (Status(503), 503, {}, "server_error"),
        (Status(529), 529, {}, "overloaded_error"),
        (Status(404), 404, {}, "invalid_request_error"),
        (Status(400, body={"error": {"type": "own"}}), 400, {}, "own"),
    ],
)
async def test_a_status_comes_with_its_headers_and_an_error_object(
    fault: Status, status: int, headers: dict[str, str], kind: str
) -> None:
    found, named, body = parts((await answered(fault))[0])

    assert found == status
    assert headers.items() <= named.items()
    assert named["content-type"] == "application/json"
    assert json.loads(body)["error"]["type"] == kind


async def test_a_page_of_html_may_come_instead() -> None:
    status, headers, body = parts((await answered(Status(502, body="<h1>Bad Gateway</h1>")))[0])

    assert (status, headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert body == b"<h1>Bad Gateway</h1>"


async def test_a_slow_head_comes_byte_by_byte_as_the_time_goes() -> None:
    clock = ManualClock()
    whole, _ = await answered()

    async with ChatServer([REPLY], faults={1: SlowHead(before_s=5, byte_s=1)}, clock=clock) as server:
        wire = await connect(server)
        wire.send(post(STREAM))
        await timer_of(clock)
        assert wire.heard == b""
        clock.advance(5)
        for n in range(1, 20):
            await wire.until(n)
            assert wire.heard == whole[:n]
            await timer_of(clock)
            clock.advance(1)


async def test_a_fault_hits_the_request_of_its_number_alone_so_that_a_retry_succeeds() -> None:
    async with ChatServer([REPLY], faults={1: Status(503), 2: [Close(0)]}) as server:
        answers = [parts((await exchange(server, post(STREAM)))[0]) for _ in range(3)]

    assert [status for status, _, _ in answers] == [503, 200, 200]
    assert answers[1][2] == b""
    assert answers[2][2].endswith(b"0\r\n\r\n")


async def test_a_fault_of_so_many_attempts_is_over_when_the_same_body_comes_again() -> None:
    other = {**STREAM, "user": "other"}

    async with ChatServer([REPLY], every=[Status(503, attempts=2)]) as server:
        statuses = [parts((await exchange(server, post(body)))[0])[0] for body in (STREAM, other, STREAM, STREAM)]

    assert statuses == [503, 503, 503, 200]
    assert [request.attempt for request in server.requests] == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ({"kind": "rate_limit", "retry_after_s": 1.5}, 429, "rate_limit"),
        ({"kind": "overloaded"}, 503, "overloaded"),
        ({"kind": "auth"}, 401, "auth"),
        ({"kind": "invalid_request"}, 400, "invalid_request"),
        ({"kind": "context"}, 400, "context_length_exceeded"),
        ({"kind": "quota"}, 429, "insufficient_quota"),
        ({"kind": "unavailable"}, 501, "unavailable"),
    ],
)
async def test_a_fault_of_a_script_is_a_status_and_over_after_its_attempts(
    fault: dict[str, Any], status: int, code: str
) -> None:
    step = {"fault": {**fault, "attempts": 1}, "text": "There you are."}

    async with ChatServer([step]) as server:
        failed = parts((await exchange(server, post()))[0])
        good = parts((await exchange(server, post()))[0])

    assert (failed[0], json.loads(failed[2])["error"]["code"]) == (status, code)
    assert failed[1].get("retry-after") == ("1.5" if "retry_after_s" in fault else None)
    assert json.loads(good[2])["choices"][0]["message"]["content"] == "There you are."


@pytest.mark.parametrize("kind", ["network", "cut", "overloaded", "timeout"])
async def test_a_fault_of_a_script_that_has_begun_to_speak_ends_the_stream_behind_its_text(kind: str) -> None:
    step = {"fault": {"kind": kind, "text": "I th"}, "text": "I think."}

    async with ChatServer([step]) as server:
        wire = await connect(server)
        wire.send(post(STREAM))
        if kind == "timeout":
            await wire.until_told(b'"I th"')
            assert not wire.over.done()
            wire.close()
        error = await wire.over

    told = events(b"".join(chunks(parts(wire.heard)[2])))
    said = [choice["delta"].get("content") for event in told for choice in event.get("choices", ())]
    assert said == ["", "I th"]
    assert "[DONE]" not in told
    assert isinstance(error, ConnectionResetError) == (kind == "network")
    assert ("error" in told[-1]) == (kind == "overloaded")
    assert wire.heard.endswith(b"0\r\n\r\n") == (kind in ("cut", "overloaded"))
