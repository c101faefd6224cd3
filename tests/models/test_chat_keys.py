"""Which key goes to which address, and that nobody sees it; S24."""

from __future__ import annotations

import asyncio
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentos.definitions import AgentSpec
from agentos.definitions.spec import ModelUse
from agentos.errors import ConfigurationError, ModelError
from agentos.ids import Name
from agentos.kernel import Kernel
from agentos.models.openai_chat import OpenAIChat
from tests.models.chat_support import Answer, Server, chat, delta, json_answer, request, streamed
from tests.support import key_file

CANARY = "sk-canary-51e7a0c2"
HELLO = streamed(delta("stop", content="Hello"))
LOCAL = "http://127.0.0.1:11434/v1"


async def sent(**more: Any) -> httpx.Request:
    """The request that a model with these options sends."""
    server = Server(HELLO)
    model = chat(server, **more)
    try:
        await model.complete(request(), lambda piece: None)
    finally:
        await model.close()
    return server.requests[0]


async def authorization(**more: Any) -> str | None:
    headers: httpx.Headers = (await sent(**more)).headers
    return str(headers["authorization"]) if "authorization" in headers else None


async def test_the_environment_says_address_and_key_when_the_file_does_not() -> None:
    environ = {"OPENAI_API_KEY": " k1\n", "OPENAI_BASE_URL": "https://proxy.example/v1/"}

    asked = await sent(base_url=None, environ=environ)

    assert str(asked.url) == "https://proxy.example/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k1"


async def test_without_any_address_it_is_openais_own() -> None:
    asked = await sent(base_url=None, environ={"OPENAI_API_KEY": "k1", "OPENAI_BASE_URL": " "})

    assert str(asked.url) == "https://api.openai.com/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k1"


async def test_the_file_goes_before_the_environment() -> None:
    environ = {"OPENAI_BASE_URL": "https://proxy.example", "OPENAI_API_KEY": "k1", "MINE": "k2"}

    asked = await sent(environ=environ, api_key="env:MINE")

    assert str(asked.url) == "https://chat.example/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer k2"


async def test_an_override_goes_before_all_and_keeps_the_query() -> None:
    asked = await sent(
        override="http://127.0.0.1:9/v2?api-version=1#x", environ={"OPENAI_BASE_URL": "https://proxy.example"}
    )

    assert str(asked.url) == "http://127.0.0.1:9/v2/chat/completions?api-version=1"


async def test_an_address_that_is_whole_already_is_not_doubled() -> None:
    asked = await sent(base_url="https://chat.example/v1/chat/completions")

    assert str(asked.url) == "https://chat.example/v1/chat/completions"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"base_url": "https://foreign.example/v1"}, None),
        ({"base_url": LOCAL}, "Bearer k1"),
        ({"base_url": "https://foreign.example/v1", "override": "https://mine.example"}, "Bearer k1"),
        ({"base_url": "https://foreign.example/v1", "api_key": "env:OPENAI_API_KEY"}, "Bearer k1"),
        ({"base_url": "https://api.openai.com.evil.example/v1"}, None),
        ({"base_url": "http://api.openai.com/v1"}, None),
        ({"base_url": "https://API.openai.com/v1/"}, "Bearer k1"),
        ({"base_url": "https://eu.api.openai.com/v1"}, "Bearer k1"),
    ],
)
async def test_the_key_of_the_environment_goes_to_no_address_that_a_file_alone_names(
    options: dict[str, Any], expected: str | None
) -> None:
    assert await authorization(environ={"OPENAI_API_KEY": "k1"}, **options) == expected


async def test_openai_without_a_key_is_not_asked_at_all() -> None:
    server = Server(HELLO)
    model = chat(server, base_url=None)

    with pytest.raises(ModelError, match="nothing was sent: no key: set OPENAI_API_KEY, or give") as raised:
        await model.complete(request(), lambda piece: None)
    await model.close()

    assert raised.value.kind == "auth"
    assert server.requests == []


async def test_a_key_is_found_in_a_key_file(tmp_path: Path) -> None:
    keys = [key_file(tmp_path / "keys.json", kimi="k3")]

    assert await authorization(api_key="key:kimi", keys=keys) == "Bearer k3"


@pytest.mark.parametrize("host", ["127.0.0.1:11434", "localhost:11434", "[::1]:11434", "127.8.8.8"])
async def test_a_server_on_this_machine_needs_no_key_that_its_file_names(host: str, tmp_path: Path) -> None:
    asked = await sent(base_url=f"http://{host}/v1", api_key="key:ollama", keys=[tmp_path / "none.json"])

    assert "authorization" not in asked.headers


async def test_a_missing_key_of_another_machine_names_id_and_files(tmp_path: Path) -> None:
    keys = [key_file(tmp_path / "one.json", other=CANARY), key_file(tmp_path / "two.json")]

    with pytest.raises(ModelError) as raised:
        await sent(api_key="key:kimi", keys=keys)

    assert raised.value.kind == "auth"
    assert "chat.example: nothing was sent: no key 'kimi' in" in str(raised.value)
    assert str(keys[0]) in str(raised.value)
    assert str(keys[1]) in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("reference", ["env:NOT_SET", "file:not-there", "command:no-such-program-at-all"])
@pytest.mark.parametrize("url", [LOCAL, "https://chat.example/v1"])
async def test_a_reference_that_cannot_be_resolved_is_an_error_everywhere(reference: str, url: str) -> None:
    with pytest.raises(ModelError, match=reference) as raised:
        await sent(api_key=reference, base_url=url)

    assert raised.value.kind == "auth"


async def test_headers_may_hold_references(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")

    asked = await sent(headers={"X-Title": "tests", "X-Token": "file:token"}, base=tmp_path)

    assert (asked.headers["x-title"], asked.headers["x-token"]) == ("tests", "t1")


async def test_a_header_of_the_file_replaces_the_key() -> None:
    environ = {"OPENAI_API_KEY": "k1", "TOKEN": "Basic abc"}

    assert await authorization(base_url=None, environ=environ, headers={"Authorization": "env:TOKEN"}) == "Basic abc"


async def test_a_key_is_resolved_once_and_again_after_it_was_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server = Server(HELLO, HELLO, json_answer({"error": {"message": "expired"}}, 401), HELLO)
    model = chat(server, api_key="file:token", base=tmp_path)

    for _ in range(2):
        await model.complete(request(), lambda piece: None)
        token.write_text("new")
    with pytest.raises(ModelError, match="expired"):
        await model.complete(request(), lambda piece: None)
    await model.complete(request(), lambda piece: None)
    await model.close()

    assert [one.headers["authorization"] for one in server.requests] == ["Bearer old"] * 3 + ["Bearer new"]


async def test_many_requests_at_once_run_the_program_of_a_key_once(tmp_path: Path) -> None:
    program = tmp_path / "key"
    program.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho k9\n")
    program.chmod(0o755)
    server = Server(HELLO)
    model = chat(server, api_key=f"command:{program}")

    await asyncio.gather(*[model.complete(request(), lambda piece: None) for _ in range(8)])
    await model.close()

    assert {one.headers["authorization"] for one in server.requests} == {"Bearer k9"}
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_cookies_and_proxies_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    server = Server(Answer(pieces=HELLO.pieces, headers={**HELLO.headers, "set-cookie": "id=1; Path=/"}))
    model = chat(server)

    await model.complete(request(), lambda piece: None)
    await model.complete(request(), lambda piece: None)
    await model.close()

    assert "cookie" not in server.requests[1].headers


ECHO = f"wrong key {CANARY}: see ..."


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"error": {"message": ECHO}}, 401),
        json_answer({"error": {"message": ECHO, "code": CANARY}}, 500),
        Answer(pieces=[ECHO.encode()], status=400),
        Answer(status=302, headers={"location": f"https://other.example/{CANARY}"}),
        streamed({"error": {"message": ECHO}}),
        json_answer({"error": ECHO}),
        httpx.ConnectError(ECHO),
    ],
)
async def test_s24_a_key_that_the_server_repeats_is_covered(answer: Answer | Exception) -> None:
    model = chat(Server(answer), api_key="env:KEY", environ={"KEY": CANARY})

    with pytest.raises(ModelError) as raised:
        await model.complete(request(), lambda piece: None)
    await model.close()

    assert CANARY not in str(raised.value)
    assert CANARY not in repr(model)
    assert "***" in str(raised.value)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX-Injected: 1", f"{CANARY}é", f"{CANARY}\x00"])
async def test_s24_a_key_that_no_header_can_carry_is_refused_unseen(value: str) -> None:
    with pytest.raises(ModelError, match="env:KEY: the secret there holds a line break") as raised:
        await sent(api_key="env:KEY", environ={"KEY": value})

    assert CANARY not in "".join(traceback.format_exception(raised.value))


def agent(**options: Any) -> AgentSpec:
    return AgentSpec(slug="main", model=ModelUse(kind="openai", name="m", options=options), model_attempts=1)


async def test_s24_no_key_is_in_the_store_the_outcome_or_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    path = tmp_path / "store.db"
    server = Server(HELLO, json_answer({"error": {"message": ECHO}}, 401), streamed({"error": {"message": ECHO}}))
    model = chat(server, environ={"KEY": CANARY}, api_key="env:KEY")

    async with Kernel(f"sqlite:///{path}") as kernel:
        await kernel.install(agent(api_key="env:KEY", base_url="https://chat.example/v1"), model=model)
        conversation = await kernel.start("main")
        outcomes = [await conversation.ask("hello") for _ in range(3)]
        definitions = (await kernel.query("select body from definitions")).rows

    with closing(sqlite3.connect(path)) as db, db:
        dump = "\n".join(db.iterdump())
    assert [str(outcome) for outcome in outcomes] == ["completed", "failed(model:auth)", "failed(model:overloaded)"]
    assert [one.headers["authorization"] for one in server.requests] == [f"Bearer {CANARY}"] * 3
    assert any("env:KEY" in str(row) for row in definitions), "the reference is kept"
    for what in (dump, str(outcomes), caplog.text, path.read_bytes().decode("latin-1")):
        assert CANARY not in what


async def test_s24_an_agent_that_holds_a_key_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Kernel(f"sqlite:///{path}") as kernel:
        with pytest.raises(ConfigurationError, match="option 'api_key': a reference to a secret is needed") as raised:
            await kernel.install(agent(api_key=CANARY))
        assert CANARY not in str(raised.value)

    assert CANARY.encode() not in path.read_bytes()


async def test_the_kernel_hands_keys_and_address_to_its_models(tmp_path: Path) -> None:
    keys = [key_file(tmp_path / "keys.json", mine="k5")]
    spec = agent(api_key="key:mine")

    async with Kernel("memory:", keys=keys, base_url="http://127.0.0.1:9/v1") as kernel:
        await kernel.install(spec)
        kernel.check()
        model = kernel.catalog.models.of(Name(spec.slug), spec.model_ref)

    assert isinstance(model, OpenAIChat)
    assert repr(model) == "OpenAIChat('m' at 127.0.0.1:9)"


async def test_a_wrong_option_is_told_by_check_and_not_by_the_first_turn() -> None:
    async with Kernel("memory:") as kernel:
        await kernel.install(agent(flavor="Kimmi"))
        with pytest.raises(ConfigurationError, match="no flavor is called 'Kimmi'"):
            kernel.check()
