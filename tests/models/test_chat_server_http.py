"""The chat server on HTTP: what it routes, refuses and keeps, the keys it asks for, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentos.testing.chat_server import ChatServer, Pieces
from agentos.testing.clock import ManualClock
from tests.models.chat_wire import (
    BODY,
    HELLO,
    STREAM,
    asking,
    connect,
    exchange,
    parts,
    post,
    request,
    text_of,
    timer_of,
    told,
)


async def test_a_bad_request_is_refused_in_the_shape_of_the_api_and_kept() -> None:
    body = asking(("tool", "found"), ("user", ""))

    async with ChatServer(HELLO) as server:
        status, error = await told(server, post(body))
        assert await text_of(server) == "Hello."

    assert status == 400
    assert error["error"] == {
        "message": "Missing required parameter: 'messages[0].tool_call_id'.",
        "type": "invalid_request_error",
        "param": "messages[0].tool_call_id",
        "code": "missing_required_parameter",
    }
    assert [problem.split(": ")[:2] for problem in server.problems] == [
        ["request 1", "messages[0].tool_call_id"],
        ["request 1", "messages[1].content"],
    ]
    assert [len(one.problems) for one in server.requests] == [2, 0]
    assert [one.body for one in server.requests] == [body, BODY]


async def test_another_status_for_refusals_and_more_keys_may_be_asked_for() -> None:
    late = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]

    async with ChatServer(HELLO, refusal_status=422, extra_keys=["top_k"], system_first=True) as server:
        good, _ = await told(server, post({**BODY, "top_k": 3}))
        bad, error = await told(server, post({"model": "m", "messages": late}))

    assert (good, bad, error["error"]["param"]) == (200, 422, "messages[1].role")


@pytest.mark.parametrize("body", [b"", b"{", b"[1,]", b'{"a":NaN}', b"\xff", b"[" * 100_000], ids=range(6))
async def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    async with ChatServer(HELLO) as server:
        status, error = await told(server, post(body))

    assert (status, error["error"]["type"]) == (400, "invalid_request_error")
    assert error["error"]["message"].startswith("We could not parse the JSON body of your request")
    assert len(server.problems) == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("GET", "/"), 404),
        (request("GET", "/v1/embeddings"), 404),
        (request("POST", "/v1/chat/completions/x", {"content-length": "0"}), 404),
        (request("GET", "/v1/models/other"), 404),
        (request("GET", "/v1/chat/completions"), 405),
        (request("DELETE", "/v1/models"), 405),
        (b"this is no http\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 70_000, 431),
        (request("POST", "/v1/chat/completions", {"content-length": str(33 * 1024 * 1024)}), 413),
        (request("POST", "/v1/chat/completions", {"content-length": "many"}), 400),
    ],
    ids=range(10),
)
async def test_what_is_no_request_for_this_server_gets_an_error_object_and_is_not_kept(
    sent: bytes, status: int
) -> None:
    async with ChatServer(HELLO) as server:
        found, error = await told(server, sent)

    assert found == status
    assert error["error"]["type"] == "invalid_request_error"
    assert server.requests == []


async def test_a_body_without_a_declared_length_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.testing.chat_server.wire.BODY_BYTES_MAX", 100)
    sent = request("POST", "/v1/chat/completions", {"transfer-encoding": "chunked"}) + b"80\r\n" + b" " * 128

    async with ChatServer(HELLO) as server:
        status, error = await told(server, sent)

    assert (status, error["error"]["message"]) == (413, "The body of the request has over 100 bytes.")


async def test_a_method_that_is_not_allowed_hears_which_one_is() -> None:
    async with ChatServer(HELLO) as server:
        _, headers, _ = parts((await exchange(server, request("GET", "/v1/chat/completions")))[0])

    assert headers["allow"] == "POST"


async def test_the_answer_to_a_head_request_has_no_body() -> None:
    async with ChatServer(HELLO) as server:
        answer, error = await exchange(server, request("HEAD", "/v1/models"))

    assert (parts(answer)[0], parts(answer)[2], error) == (405, b"", None)


async def test_a_client_that_goes_without_a_word_at_any_time_disturbs_nobody() -> None:
    async with ChatServer(HELLO, every=[Pieces(1)]) as server:
        for after in range(0, 600, 20):
            wire = await connect(server)
            wire.send(post(STREAM))
            await wire.until(after)
            wire.abort()
        assert await text_of(server) == "Hello."


async def test_models_are_listed_and_found() -> None:
    async with ChatServer({"b": HELLO, "*": HELLO}, models=["a/x"]) as server:
        status, listed = await told(server, request("GET", "/v1/models?limit=5"))
        _, one = await told(server, request("GET", "/v1/models/a/x"))

    assert (status, listed["object"]) == (200, "list")
    assert [model["id"] for model in listed["data"]] == ["a/x", "b"]
    assert one == listed["data"][0]
    assert one["object"] == "model"


@pytest.mark.parametrize("given", [None, "Bearer other", "Basic secret", "Bearer", "Bearer schlüssel"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
async def test_a_wrong_key_is_refused_on_every_road(given: str | None, path: str) -> None:
    headers = {} if given is None else {"authorization": given}

    async with ChatServer(HELLO, key="secret") as server:
        sent = post(BODY, path, headers) if "chat" in path else request("GET", path, headers)
        status, error = await told(server, sent)

    assert (status, error["error"]["code"]) == (401, "invalid_api_key")
    assert server.requests == []


async def test_the_right_key_passes_and_is_not_kept() -> None:
    async with ChatServer(HELLO, key="secret") as server:
        status, _ = await told(server, post(headers={"Authorization": "Bearer secret", "X-Mine": "1"}))

    assert status == 200
    assert server.requests[0].headers["x-mine"] == "1"
    assert "secret" not in repr(server.requests)


async def test_one_connection_serves_many_requests_also_when_they_come_at_once() -> None:
    keep = post(headers={"connection": "keep-alive"})

    async with ChatServer(HELLO) as server:
        wire = await connect(server)
        wire.send(keep + keep + post())
        await wire.over

    assert wire.heard.count(b"HTTP/1.1 200") == 3
    assert len(server.requests) == 3


async def test_a_client_that_asks_first_whether_to_send_is_told_to() -> None:
    sent = post(headers={"expect": "100-continue"})
    head, _, body = sent.partition(b"\r\n\r\n")

    async with ChatServer(HELLO) as server:
        wire = await connect(server)
        wire.send(head + b"\r\n\r\n")
        await wire.until(12)
        assert wire.heard.startswith(b"HTTP/1.1 100 ")
        wire.send(body)
        await wire.over

    assert b"HTTP/1.1 200" in wire.heard


async def test_old_requests_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.testing.chat_server.server.REQUESTS_KEPT_MAX", 3)

    async with ChatServer(HELLO) as server:
        for n in range(5):
            await exchange(server, post({**BODY, "user": str(n)}))

    assert [one.number for one in server.requests] == [3, 4, 5]


async def test_more_connections_than_may_be_are_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.testing.chat_server.server.CONNECTIONS_MAX", 1)

    async with ChatServer(HELLO) as server:
        await connect(server)
        second = await connect(server)
        await second.over

    assert second.heard == b""


async def test_at_its_end_nothing_of_the_server_is_left() -> None:
    before, clock, wires = asyncio.all_tasks(), ManualClock(), []

    async with ChatServer([{"text": "late", "delay_s": 1000}], clock=clock) as server:
        for sent in (b"", b"POST /v1/chat", post(), post(STREAM)):
            wires.append(await connect(server))
            wires[-1].send(sent)
        await timer_of(clock)
        url = server.url
    for wire in wires:
        await wire.over

    assert asyncio.all_tasks() == before
    assert url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        await connect(server)


SCRIPT = """
helper:
  - text: "Hello, {input}."
    faults: [{fault: status, status: 503, attempts: 1}]
"""


@contextlib.contextmanager
def process(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "agentos.testing.chat_server", *arguments]
    pipe = subprocess.PIPE
    env = {**os.environ, **environment}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_as_a_process_it_tells_its_url_serves_its_script_and_ends_by_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(SCRIPT)
    body = {**BODY, "model": "helper"}

    with process("--script", str(file), "--key-env", "A_KEY", A_KEY="k") as child:
        assert child.stdout is not None
        server = ChatServer(HELLO, port=int((url := child.stdout.readline().strip()).split(":")[2].split("/")[0]))
        sent = [post(one, headers={"authorization": "Bearer k"}) for one in (body, body, {**body, "n": 0})]
        answers = [await told(server, one) for one in sent]
        child.send_signal(number)
        out, err = child.communicate()

    assert url == f"http://127.0.0.1:{server.port}/v1"
    assert [status for status, _ in answers] == [503, 200, 400]
    assert answers[1][1]["choices"][0]["message"]["content"] == "Hello, go."
    assert (child.returncode, out) == (0, "")
    assert err == "request 3: n: Invalid 'n': 0 is below the minimum of 1.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--script", "nothing.yaml"], "nothing.yaml: the script cannot be read"),
        (["--script", "nothing.yaml", "--key-env", "NO_SUCH_KEY"], "the environment has no NO_SUCH_KEY"),
    ],
)
def test_as_a_process_it_says_in_one_line_what_it_lacks(arguments: Sequence[str], words: str) -> None:
    with process(*arguments) as child:
        out, err = child.communicate()

    assert (child.returncode, out) == (3, "")
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1
