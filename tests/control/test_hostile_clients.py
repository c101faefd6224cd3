"""Clients that mean harm, or are broken: each is dropped or refused by name, and the kernel serves the others."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import psutil
import pytest

from agentos.errors import ControlRefused
from agentos.kernel import Kernel
from agentos.kernel.control import SocketClient
from agentos.kernel.control.connection import Connection
from agentos.kernel.control.server import ControlServer
from tests.control.support import Raw, listening, path_of, until
from tests.support import Mind

IDLE_S = 0.5
"""Short, and longer than a busy machine takes from a connection to the first request on it."""


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    async with listening(tmp_path, control_line_bytes_max=4_096, control_requests_max=4) as kernel:
        yield kernel


async def serves(kernel: Kernel) -> bool:
    async with SocketClient(path_of(kernel)) as client:
        return bool(await client.begin("main"))


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b"null\n",
        b'{"id": "1", "word": "ps"}\n',
        b'{"id": -1, "word": "ps"}\n',
        b'{"id": 1, "word": "ps", "given": []}\n',
        b'{"id": 1, "word": "ps", "more": 1}\n',
        b'{"id": 1, "word": "ps", "given": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}\n",
        b"[" * 4_000 + b"\n",
        b'{"id": 1, "word": "ps", "given": {"listing": {"$int": "9"}}, "$text": "?"}\n',
    ],
)
async def test_garbage_is_refused_and_ends_the_connection(kernel: Kernel, garbage: bytes) -> None:
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        raw.send(garbage)
        (refused,) = await raw.ended()

    assert (refused["id"], refused["error"]["name"]) == (0, "ControlRefused")
    assert await serves(kernel)


async def test_a_line_over_the_bound_is_refused_before_it_is_whole(kernel: Kernel) -> None:
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        raw.send(b"x" * 5_000)
        (refused,) = await raw.ended()

    assert "control_line_bytes_max (4096 bytes)" in refused["error"]["words"]
    assert await serves(kernel)


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("__class__", {}),
    ("close", {}),
    ("send", {"id": 1, "text": "x"}),
    ("send", {"id": "x"}),
    ("send", {"id": "x", "text": "x", "nosuch": 1}),
    ("ps", {"listing": {"limit": "many"}}),
    ("control", {"id": "x", "control": "explode"}),
)


async def test_an_unknown_word_and_wrong_arguments_are_refused_by_name_and_the_connection_stays(
    kernel: Kernel,
) -> None:
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        refused = []
        for number, (word, given) in enumerate(WRONG, 1):
            raw.ask(number, word, **given)
            refused.append(await raw.line())
        raw.ask(100, "conversations")
        answered = await raw.line()

    assert {line["error"]["name"] for line in refused} == {"ControlRefused"}
    assert "'__class__'" in refused[0]["error"]["words"]
    assert "nosuch" in refused[4]["error"]["words"]
    assert answered == {"id": 100, "value": []}


async def test_a_listing_with_a_foreign_text_is_no_way_into_the_statement(kernel: Kernel) -> None:
    await kernel.begin("main")
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        raw.ask(1, "ps", listing={"agent": "x' or '1'='1", "sort": "started"})
        listed = await raw.line()
        raw.ask(2, "ps", listing={"sort": "n; drop table logs"})
        refused = await raw.line()

    assert listed["value"] == [[], 0]
    assert refused["error"]["name"] == "ControlRefused"


async def test_more_open_requests_than_the_bound_are_refused(kernel: Kernel) -> None:
    id_ = await kernel.begin("main")
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        for number in range(1, 6):
            raw.ask(number, "ask", id=id_, text="go")
        refused = await raw.line()
        raw.ask(0, "drop", id=1)
        await until(lambda: len(_connections(kernel)) == 1)
        raw.ask(0, "ping")
        await raw.line()
        raw.ask(6, "conversations")
        answered = await raw.line()

    assert (refused["id"], refused["error"]["name"]) == (5, "ControlRefused")
    assert "control_requests_max" in refused["error"]["words"]
    assert answered["value"] == [id_]


async def test_a_number_that_is_in_use_is_refused(kernel: Kernel) -> None:
    id_ = await kernel.begin("main")
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
        raw.ask(1, "ask", id=id_, text="go")
        raw.ask(1, "conversations")
        said = await raw.ended()

    assert said[-1]["id"] == 0
    assert "no number of a new request" in said[-1]["error"]["words"]


async def test_when_all_connections_are_taken_the_longest_idle_makes_room(tmp_path: Path) -> None:
    async with listening(tmp_path, control_connections_max=2) as kernel:
        path = path_of(kernel)
        async with Raw(path) as first, Raw(path) as second:
            await first.line()
            await second.line()
            first.ask(1, "conversations")
            await first.line()
            async with SocketClient(path) as third:
                assert await third.conversations() == []
                (last,) = await second.ended()
                assert "2 connections are open here (control_connections_max)" in last["error"]["words"]
                first.ask(2, "conversations")
                assert (await first.line())["id"] == 2


async def test_when_all_connections_have_requests_open_one_more_is_told_so(tmp_path: Path) -> None:
    async with listening(tmp_path, control_connections_max=2) as kernel:
        path, id_ = path_of(kernel), await kernel.begin("main")
        async with Raw(path) as first, Raw(path) as second:
            for raw in (first, second):
                await raw.line()
                raw.ask(1, "ask", id=id_, text="go")
            await until(lambda: all(one.idle_since is None for one in _connections(kernel)))
            with pytest.raises(ControlRefused, match="control_connections_max"):
                async with SocketClient(path):
                    pass


async def test_thousands_of_connections_leave_it_serving(tmp_path: Path) -> None:
    async with listening(tmp_path, control_connections_max=8) as kernel:
        before = psutil.Process().num_fds()
        for _ in range(10):
            crowd = [await asyncio.open_unix_connection(path_of(kernel)) for _ in range(200)]
            assert await serves(kernel)
            assert len(_connections(kernel)) <= 8
            for _, writer in crowd:
                writer.transport.abort()
        await until(lambda: not _connections(kernel))

        assert psutil.Process().num_fds() <= before + 2


async def test_half_a_request_ends_after_its_limit(tmp_path: Path) -> None:
    async with listening(tmp_path, control_line_s=0.05) as kernel, Raw(path_of(kernel)) as raw:
        await raw.line()
        raw.send(b'{"id": 1, "word"')
        (refused,) = await raw.ended()

        assert "not whole within 0.05 s" in refused["error"]["words"]


async def test_an_idle_connection_is_closed_and_one_that_waits_is_not(tmp_path: Path) -> None:
    async with listening(tmp_path, control_idle_s=IDLE_S) as kernel:
        id_ = await kernel.begin("main")
        async with Raw(path_of(kernel)) as idle, Raw(path_of(kernel)) as waiting:
            await waiting.line()
            waiting.ask(1, "ask", id=id_, text="go")
            await idle.line()

            assert await idle.ended() == []
            waiting.ask(2, "conversations")
            assert (await waiting.line())["id"] == 2


async def test_a_client_comes_back_after_its_connection_was_closed_for_idleness(tmp_path: Path) -> None:
    async with listening(tmp_path, control_idle_s=IDLE_S) as kernel, SocketClient(path_of(kernel)) as client:
        await until(lambda: not _connections(kernel))

        assert await client.conversations() == []


async def test_who_does_not_read_is_dropped_and_holds_up_nobody(tmp_path: Path) -> None:
    mind = Mind(*["x" * 200_000] * 10)
    limits = {"control_output_bytes_max": 1_024, "control_stall_s": 0.2}
    async with listening(tmp_path, mind, **limits) as kernel:
        id_ = await kernel.begin("main")
        for _ in range(10):
            await kernel.ask(id_, "go")
        async with Raw(path_of(kernel)) as deaf:
            deaf.writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(1, 9):
                deaf.ask(number, "history", id=id_)
            assert await serves(kernel)
            await until(lambda: len(_connections(kernel)) == 0)


async def test_who_does_not_read_holds_up_the_close_of_the_kernel_once_and_not_for_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_words = create_autospec(Connection._answer, side_effect=Connection._answer)
    monkeypatch.setattr(Connection, "_answer", last_words)
    monkeypatch.setattr("agentos.kernel.control.connection.FLUSH_S", 0.1)
    async with listening(tmp_path, Mind("x" * 1_000_000), control_output_bytes_max=1_024) as kernel:
        id_ = await kernel.begin("main")
        await kernel.ask(id_, "go")
        async with Raw(path_of(kernel)) as deaf:
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(1, 9):
                deaf.ask(number, "history", id=id_)
            await until(lambda: [(len(one._requests), one._unread > 0) for one in _connections(kernel)] == [(8, True)])
            await kernel.close(0)

    assert last_words.await_count == 1


async def test_who_reads_slowly_gets_everything(tmp_path: Path) -> None:
    mind = Mind("x" * 1_000_000)
    async with listening(tmp_path, mind, control_output_bytes_max=1_024) as kernel:
        id_ = await kernel.begin("main")
        await kernel.ask(id_, "go")
        async with Raw(path_of(kernel)) as slow:
            slow.ask(1, "history", id=id_)
            read = b""
            while not read.endswith(b'{"id":1}\n'):
                await asyncio.sleep(0.02)
                read += await slow.reader.read(60_000)

        assert len(read.splitlines()) == 1 + len(await kernel.history(id_)) + 1


async def test_another_user_is_sent_away(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    user = os.geteuid()
    async with Raw(path_of(kernel)) as raw:
        await raw.line()
    monkeypatch.setattr("agentos.kernel.control.server.credentials_of", lambda _: (1, user + 1))
    async with Raw(path_of(kernel)) as raw:
        assert await raw.ended() == []

    assert f"user {user + 1} asked" in caplog.text


async def test_a_fault_of_the_kernel_names_its_type_and_no_text(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(kernel, "conversations", broken)
    async with SocketClient(path_of(kernel)) as client:
        with pytest.raises(ControlRefused, match="ZeroDivisionError") as raised:
            await client.conversations()

    assert "a secret" not in str(raised.value)
    assert "a secret" in caplog.text


def _connections(kernel: Kernel) -> list[Connection]:
    assert isinstance(kernel._door, ControlServer)
    return list(kernel._door._connections)
