"""The one module that knows httpx: requests out, bytes and events of a stream in, every wait and size bounded.

Nothing of the environment changes where a request goes (no proxies, no netrc), no redirect is followed, no cookie kept.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import cast

import httpx
from httpx_sse import EventSource

from agentos.errors import AgentosError
from agentos.resources.kinds.http_pool.hosts import HostFull, Hosts
from agentos.resources.kinds.http_pool.limits import HttpLimits

__all__ = ["Answer", "HttpFailed", "HttpPool", "Transport"]

Transport = httpx.AsyncBaseTransport
"""What carries requests; a test gives one of its own."""

BOM = b"\xef\xbb\xbf"


class HttpFailed(AgentosError):
    """No answer, or none that is whole.

    kind: network before there was an answer; cut in the middle of one; timeout; too_large; not_utf8; invalid for a
    request that cannot be sent at all.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class HttpPool:
    """Connections to any hosts, opened when they are needed and kept for the next request; `close` ends them.

    At most connections_max at once, and host_connections_max to one host; who waits for one is served in turn.
    """

    def __init__(self, limits: HttpLimits | None = None, transport: Transport | None = None) -> None:
        self._limits, self._transport = limits or HttpLimits(), transport
        self.hosts = Hosts(self._limits.host_connections_max, self._limits.pool_s)
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        idle_s: float,
        first_s: float | None = None,
        total_s: float | None = None,
    ) -> AsyncIterator[Answer]:
        """Sends a request and gives its answer as soon as the status and headers of it are there.

        idle_s bounds the wait for these, and between two pieces of the body; first_s bounds it from the begin of the
        request, the wait for a connection included; total_s the whole block. Raises HttpFailed.
        """
        limits = self._limits
        timeout = httpx.Timeout(connect=limits.connect_s, read=idle_s, write=limits.write_s, pool=limits.pool_s)
        answered = False
        whole, first = asyncio.timeout(total_s), asyncio.timeout(first_s)
        try:
            async with whole, AsyncExitStack() as stack:
                async with first:
                    client = self._open()
                    await stack.enter_async_context(self.hosts.connection(httpx.URL(url).netloc.decode("ascii")))
                    asked = client.stream(method, url, content=body, headers=headers, timeout=timeout)
                    response = await stack.enter_async_context(asked)
                answered = True
                yield Answer(response, limits)
        except HostFull as error:
            raise HttpFailed("timeout", str(error)) from error
        except httpx.TimeoutException as error:
            raise HttpFailed("timeout", _waited(error, limits, idle_s)) from error
        except TimeoutError as error:
            if whole.expired():
                raise HttpFailed("timeout", f"the answer was not whole within {total_s:g} s") from error
            if first.expired():
                raise HttpFailed("timeout", f"no answer began within {first_s:g} s") from error
            raise
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise HttpFailed("invalid", _words(error)) from error
        except httpx.HTTPError as error:
            raise HttpFailed("cut" if answered else "network", _words(error)) from error

    async def close(self) -> None:
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._closed:
            raise HttpFailed("network", "the client is closed")
        if self._client is None:
            limits = self._limits
            self._client = httpx.AsyncClient(
                verify=_trusted(),
                trust_env=False,
                follow_redirects=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                transport=self._transport,
                limits=httpx.Limits(
                    max_connections=limits.connections_max,
                    max_keepalive_connections=limits.keepalive_max,
                    keepalive_expiry=limits.keepalive_s,
                ),
                # Unpacking could make a small answer a huge one before it is counted.
                headers={"accept-encoding": "identity", "user-agent": "agentos"},
            )
        return self._client


class Answer:
    """One answer. headers have lower-case names. The body is read once, by one of its three readers."""

    def __init__(self, response: httpx.Response, limits: HttpLimits) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._limits = response, limits

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def error_body(self) -> bytes:
        """The beginning of the body of an error, error_bytes_max at most; what there is of a body that breaks off."""
        read = bytearray()
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    read += piece
                    if len(read) >= self._limits.error_bytes_max:
                        break
        except httpx.HTTPError:
            if not read:
                raise
        return bytes(read[: self._limits.error_bytes_max])

    async def text(self) -> str:
        """The whole body as text. Raises HttpFailed when it is no UTF-8."""
        async with aclosing(self._checked()) as pieces:
            return b"".join([piece async for piece in pieces]).decode()

    async def events(self) -> AsyncGenerator[str, None]:
        """The data of each server-sent event that has some. Raises HttpFailed when it is no UTF-8.

        A last event without the empty line after it counts: what is cut shows in what it holds.
        """
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        async with aclosing(self._checked()) as pieces:
            response = httpx.Response(200, headers=headers, stream=_Stream(pieces))
            async with aclosing(EventSource(response).aiter_sse()) as events:
                async for event in events:
                    if event.data.strip():
                        yield event.data

    def _pieces(self) -> AsyncGenerator[bytes, None]:
        return cast(AsyncGenerator[bytes, None], self._response.aiter_bytes())

    async def _checked(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces of whole characters, without a byte order mark, counted."""
        async with aclosing(self._counted()) as pieces:
            rest, offset, first = b"", 0, True
            async for piece in pieces:
                whole, rest, bad = _split(rest + piece)
                offset += len(whole)
                yield whole.removeprefix(BOM) if first else whole
                first = first and not whole
                if bad is not None:
                    raise HttpFailed("not_utf8", f"byte 0x{bad:02x} at offset {offset} of the answer is not UTF-8")
            if rest:
                raise HttpFailed("not_utf8", f"the answer ends in the middle of a character, at offset {offset}")

    async def _counted(self) -> AsyncGenerator[bytes, None]:
        read = 0
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                read += len(piece)
                if read > self._limits.response_bytes_max:
                    most = self._limits.response_bytes_max
                    raise HttpFailed("too_large", f"the answer has more than {most:,} bytes (response_bytes_max)")
                yield piece


class _Stream(httpx.AsyncByteStream):
    """A stream for the event parser, ended with an empty line."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece
        yield b"\n\n"


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Whom we trust, read once: a new context for each pool takes tens of milliseconds, and megabytes."""
    return httpx.create_ssl_context(trust_env=False)


def _split(data: bytes) -> tuple[bytes, bytes, int | None]:
    """Whole characters, the beginning of one that goes on, and the first byte that can be part of none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        unfinished = error.end == len(data) and error.reason == "unexpected end of data"
        rest = data[error.start :]
        return data[: error.start], rest if unfinished else b"", None if unfinished else rest[0]
    return data, b"", None


def _waited(error: httpx.TimeoutException, limits: HttpLimits, idle_s: float) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {limits.connect_s:g} s"
    if isinstance(error, httpx.WriteTimeout):
        return f"the request was not taken within {limits.write_s:g} s"
    if isinstance(error, httpx.PoolTimeout):
        return f"all {limits.connections_max} connections were in use for {limits.pool_s:g} s"
    return f"nothing came for {idle_s:g} s"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
