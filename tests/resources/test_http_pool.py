"""A pool of HTTP connections: bounds per host and in all, a limit for each wait, and nothing left when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import msgspec
import pytest

from agentos.resources.kinds.http_pool import HTTP_POOL, HttpLimits
from agentos.resources.kinds.http_pool.client import HttpFailed, HttpPool
from agentos.resources.shared import Shared
from agentos.testing.leaks import leak_meter
from tests.support import until


class Doors(httpx.AsyncBaseTransport):
    """Answers each request when its door is opened. inside is who waits at a door, by the host's name."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.doors: list[asyncio.Event] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        door = asyncio.Event()
        self.inside.append(request.url.host)
        self.doors.append(door)
        await door.wait()
        return httpx.Response(200, text=request.url.path)

    async def aclose(self) -> None:
        self.closed = True


async def got(
    pool: HttpPool, url: str, *, idle_s: float = 60, first_s: float | None = None, total_s: float | None = None
) -> str:
    async with pool.request("GET", url, idle_s=idle_s, first_s=first_s, total_s=total_s) as answer:
        return await answer.text()


@asynccontextmanager
async def server(reply: bytes, *, hang: bool = False) -> AsyncIterator[str]:
    """A server on this machine that says these bytes to whoever asks; then it hangs up, or does not."""
    serving: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving[asyncio.current_task()] = writer  # type: ignore[index]
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # who asked has gone
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply)
            await writer.drain()
            if hang:
                await reader.read()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    finally:
        listening.close()
        for writer in serving.values():
            writer.close()
        await asyncio.gather(*serving)


async def test_one_host_gets_its_bound_and_others_are_not_held_up() -> None:
    doors = Doors()
    pool = HttpPool(HttpLimits(host_connections_max=2), doors)
    asked = [asyncio.ensure_future(got(pool, f"http://busy.example/{n}")) for n in range(4)]
    await until(lambda: len(doors.inside) == 2)
    asked.append(asyncio.ensure_future(got(pool, "http://other.example/")))
    await until(lambda: len(doors.inside) == 3)

    assert doors.inside == ["busy.example", "busy.example", "other.example"]
    assert [(said.host, said.used, said.waiting) for said in pool.hosts.statistics()] == [
        ("busy.example", 2, 2),
        ("other.example", 1, 0),
    ]
    for n in range(5):
        await until(lambda: len(doors.doors) > n)  # noqa: B023 - it is asked within this round
        doors.doors[n].set()
    assert await asyncio.gather(*asked) == ["/0", "/1", "/2", "/3", "/"]
    assert pool.hosts.statistics() == []
    await pool.close()


async def test_who_waits_for_a_host_is_served_in_turn_and_one_that_is_cancelled_leaves_no_trace() -> None:
    doors = Doors()
    pool = HttpPool(HttpLimits(host_connections_max=1), doors)
    asked = [asyncio.ensure_future(got(pool, f"http://busy.example/{n}")) for n in range(4)]
    await until(lambda: [said.waiting for said in pool.hosts.statistics()] == [3])
    asked[1].cancel()
    await asyncio.wait([asked[1]])
    for n, answer in enumerate([asked[0], asked[2], asked[3]]):
        await until(lambda: len(doors.doors) > n)  # noqa: B023 - it is asked within this round
        doors.doors[n].set()
        assert await answer == f"/{[0, 2, 3][n]}"

    assert pool.hosts.statistics() == []
    await pool.close()


async def test_a_host_that_stays_full_is_an_error_that_names_it_and_its_bound() -> None:
    doors = Doors()
    pool = HttpPool(HttpLimits(host_connections_max=1, pool_s=0.01), doors)
    first = asyncio.ensure_future(got(pool, "http://busy.example:81/"))
    await until(lambda: doors.doors)

    with pytest.raises(HttpFailed, match=r"all 1 connections to busy\.example:81 were in use for 0\.01 s") as failed:
        await got(pool, "http://busy.example:81/")
    assert failed.value.kind == "timeout"
    doors.doors[0].set()
    await first
    await pool.close()


async def test_an_answer_that_does_not_begin_and_one_that_does_not_end_have_limits_of_their_own() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab"
    async with leak_meter(), server(b"", hang=True) as silent, server(head, hang=True) as endless:
        pool = HttpPool()
        with pytest.raises(HttpFailed, match=r"no answer began within 0\.05 s") as first:
            await got(pool, silent, first_s=0.05)
        with pytest.raises(HttpFailed, match=r"nothing came for 0\.05 s") as idle:
            await got(pool, endless, idle_s=0.05)
        with pytest.raises(HttpFailed, match=r"the answer was not whole within 0\.05 s") as whole:
            await got(pool, endless, total_s=0.05)
        await pool.close()

    assert {failed.value.kind for failed in (first, idle, whole)} == {"timeout"}


async def test_a_timeout_of_the_asker_stays_the_askers() -> None:
    doors = Doors()
    pool = HttpPool(transport=doors)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await got(pool, "http://slow.example/", first_s=60, total_s=60)
    assert pool.hosts.statistics() == []
    await pool.close()


async def test_a_body_over_the_bound_is_an_error_that_names_it() -> None:
    pool = HttpPool(HttpLimits(response_bytes_max=3), httpx.MockTransport(lambda _: httpx.Response(200, text="four")))

    with pytest.raises(HttpFailed, match="more than 3 bytes") as failed:
        await got(pool, "http://large.example/")
    assert failed.value.kind == "too_large"
    await pool.close()


async def test_nothing_of_the_environment_changes_where_a_request_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") as url:
        pool = HttpPool()
        assert await got(pool, url) == "hi"
        await pool.close()


async def test_the_kind_is_lent_to_all_at_once_and_closed_with_its_resource() -> None:
    answered = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
    async with leak_meter(), server(answered, hang=True) as url:
        shared: Shared[HttpPool] = Shared(
            "web", HTTP_POOL.name, HTTP_POOL.pattern, HTTP_POOL.factory(connections_max=5)
        )
        async with shared.borrow() as one, shared.borrow() as two:
            assert one is two
            assert await got(one, url) == "hi"
        await shared.close()

        with pytest.raises(HttpFailed, match="closed"):
            await got(one, url)


def test_a_limit_that_there_is_not_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="connection_max"):
        HTTP_POOL.factory(connection_max=5)


async def test_a_request_that_is_cancelled_at_any_moment_leaves_no_trace_and_the_next_one_is_served() -> None:
    answered = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
    async with leak_meter(), server(answered, hang=True) as url:
        pool = HttpPool(HttpLimits(host_connections_max=1, connections_max=1))
        ended = 0
        for turns in range(60):
            asked = asyncio.ensure_future(got(pool, url))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
            ended += asked.cancelled()
            assert pool.hosts.statistics() == []
        assert ended > 5
        await pool.close()
        again = HttpPool()
        assert await got(again, url) == "hi"
        await again.close()
