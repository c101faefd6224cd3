"""Lets a running script call other tools of its agent, over a Unix socket.

A script that asks for it (`"portal": true`) finds AGENTOS_PORTAL, the path of a socket, and AGENTOS_PORTAL_TOKEN in its
environment. It writes a line of JSON for each call, and reads one for each, in that order:

    {"token": ..., "tool": "find_text", "arguments": {"text": "tool"}}
    {"status": "done", "kind": null, "text": "words.py:7: ...", "call": "call_..."}

status is that of a call (done, failed, denied, ...); a request that never became a call has the status `refused`, a kind
and no call. Calls at the same time take a connection each. `agentos tool call NAME` does all this from any language.

A call made here is one of the agent's own: grants, policies, approvals and lineage hold as for the model's calls. The
token is good until the script's own call ends, which cancels what it still asks. The socket stands in a folder that
nobody else may enter, and goes with the toolbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from agentos.errors import AgentosError
from agentos.ports import InnerResult

SOCKET = "AGENTOS_PORTAL"
TOKEN = "AGENTOS_PORTAL_TOKEN"
_ADDRESS_BYTES_MAX = 100
"""The system takes no longer address for a socket than 107 bytes, or 103 on some."""
_log = logging.getLogger(__name__)


class PortalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a portal. How long a call may take is said by the limits of its tool and of the script's own call.

    calls_max: calls at once for one script. request_bytes: one line. connections_max: over all scripts. idle_s: how long a
    connection may stay silent between its requests.
    """

    calls_max: int = 8
    request_bytes: int = 1024 * 1024
    connections_max: int = 64
    idle_s: float = 60.0


CallTool = Callable[[str, dict[str, Any]], Awaitable[InnerResult]]
"""Calls a tool with arguments for a script's own call: see `CallContext.call`."""


class _Request(msgspec.Struct):
    token: str
    tool: str
    arguments: dict[str, Any] = {}


class _Reply(msgspec.Struct):
    status: str
    text: str
    kind: str | None = None
    call: str | None = None


class _Visit:
    """One call of a script that may use the portal, and what it is asking now."""

    def __init__(self, token: str, call_tool: CallTool) -> None:
        self.token, self.call_tool = token, call_tool
        self.asked: set[asyncio.Future[_Reply]] = set()


class Portal:
    """The socket of one toolbox, made when the first script needs it. It belongs to one event loop."""

    def __init__(self, limits: PortalLimits | None = None) -> None:
        self._limits = limits or PortalLimits()
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._visits: list[_Visit] = []
        self._connections: set[asyncio.Future[None]] = set()
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def lend(self, call_tool: CallTool) -> AsyncIterator[dict[str, str]]:
        """The variables for one script, good for the length of the block. Raises OSError when no socket can be made."""
        async with self._opening:
            path = await self._open()
        visit = _Visit(secrets.token_urlsafe(24), call_tool)
        self._visits.append(visit)
        try:
            yield {SOCKET: str(path), TOKEN: visit.token}
        finally:
            self._visits.remove(visit)
            await _cancelled(visit.asked)

    async def close(self) -> None:
        """Takes no more, cancels what is asked, and removes the socket."""
        async with self._opening:
            if self._server is not None:
                self._server.close()
                self._server = None
            await _cancelled([task for visit in self._visits for task in visit.asked])
            await _cancelled(self._connections)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    async def _open(self) -> Path:
        if self._folder is None:
            self._folder = _private_folder()
        path = self._folder / "portal"
        if self._server is None:
            listener = socket.socket(socket.AF_UNIX)
            try:
                listener.bind(str(path))
                path.chmod(0o600)
                self._server = await asyncio.start_unix_server(
                    self._connected, sock=listener, limit=self._limits.request_bytes
                )
            except OSError:
                listener.close()
                raise
        return path

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > self._limits.connections_max:
                await _answer(writer, _refused("busy", f"{self._limits.connections_max} connections are open; wait"))
            else:
                await self._converse(reader, writer)
        except (ConnectionError, TimeoutError) as error:
            _log.debug("a connection to the portal ended: %s", type(error).__name__)
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after the other, until the script hangs up or is silent for too long."""
        while True:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    line = await reader.readline()
            except ValueError:
                await _answer(writer, _refused("invalid", f"a request is over {self._limits.request_bytes:,} bytes"))
                return
            if not line:
                return
            await _answer(writer, await self._ask(line))

    async def _ask(self, line: bytes) -> _Reply:
        try:
            request = msgspec.json.decode(line, type=_Request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _refused("invalid", f"a request is one line of JSON with token, tool and arguments: {error}")
        visit = self._visit(request.token)
        if visit is None:
            return _refused("ended", "the token is not that of a running call")
        if len(visit.asked) >= self._limits.calls_max:
            return _refused("busy", f"{len(visit.asked)} calls of this script are running; wait for one of them")
        task = asyncio.ensure_future(_called(visit.call_tool, request))
        visit.asked.add(task)
        try:
            await asyncio.wait([task])  # not the task itself: cancelled with the script's call, it is no error here
        finally:
            visit.asked.discard(task)
            task.cancel()
        return _refused("ended", "the script's own call has ended") if task.cancelled() else task.result()

    def _visit(self, token: str) -> _Visit | None:
        given = token.encode()
        return next((visit for visit in self._visits if hmac.compare_digest(visit.token.encode(), given)), None)


async def _called(call_tool: CallTool, request: _Request) -> _Reply:
    try:
        inner = await call_tool(request.tool, request.arguments)
    except AgentosError as error:  # too many calls, or arguments that cannot be kept
        return _refused("refused", str(error))
    return _Reply(inner.status.value, inner.text, inner.kind, inner.call)


async def _answer(writer: asyncio.StreamWriter, reply: _Reply) -> None:
    writer.write(_encoded(reply) + b"\n")
    await writer.drain()


def _encoded(reply: _Reply) -> bytes:
    try:
        return msgspec.json.encode(reply)
    except UnicodeEncodeError:  # a result may hold half of a surrogate pair
        reply.text = reply.text.encode("utf-8", "replace").decode()
        return msgspec.json.encode(reply)


async def _cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)


def _refused(kind: str, text: str) -> _Reply:
    return _Reply("refused", text, kind)


def _private_folder() -> Path:
    """A new folder that only this user may enter, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="agentos-"))
    if len(os.fsencode(folder / "portal")) <= _ADDRESS_BYTES_MAX:
        return folder
    with contextlib.suppress(OSError):
        folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="agentos-", dir="/tmp"))
