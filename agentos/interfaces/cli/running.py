"""The kernels that run on a store, asked by their control sockets; where none answers, commands go on by the store alone."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

import anyio

from agentos.errors import ControlError, KernelClosed, KernelUnreachable, StoreError, StoreUnavailable
from agentos.ids import LogId
from agentos.interfaces.cli.output import say
from agentos.kernel.control import SocketClient, place_of
from agentos.kernel.reading import Reading, reading
from agentos.settings import Settings

T = TypeVar("T")

NOT_TAKEN = (ControlError, KernelClosed, StoreUnavailable)
"""What a word meets that a kernel has not taken, or may not have: it hangs, has ended, is about to, has no room, speaks
another version, or has lost the conversation or its store. The inbox of the store takes it then; its owner, which reads that
to its last step, or the next one hears it."""


class Taken(NamedTuple, Generic[T]):
    """What a kernel said to a word that it took, and its process."""

    value: T
    pid: int


async def given_to_owner(
    store: Reading, log: LogId, say_it: Callable[[SocketClient], Awaitable[T]], what: str = "the word"
) -> Taken[T] | None:
    """Has the kernel that owns a conversation take a word. None when none has: that is told of, and what it was is to wait in
    the store."""
    async with owner_of(store, log) as kernel:
        if kernel is not None:
            try:
                return Taken(await say_it(kernel), kernel.greeting.pid)
            except NOT_TAKEN as error:
                say(f"warning: {why_not(kernel, error)}; {what} waits in the store")
    return None


@asynccontextmanager
async def owner_of(store: Reading, log: LogId) -> AsyncIterator[SocketClient | None]:
    """The kernel that has a conversation, which alone may write to its log; None when it has ended, or cannot be asked."""
    place, row = place_of(store.url), await store.store.log(log)
    async with AsyncExitStack() as stack:
        client = None
        paths = dict(place.found()) if place is not None and row is not None and row.owner else {}
        if row is not None and row.owner in paths:
            client = await _entered(stack, paths[row.owner])
        yield client


class Running(list[SocketClient]):
    """The kernels that answer. hung are those that are there, and do not; each was told of."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.hung: list[str] = []
        self._url = url

    async def why_none(self) -> str:
        """Why there is nobody to ask."""
        return await self.silent() or "no kernel runs over this store; 'agentos up' begins one"

    async def silent(self) -> str:
        """Of those that are there and cannot be asked; nothing when there are none."""
        if self.hung:
            return "no kernel over this store answers"
        names = await _with_the_store_open(self._url)
        if not names:
            return ""
        who = f"process {names[0]} has" if len(names) == 1 else f"processes {', '.join(names)} have"
        return (
            f"{who} the store open and cannot be asked: no control socket is here, or not yet, or no longer;"
            " 'agentos writers' tells more"
        )


@asynccontextmanager
async def all_running(url: str) -> AsyncIterator[Running]:
    """Every kernel on the store that answers, the one that has run longest first. Those that hang are told of."""
    place = place_of(url)
    found: dict[str, SocketClient | None] = {path: None for _, path in place.found()} if place is not None else {}
    running = Running(url)
    async with AsyncExitStack() as stack:

        async def enter(path: str) -> None:
            found[path] = await _connected(path, running.hung)

        async with anyio.create_task_group() as group:
            for path in found:
                group.start_soon(enter, path)
        running += [client for client in found.values() if client is not None]
        for client in running:
            stack.push_async_exit(client)
        yield running


async def asked_first(url: str, ask: Callable[[SocketClient], Awaitable[T]]) -> T | None:
    """What the first kernel that answers says; None when there is none. One that fails on the way is told of."""
    async with all_running(url) as kernels:
        for kernel in kernels:
            async for _, said in answers([kernel], ask):
                return said
        if kernels.hung:
            say("going on by the store")
    return None


async def answers(
    kernels: Iterable[SocketClient], ask: Callable[[SocketClient], Awaitable[T]]
) -> AsyncIterator[tuple[SocketClient, T]]:
    """What each kernel says. One that ends, hangs or fails meanwhile is told of, and holds up no others."""
    for kernel in kernels:
        try:
            said = await ask(kernel)
        except (*NOT_TAKEN, StoreError) as error:
            say(f"warning: {why_not(kernel, error)}")
        else:
            yield kernel, said


def process_of(client: SocketClient) -> str:
    return f"process {client.greeting.pid}"


def why_not(client: SocketClient, error: Exception) -> str:
    """For a person, why a kernel has not taken a word; error is one of NOT_TAKEN."""
    return f"{process_of(client)} is about to end" if isinstance(error, KernelClosed) else str(error)


def how_taken(pid: int | None) -> str:
    """Who has a word: the process with this number, or nobody yet."""
    if pid is not None:
        return f"process {pid} has taken it"
    return "the process that runs it takes it at once; without one, 'agentos up' or 'agentos run --resume' does"


async def _with_the_store_open(url: str) -> list[str]:
    """Processes, each by its number, with its host where that is another machine."""
    try:
        async with reading(url) as store:
            alive = [row for row in await store.writers() if row.alive]
    except StoreError:
        return []
    here = socket.gethostname()
    return [f"{row.pid}" if row.host in ("", here) else f"{row.pid} on {row.host}" for row in alive]


async def _entered(stack: AsyncExitStack, path: str) -> SocketClient | None:
    client = await _connected(path)
    if client is not None:
        stack.push_async_exit(client)
    return client


async def _connected(path: str, hung: list[str] | None = None) -> SocketClient | None:
    """None when nobody is there; a kernel that is there and cannot be asked is told of, and added to hung."""
    client = SocketClient(path, Settings())
    try:
        return await client.__aenter__()
    except ControlError as error:
        if not (isinstance(error, KernelUnreachable) and error.gone):
            say(f"warning: {error}" + ("; going on by the store" if hung is None else ""))
            if hung is not None:
                hung.append(path)
    return None
