"""The kernels that run on a store, asked by their control sockets; where none answers, commands go on by the store alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio

from agentos.errors import ControlError, KernelUnreachable
from agentos.ids import LogId
from agentos.interfaces.cli.output import say
from agentos.kernel.control import SocketClient, place_of
from agentos.kernel.reading import Reading
from agentos.settings import Settings

T = TypeVar("T")


@asynccontextmanager
async def owner_of(store: Reading, log: LogId) -> AsyncIterator[SocketClient | None]:
    """The kernel that has a conversation, which alone may write to its log; None when it has ended, or cannot be asked."""
    place, row = place_of(store.url), await store.store.log(log)
    async with AsyncExitStack() as stack:
        client = None
        if place is not None and row is not None and row.owner:
            client = await _entered(stack, place.socket(row.owner))
        yield client


@asynccontextmanager
async def all_running(url: str) -> AsyncIterator[list[SocketClient]]:
    """Every kernel on the store that answers, the one that has run longest first. Those that hang are told of."""
    place = place_of(url)
    found: dict[str, SocketClient | None] = {path: None for _, path in place.found()} if place is not None else {}
    async with AsyncExitStack() as stack:

        async def enter(path: str) -> None:
            found[path] = await _connected(path)

        async with anyio.create_task_group() as group:
            for path in found:
                group.start_soon(enter, path)
        clients = [client for client in found.values() if client is not None]
        for client in clients:
            stack.push_async_exit(client)
        yield clients


async def asked_first(url: str, ask: Callable[[SocketClient], Awaitable[T]]) -> T | None:
    """What the first kernel that answers says; None when there is none. One that fails on the way is told of."""
    async with all_running(url) as kernels:
        for kernel in kernels:
            try:
                return await ask(kernel)
            except ControlError as error:
                say(f"warning: {error}")
    return None


def process_of(client: SocketClient) -> str:
    return f"process {client.greeting.pid}"


async def _entered(stack: AsyncExitStack, path: str) -> SocketClient | None:
    client = await _connected(path)
    if client is not None:
        stack.push_async_exit(client)
    return client


async def _connected(path: str) -> SocketClient | None:
    """None when nobody is there; a kernel that is there and cannot be asked is told of."""
    client = SocketClient(path, Settings())
    try:
        return await client.__aenter__()
    except KernelUnreachable as error:
        if error.hangs:
            say(f"warning: {error}; going on by the store")
    except ControlError as error:
        say(f"warning: {error}; going on by the store")
    return None
