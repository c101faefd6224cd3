"""The portal: a running script calls other tools of its agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.components import CallStatus
from agentos.errors import ToolError
from agentos.ids import CallId, Name
from agentos.ports import InnerResult
from agentos.toolboxes.base import Failed
from agentos.toolboxes.script import ScriptToolbox
from agentos.toolboxes.script.portal import Portal, PortalLimits
from tests.processes import new_processes, own_children
from tests.support import until
from tests.toolboxes.conftest import CallOf

Write = Callable[..., Path]


class Calling(CallOf):
    """A call whose inner calls are answered by a function of tool and arguments; one that hangs is counted."""

    def __init__(self, key: str = "call_of_a_test_7") -> None:
        super().__init__(key)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.running = self.cancelled = 0

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        self.asked.append((tool, arguments))
        if tool == "too_many":
            raise ToolError("a turn makes at most 3 calls (call_limit)")
        if tool == "hang":
            await self._hang()
        status, kind = (CallStatus.DENIED, Name("policy")) if tool == "forbidden" else (CallStatus.DONE, None)
        return InnerResult(call=CallId("call_inner_9"), status=status, text=f"{tool} said {arguments}", kind=kind)

    async def _hang(self) -> None:
        self.running += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.running -= 1
            self.cancelled += 1


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a process, a descriptor or a socket."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before, children = set(os.listdir("/proc/self/fd")), own_children()
    yield
    assert new_processes(children) == []
    assert set(os.listdir("/proc/self/fd")) - before == set()
    assert list(folder.iterdir()) == []


@pytest.fixture
async def portal() -> AsyncIterator[Portal]:
    portal = Portal(PortalLimits(calls_max=2, request_bytes=1_000, connections_max=4))
    yield portal
    await portal.close()


class Line:
    """One connection to a portal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, variables: dict[str, str]) -> Line:
        return cls(*await asyncio.open_unix_connection(variables["AGENTOS_PORTAL"]))

    def send(self, **request: Any) -> None:
        self.send_bytes(json.dumps(request).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def reply(self) -> Any:
        """None when the portal has hung up."""
        with contextlib.suppress(ConnectionError):
            if line := await self._reader.readline():
                return json.loads(line)
        return None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def ask(variables: dict[str, str], tool: str, **more: Any) -> Any:
    line = await Line.to(variables)
    line.send(token=variables["AGENTOS_PORTAL_TOKEN"], tool=tool, **more)
    reply = await line.reply()
    await line.close()
    return reply


async def test_a_request_becomes_an_inner_call_and_its_end_the_reply(portal: Portal) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        done = await ask(variables, "find", arguments={"text": "tool"})
        bare = await ask(variables, "now")
        denied = await ask(variables, "forbidden")
        refused = await ask(variables, "too_many")

    assert done == {"status": "done", "kind": None, "text": "find said {'text': 'tool'}", "call": "call_inner_9"}
    assert bare["text"] == "now said {}"
    assert (denied["status"], denied["kind"]) == ("denied", "policy")
    text = "a turn makes at most 3 calls (call_limit)"
    assert refused == {"status": "refused", "kind": "refused", "text": text, "call": None}


async def test_a_connection_takes_one_request_after_the_other(portal: Portal) -> None:
    async with portal.lend(Calling().call) as variables:
        line = await Line.to(variables)
        for tool in ("a", "b"):
            line.send(token=variables["AGENTOS_PORTAL_TOKEN"], tool=tool)
        texts = [(await line.reply())["text"] for _ in range(2)]
        await line.close()

    assert texts == ["a said {}", "b said {}"]


async def test_only_its_user_may_reach_the_socket_and_a_token_is_good_for_one_call(portal: Portal) -> None:
    first, second = Calling("call_first_1"), Calling("call_second_1")
    async with portal.lend(first.call) as variables, portal.lend(second.call) as others:
        path = Path(variables["AGENTOS_PORTAL"])
        modes = [stat.S_IMODE(os.stat(place).st_mode) for place in (path, path.parent)]
        await ask(others, "find")

    assert modes == [0o600, 0o700]
    assert variables["AGENTOS_PORTAL_TOKEN"] != others["AGENTOS_PORTAL_TOKEN"]
    assert (first.asked, second.asked) == ([], [("find", {})])


async def test_a_token_is_worth_nothing_once_its_call_has_ended(portal: Portal) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        pass
    async with portal.lend(Calling().call):
        late = await ask(variables, "find")
        guessed = await ask({**variables, "AGENTOS_PORTAL_TOKEN": ""}, "find")

    assert late["kind"] == guessed["kind"] == "ended"
    assert context.asked == []


async def test_the_end_of_a_call_cancels_what_it_still_asks(portal: Portal) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        asking = asyncio.create_task(ask(variables, "hang"))
        await until(lambda: context.running)

    assert context.cancelled == 1
    assert (await asking)["kind"] == "ended"


async def test_closing_cancels_what_is_asked_and_removes_the_socket(portal: Portal) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        line = await Line.to(variables)
        line.send(token=variables["AGENTOS_PORTAL_TOKEN"], tool="hang")
        await until(lambda: context.running)
        await portal.close()

        assert context.cancelled == 1
        assert not Path(variables["AGENTOS_PORTAL"]).parent.exists()
        await line.reply()
        await line.close()


async def test_calls_at_once_and_connections_are_bounded(portal: Portal) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        hanging = [asyncio.create_task(ask(variables, "hang")) for _ in range(2)]
        await until(lambda: context.running == 2)
        third = await ask(variables, "find")
        idle = [await Line.to(variables) for _ in range(2)]
        await until(lambda: len(portal._connections) == 4)
        fifth = await Line.to(variables)
        refused = await fifth.reply()
        for line in (*idle, fifth):
            await line.close()
    await asyncio.gather(*hanging)

    assert (third["kind"], third["text"]) == ("busy", "2 calls of this script are running; wait for one of them")
    assert (refused["kind"], refused["text"]) == ("busy", "4 connections are open; wait")
    assert ("find", {}) not in context.asked


@pytest.mark.parametrize(
    ("line", "hangs_up"),
    [
        (b"find text\n", False),
        (b"[]\n", False),
        (b'{"token": "t"}\n', False),
        (b'{"token": "t", "tool": "find", "arguments": [1]}\n', False),
        (b'{"token": "\xff"}\n', False),
        (b"[" * 900 + b"\n", False),
        (b"x" * 2_000 + b"\n", True),
    ],
    ids=["words", "list", "no tool", "list of arguments", "no UTF-8", "deep", "long"],
)
async def test_what_is_no_request_is_refused_and_harms_nobody(portal: Portal, line: bytes, hangs_up: bool) -> None:
    context = Calling()
    async with portal.lend(context.call) as variables:
        connection = await Line.to(variables)
        connection.send_bytes(line)
        refused = await connection.reply()
        connection.send(token=variables["AGENTOS_PORTAL_TOKEN"], tool="find")
        after = await connection.reply()
        await connection.close()
        other = await ask(variables, "find")

    assert (refused["status"], refused["kind"], refused["call"]) == ("refused", "invalid", None)
    assert (after is None) is hangs_up
    assert other["status"] == "done"


async def test_a_text_with_half_a_surrogate_pair_arrives_with_a_mark_in_its_place(portal: Portal) -> None:
    async def odd(tool: str, arguments: dict[str, Any]) -> InnerResult:
        return InnerResult(call=CallId("call_inner_9"), status=CallStatus.DONE, text="a\ud800b")

    async with portal.lend(odd) as variables:
        assert (await ask(variables, "odd"))["text"] == "a?b"


async def test_a_deep_folder_for_temporary_files_does_not_make_the_address_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    portal = Portal()

    async with portal.lend(Calling().call) as variables:
        assert (await ask(variables, "find"))["status"] == "done"
    await portal.close()

    assert list(deep.iterdir()) == []
    assert not Path(variables["AGENTOS_PORTAL"]).parent.exists()


ASK = (
    f"""'{sys.executable}' - "$1" <<'END'"""
    """
import json, os, socket, sys
portal = socket.socket(socket.AF_UNIX)
portal.connect(os.environ["AGENTOS_PORTAL"])
request = {"token": os.environ["AGENTOS_PORTAL_TOKEN"], "tool": sys.argv[1], "arguments": {"n": 1}}
portal.sendall(json.dumps(request).encode() + b"\\n")
print(json.loads(portal.makefile().readline())["text"])
END
"""
)
TOOL = [
    {
        "name": "tool",
        "description": "which",
        "type": "string",
        "backing_type": "string",
        "arity": "single",
        "mode": "positional",
    }
]


async def test_a_script_that_asks_for_a_portal_calls_tools_and_one_that_does_not_has_none(
    script: Write, tmp_path: Path
) -> None:
    script("asking", ASK, TOOL, portal=True)
    script("plain", 'echo "${AGENTOS_PORTAL-none} ${AGENTOS_PORTAL_TOKEN-none}"')
    toolbox = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path)
    await toolbox.open()
    context = Calling()

    assert await toolbox.call(Name("asking"), {"tool": "find"}, context) == "find said {'n': 1}\n"
    assert await toolbox.call(Name("plain"), {}, context) == "none none\n"
    await toolbox.close()


async def test_a_cancelled_script_takes_its_inner_calls_with_it(script: Write, tmp_path: Path) -> None:
    script("asking", ASK, TOOL, portal=True)
    toolbox = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path)
    await toolbox.open()
    context = Calling()
    call = asyncio.create_task(toolbox.call(Name("asking"), {"tool": "hang"}, context))
    await until(lambda: context.running)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert context.cancelled == 1
    await toolbox.close()


async def test_a_portal_that_cannot_be_made_fails_the_one_call(
    script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("asking", ASK, TOOL, portal=True)
    toolbox = ScriptToolbox("box", directories=[tmp_path / "scripts"], cwd=tmp_path)
    await toolbox.open()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    failed = await toolbox.call(Name("asking"), {"tool": "find"}, Calling())

    assert isinstance(failed, Failed)
    assert failed.kind == "start"
    await toolbox.close()
