"""Many at the control socket at once, and a process that has no file left: who is in is served, the others are told why."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentos.errors import ControlRefused
from agentos.ids import LogId
from agentos.kernel import Kernel
from agentos.kernel.control import SocketClient
from agentos.kernel.control.server import ControlServer
from tests.control.support import Raw, listening, path_of, until
from tests.support import Mind

FILES_MORE = 24
"""How many files the process may open yet, before all are taken."""

FILES_OF_A_CROWD = 3_000
"""Both ends of a thousand connections, and the rest of the process."""


@contextmanager
def no_files_left() -> Iterator[None]:
    """A process that can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + FILES_MORE, hard))
    taken: list[int] = []
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def sockets(count: int) -> Iterator[list[socket.socket]]:
    """Sockets that need no more files to connect."""
    made = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


async def said(one: socket.socket) -> bytes:
    """All that comes, to the end."""
    one.setblocking(False)
    found = b""
    while chunk := await asyncio.get_running_loop().sock_recv(one, 4_096):
        found += chunk
    return found


async def test_who_comes_when_the_process_has_no_file_left_is_told_so_and_nothing_spins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(tmp_path, Mind("one", "two")) as kernel:
        id_ = await kernel.begin("main")
        with sockets(40) as knocking:
            with no_files_left():
                for one in knocking:
                    one.connect(path_of(kernel))
                words = [json.loads(await said(one))["error"]["words"] for one in knocking]
                outcome = await kernel.ask(id_, "go")
                warnings = [record for record in caplog.records if "nobody can come in" in record.message]
            async with SocketClient(path_of(kernel)) as client:
                again = await client.ask(id_, "go")

    assert set(words) == {
        "its process has no file left for one more connection; something there leaks, or its limit (ulimit -n) is too low"
    }
    assert (outcome.text, again.text) == ("one", "two")
    assert len(warnings) == 1


async def test_without_a_spare_file_the_door_rests_and_opens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agentos.kernel.control.doorway.RETRY_S", 0.02)
    async with listening(tmp_path) as kernel:
        doorway = door_of(kernel)._doorway
        assert doorway is not None
        with sockets(1) as (knocking,):
            with no_files_left():
                assert doorway._spare is not None
                os.close(doorway._spare)
                os.dup(0)
                doorway._spare = None
                knocking.connect(path_of(kernel))
                await asyncio.sleep(0.2)
                tries = len([record for record in caplog.records if "nobody can come in" in record.message])
            greeting = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(knocking, 4_096))
            knocking.setblocking(False)
            read = json.loads(await greeting)

    assert tries == 1
    assert read["pid"] == os.getpid()


@pytest.fixture
def _files_of_a_crowd() -> Iterator[None]:
    """A plain user may open 1,024 files until he asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_OF_A_CROWD:
        pytest.skip(f"this machine lets a process open {hard} files, and a crowd takes {FILES_OF_A_CROWD}")
    if soft != resource.RLIM_INFINITY and soft < FILES_OF_A_CROWD:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_OF_A_CROWD, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_files_of_a_crowd")
async def test_a_thousand_that_stay_and_say_nothing_leave_a_kernel_serving(tmp_path: Path) -> None:
    async with listening(tmp_path, Mind(*["done"] * 20), control_connections_max=64) as kernel:
        id_ = await kernel.begin("main")
        crowd = [await asyncio.open_unix_connection(path_of(kernel)) for _ in range(1_000)]
        try:
            outcomes = [await kernel.ask(id_, "go") for _ in range(20)]
            async with SocketClient(path_of(kernel)) as client:
                page = await client.page()
            inside = len(door_of(kernel)._connections)
            first = [json.loads(line) for line in (await crowd[0][0].read()).splitlines()]
        finally:
            for _, writer in crowd:
                writer.transport.abort()

    assert [outcome.text for outcome in outcomes] == ["done"] * 20
    assert [row.id for row in page.conversations] == [id_]
    assert inside <= 64
    assert "this one was idle for the longest time" in first[-1]["error"]["words"]


async def test_who_waits_for_the_end_of_a_kernel_and_was_sent_away_comes_back(tmp_path: Path) -> None:
    async with listening(tmp_path, control_connections_max=1) as kernel, SocketClient(path_of(kernel)) as waiting:
        gone = asyncio.ensure_future(waiting.wait_gone())
        async with SocketClient(path_of(kernel)) as other:
            assert await other.conversations() == []
        await until(lambda: len(door_of(kernel)._connections) == 1 or gone.done())
        assert not gone.done()
        await kernel.close(0)
        await gone


async def test_who_says_something_and_goes_at_once_is_heard_and_forgotten(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel:
        id_ = await kernel.begin("main")
        for _ in range(5):
            async with Raw(path_of(kernel)) as raw:
                await raw.line()
                raw.ask(1, "control", id=id_, control="pause")
        await until(lambda: kernel.state_of(id_) == "paused")
        await until(lambda: not door_of(kernel)._connections)


async def test_who_says_all_and_closes_his_side_reads_what_comes_of_it(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel, Raw(path_of(kernel)) as raw:
        raw.ask(1, "begin", agent="main")
        raw.ask(2, "conversations")
        raw.writer.write_eof()
        _, begun, listed = await raw.ended()

    assert listed == {"id": 2, "value": [begun["value"]]}


async def test_a_watcher_that_dies_is_forgotten(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel:
        id_ = await kernel.begin("main")
        async with Raw(path_of(kernel)) as raw:
            raw.ask(1, "watch", id=id_)
            await until(lambda: LogId(id_) in kernel.watchers)
        await until(lambda: LogId(id_) not in kernel.watchers)
        await until(lambda: not door_of(kernel)._connections)


async def test_a_closed_kernel_takes_nobody_in(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel:
        path = path_of(kernel)
        with sockets(3) as knocking:
            for one in knocking:
                one.connect(path)
            await kernel.close(0)
            told = [await _end(one) for one in knocking]

    assert all(words in (b"", None) or b'"agentos"' in words for words in told)


async def _end(one: socket.socket) -> bytes | None:
    try:
        return await said(one)
    except ConnectionError:
        return None


async def test_all_that_are_busy_leave_no_room_and_the_next_hears_why(tmp_path: Path) -> None:
    async with listening(tmp_path, control_connections_max=3) as kernel:
        id_ = await kernel.begin("main")
        async with Raw(path_of(kernel)) as one, Raw(path_of(kernel)) as two, Raw(path_of(kernel)) as three:
            for raw in (one, two, three):
                raw.ask(1, "watch", id=id_)
                await raw.line()
                await raw.line()
            with pytest.raises(ControlRefused, match="all have requests open"):
                async with SocketClient(path_of(kernel)):
                    pass


def door_of(kernel: Kernel) -> ControlServer:
    assert isinstance(kernel._door, ControlServer)
    return kernel._door
