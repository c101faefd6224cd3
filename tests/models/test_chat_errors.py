"""What a server answers instead of a reply, and what becomes of it; C43, S06."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import httpx
import pytest

from agentos.errors import ModelError
from agentos.models.openai_chat.errors import WORDS_CHARS_MAX
from agentos.models.retry_after import duration_s, in_words, retry_after_s
from agentos.testing.clock import START, ManualClock
from tests.models.chat_support import Answer, Server, chat, json_answer, reply_to, request, streamed

NOW_S = START / 1e6


async def failed(answer: Answer | Exception, **options: Any) -> ModelError:
    model = chat(Server(answer), clock=ManualClock(), **options)
    with pytest.raises(ModelError) as raised:
        await model.complete(request(), lambda piece: None)
    await model.close()
    return raised.value


def error(message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error("bad field"), "invalid_request"),
        (400, error("too long", code="context_length_exceeded"), "context"),
        (400, error("This model's maximum context length is 8192 tokens, you asked for 9000"), "context"),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum"), "context"),
        (400, error("Invalid request: Your request exceeded model token limit: 262144"), "context"),
        (413, error("input is too long for this model"), "context"),
        (413, error("body too big"), "invalid_request"),
        (401, error("Incorrect API key provided"), "auth"),
        (403, error("not for you"), "auth"),
        (402, error("pay first"), "quota"),
        (403, error("your credit balance is too low"), "quota"),
        (404, error("model not found"), "invalid_request"),
        (408, error("slow"), "timeout"),
        (409, error("again"), "overloaded"),
        (422, {"detail": [{"msg": "extra field"}]}, "invalid_request"),
        (429, error("Rate limit reached"), "rate_limit"),
        (429, error("The engine is currently overloaded, please try again later"), "overloaded"),
        (429, error("busy", type="engine_overloaded_error"), "overloaded"),
        (429, error("You exceeded your current quota, please check your plan", code="insufficient_quota"), "quota"),
        (429, error("suspended due to insufficient balance", type="exceeded_current_quota_error"), "quota"),
        (429, error("You exceeded your current quota, please check your plan"), "quota"),
        (429, error("You exceeded your current quota, please retry in 26s"), "rate_limit"),
        (500, error("oops"), "overloaded"),
        (501, error("never"), "unavailable"),
        (502, "<html>Bad gateway</html>", "overloaded"),
        (503, error("overloaded"), "overloaded"),
        (504, "", "overloaded"),
        (522, error("origin"), "overloaded"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
    ],
)
async def test_a_status_and_its_body_say_the_kind(status: int, body: object, kind: str) -> None:
    assert (await failed(json_answer(body, status))).kind == kind


async def test_the_message_names_host_status_and_the_servers_words() -> None:
    found = await failed(json_answer(error("Rate limit\n reached\x07 for you"), 429, retry_after="3"))

    assert str(found) == (
        "chat.example: answered 429 Too Many Requests: Rate limit reached for you (it asks to wait 3 s)"
    )
    assert found.retry_after_s == 3


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (error("said so"), "said so"),
        ({"error": "said so"}, "said so"),
        ({"message": "said so", "object": "error"}, "said so"),
        ({"detail": "said so"}, "said so"),
        ({"detail": [{"loc": ["body"], "msg": "said so"}]}, '"msg": "said so"'),
        ([error("said so")], "said so"),
        ({"error": {"type": "said_so"}}, "said_so"),
        ("<!doctype html><p>said so", "a page of HTML; is base_url that of an API?"),
        ([], ": answered 400 Bad Request"),
    ],
)
async def test_every_form_of_an_error_body_gives_its_words(body: object, words: str) -> None:
    pieces = [body.encode()] if isinstance(body, str) else json_answer(body).pieces
    assert words in str(await failed(Answer(pieces=pieces, status=400)))


async def test_the_servers_words_are_capped() -> None:
    found = str(await failed(json_answer(error("x" * 100_000), 400)))

    assert len(found) < WORDS_CHARS_MAX + 100
    assert found.endswith("…")


async def test_an_endless_error_is_read_to_its_bound_alone() -> None:
    answer = Answer(pieces=[b"x" * 1_000] * 10_000, status=500, breaks=AssertionError("read to its end"))

    assert (await failed(answer)).kind == "overloaded"


async def test_an_error_that_breaks_off_is_still_one() -> None:
    answer = Answer(pieces=[b'{"error": {"mess'], status=401, breaks=httpx.ReadError("reset"))

    assert (await failed(answer)).kind == "auth"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://169.254.169.254/latest?token=sk-canary", "http://169.254.169.254/latest"),
        ("file:///etc/passwd", "/etc/passwd"),
        ("http://[bad", "an address that is none"),
        ("", "nowhere"),
    ],
)
async def test_s06_a_redirect_is_not_followed(location: str, told: str) -> None:
    server = Server(Answer(status=302, headers={"location": location}))
    model = chat(server)

    with pytest.raises(ModelError, match="redirects are not followed: set base_url") as raised:
        await model.complete(request(), lambda piece: None)
    await model.close()

    assert raised.value.kind == "unavailable"
    assert told in str(raised.value)
    assert "canary" not in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (httpx.ConnectError("connection refused"), "network", "ConnectError: connection refused"),
        (httpx.ReadError(""), "network", "chat.example: ReadError"),
        (httpx.RemoteProtocolError("no answer"), "network", "no answer"),
        (httpx.ConnectTimeout(""), "timeout", "no connection within 15 s"),
        (httpx.ReadTimeout(""), "timeout", "nothing came for 300 s"),
        (httpx.WriteTimeout(""), "timeout", "the request was not taken within 60 s"),
        (httpx.PoolTimeout(""), "timeout", "all 1000 connections were in use for 60 s"),
        (httpx.UnsupportedProtocol("no"), "invalid_request", "no"),
    ],
)
async def test_no_answer_at_all(raised: Exception, kind: str, words: str) -> None:
    found = await failed(raised)

    assert found.kind == kind
    assert words in str(found)


async def test_a_stream_that_falls_silent_is_a_timeout_with_its_text() -> None:
    half = streamed({"choices": [{"delta": {"content": "Half"}}]}, done=False)
    found = await failed(Answer(pieces=half.pieces, breaks=httpx.ReadTimeout("")), timeouts={"idle_s": 7})

    assert (found.kind, found.text) == ("timeout", "Half")
    assert "nothing came for 7 s" in str(found)


async def test_a_whole_answer_may_take_longer_than_a_piece_of_a_stream() -> None:
    assert "nothing came for 600 s" in str(await failed(httpx.ReadTimeout(""), stream=False))


async def test_a_client_that_is_closed_asks_nobody() -> None:
    server = Server(streamed())
    model = chat(server)
    await model.close()
    await model.close()

    with pytest.raises(ModelError, match="the client is closed"):
        await model.complete(request(), lambda piece: None)
    assert server.requests == []


async def test_close_ends_the_connections() -> None:
    server = Server(streamed({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    model = chat(server)
    await model.complete(request(), lambda piece: None)

    await model.close()

    assert server.closed


# How long to wait


def date(seconds_from_now: float) -> str:
    return formatdate(NOW_S + seconds_from_now, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "words", "seconds"),
    [
        ({"retry-after": "3"}, "", 3.0),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after": "864000"}, "", 864_000.0),
        ({"retry-after": date(30)}, "", 30.0),
        ({"retry-after": date(-30)}, "", 0.0),
        ({"retry-after": "Fri, 31 Feb 2027 99:99:99 GMT"}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({"retry-after": "9" * 400}, "", None),
        ({"retry-after": "NaN"}, "", None),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"x-ratelimit-reset-requests": "120ms"}, "", 0.12),
        ({"x-ratelimit-reset-tokens": "1d2h3m4s"}, "", 93_784.0),
        ({"x-ratelimit-reset-tokens": "1.376s"}, "", 1.376),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "1s"}, "", 360.0),
        (
            {
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "700",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
            },
            "",
            1.0,
        ),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s"}, "", 2.0),
        ({"x-ratelimit-reset": str(int(NOW_S) + 40)}, "", 40.0),
        ({"x-ratelimit-reset": str(int(NOW_S * 1000) + 40_000)}, "", 40.0),
        ({}, "Please try again in 1.376s. Visit ...", 1.376),
        ({}, "please try again after 1 seconds", 1.0),
        ({}, "retry in 1m30s", 90.0),
        ({}, "no retry helps", None),
        ({"x-ratelimit-remaining-tokens": "0"}, "", None),
    ],
)
def test_c43_the_wait_is_read_from_whatever_says_it(headers: dict[str, str], words: str, seconds: float | None) -> None:
    found = retry_after_s(headers, words, START)

    assert found == (
        pytest.approx(seconds, abs=1.0 if seconds and seconds > 5 else 1e-9) if seconds is not None else None
    )


@pytest.mark.parametrize("text", ["", "1x", "s", "1d 2h", "--1s", "1..2s", "1s" * 10 + "?", None])
def test_what_is_no_duration_is_none(text: str | None) -> None:
    assert duration_s(text) is None


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.12, "0.12 s"), (3, "3 s"), (90, "90 s"), (600, "600 s (10 minutes)"), (864_000, "864000 s (10 days)")],
)
def test_a_wait_is_told_in_units_that_say_something(seconds: float, told: str) -> None:
    assert in_words(seconds) == told


async def test_an_error_in_a_stream_may_ask_to_wait() -> None:
    chunk = {"error": {"message": "slow down, try again in 20s", "type": "rate_limit_error"}}

    with pytest.raises(ModelError, match=r"it asks to wait 20 s") as raised:
        await reply_to(streamed(chunk))

    assert (raised.value.kind, raised.value.retry_after_s) == ("rate_limit", 20.0)
