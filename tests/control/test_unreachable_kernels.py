"""Kernels that hang, lie, speak another version or die: a client is told so, within its limits, and never waits for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from agentos.errors import ControlRefused, KernelClosed, KernelUnreachable
from agentos.kernel.control import SocketClient
from agentos.kernel.control.wire import PROTOCOL
from agentos.settings import Settings
from tests.control.support import listening, path_of, until
from tests.support import Mind, hang

QUICK_GREETING = Settings(control_connect_s=0.2)
QUICK_SILENCE = Settings(control_silence_s=0.3)
"""For those that run out; whoever is answered has all the time that there is by default."""
GREETING = json.dumps({"agentos": PROTOCOL, "writer": 1, "pid": 1, "store": "memory:"}).encode() + b"\n"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(folder: Path, behaviour: Behaviour) -> AsyncIterator[str]:
    """Something that listens like a kernel."""
    path = str(folder / "s")
    talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await behaviour(reader, writer)
        writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks[asyncio.get_running_loop().create_task(talk(reader, writer))] = writer

    listener = await asyncio.start_unix_server(begin, path)
    try:
        yield path
    finally:
        await steps()
        listener.close()
        for task, writer in talks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*talks, return_exceptions=True)
        await steps()


async def steps() -> None:
    """A few of the loop: who has just come is let in, and what was closed goes."""
    for _ in range(5):
        await asyncio.sleep(0)


def saying(*lines: bytes, then_hangs: bool = False) -> Behaviour:
    """Says each line after one was read, the first at once."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *more = lines
        writer.write(first)
        for line in more:
            await reader.readline()
            writer.write(line)
        await writer.drain()
        while then_hangs and await reader.read(1_000):
            pass

    return behave


async def failure(path: str, settings: Settings | None = None) -> KernelUnreachable:
    """What a client meets that asks for something."""
    with pytest.raises(KernelUnreachable) as raised:
        async with SocketClient(path, settings) as client:
            await client.conversations()
    return raised.value


async def test_nobody_is_there(tmp_path: Path) -> None:
    error = await failure(str(tmp_path / "nothing"))

    assert "nobody listens there" in str(error)
    assert (error.gone, error.hangs) == (True, False)


async def test_its_queue_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    waiting: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(path)
        full.listen(0)
        while not waiting or waiting[-1].connect_ex(path) == 0:
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        error = await failure(path)
        for one in waiting:
            one.close()

    assert "it lets nobody in" in str(error)
    assert error.hangs


async def test_it_does_not_greet(tmp_path: Path) -> None:
    async with server(tmp_path, saying(b"", then_hangs=True)) as path:
        error = await failure(path, QUICK_GREETING)

    assert "did not greet within 0.2 s (control_connect_s)" in str(error)
    assert error.hangs


async def test_it_greets_and_then_says_nothing(tmp_path: Path) -> None:
    async with server(tmp_path, saying(GREETING, then_hangs=True)) as path:
        error = await failure(path, QUICK_SILENCE)

    assert "nothing came for 0.3 s (control_silence_s)" in str(error)
    assert error.hangs


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([b"220 ready\r\n"], "is no kernel"),
        ([b'{"agentos": 99}\n'], f"speaks version 99, this program {PROTOCOL}"),
        ([b""], "without a word"),
        ([GREETING, b"\xff\n"], "cannot be read"),
        ([GREETING, b'{"id": "x"}\n'], "cannot be read"),
        ([GREETING, b'{"id": 1, "value": {"not": "a list"}}\n'], "its answer to 'conversations' cannot be read"),
        ([GREETING, b'{"id": 1'], "closed the connection"),
    ],
)
async def test_it_lies(tmp_path: Path, lines: list[bytes], words: str) -> None:
    async with server(tmp_path, saying(*lines)) as path:
        error = await failure(path)

    assert words in str(error)
    assert error.gone == ("without a word" in words or "closed" in words)


async def test_answers_to_nothing_are_passed_over(tmp_path: Path) -> None:
    strays = b'{"id": 7, "value": 1}\n{"id": 7, "item": 1}\n{"id": 1, "item": 1}\n{"id": 1, "value": []}\n'
    async with server(tmp_path, saying(GREETING, strays, then_hangs=True)) as path, SocketClient(path) as client:
        assert await client.conversations() == []


async def test_an_error_that_it_makes_up_is_a_refusal(tmp_path: Path) -> None:
    made_up = b'{"id": 1, "error": {"name": "SystemExit", "words": "boo", "attributes": {}}}\n'
    async with server(tmp_path, saying(GREETING, made_up)) as path, SocketClient(path) as client:
        with pytest.raises(ControlRefused, match="boo"):
            await client.conversations()


async def test_a_turn_may_take_longer_than_the_silence_as_long_as_the_kernel_answers(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow(_: object) -> str:
        await gate.wait()
        return "late"

    async with listening(tmp_path, Mind(slow)) as kernel:
        settings = Settings(control_silence_s=0.5)
        async with SocketClient(path_of(kernel), settings) as client:
            asked = asyncio.ensure_future(client.ask(await client.begin("main"), "go"))
            await asyncio.sleep(2 * settings.control_silence_s)
            assert not asked.done()
            gate.set()
            assert (await asked).text == "late"


async def test_the_end_of_the_kernel_ends_what_waits(tmp_path: Path) -> None:
    async with listening(tmp_path, Mind(hang)) as kernel, SocketClient(path_of(kernel)) as client:
        id_ = await client.begin("main")
        asked = asyncio.ensure_future(client.ask(id_, "go"))
        gone = asyncio.ensure_future(client.wait_gone())
        await until(lambda: kernel.state_of(id_) == "running")
        async with aclosing(client.watch(id_)) as watched:
            await anext(watched)
            await kernel.close(0)
            kinds = [item async for item in watched]

        with pytest.raises(KernelClosed):
            await asked
        await gone
        assert kinds
        with pytest.raises(KernelUnreachable, match=f"process {client.greeting.pid} cannot be asked: it has ended"):
            await client.conversations()


async def test_a_kernel_that_hangs_while_its_end_is_waited_for_is_told_of(tmp_path: Path) -> None:
    hangs = saying(GREETING, then_hangs=True)
    async with server(tmp_path, hangs) as path, SocketClient(path, QUICK_SILENCE) as client:
        with pytest.raises(KernelUnreachable, match="control_silence_s"):
            await client.wait_gone()


async def test_a_socket_of_another_user_is_not_talked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.kernel.control.channel.credentials_of", lambda _: (77, 4_711))
    async with server(tmp_path, saying(GREETING, then_hangs=True)) as path:
        error = await failure(path)

    assert "another user (number 4711) listens there" in str(error)


async def test_cancelled_requests_leave_nothing_behind_at_the_kernel(tmp_path: Path) -> None:
    limits = {"control_requests_max": 2}
    async with listening(tmp_path, Mind(hang), **limits) as kernel, SocketClient(path_of(kernel)) as client:
        id_ = await client.begin("main")
        for _ in range(10):
            asked = asyncio.ensure_future(client.ask(id_, "go"))
            await asyncio.sleep(0.005)
            asked.cancel()
            await asyncio.wait([asked])
            assert asked.cancelled()
        assert await client.conversations() == [id_]
