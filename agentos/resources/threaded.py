"""Lends to a thread: a sync tool has a handle for the length of a `with`, while all that is decided stays on the loop.

Each thing that a thread asks for is a task of its own on the loop. It is the thread that holds and waits all the same, and
the wait graph knows it as one.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from agentos.errors import ToolError

H = TypeVar("H")
_threads: dict[Hashable, Hashable] = {}
"""The tasks that threads wait for, or other tasks by means that are not seen here. A context variable would go on to tasks
that these start, for which nobody waits."""


def who_waits() -> Hashable:
    """Whoever does nothing else while the current task waits: a thread that waits for it, or the task itself."""
    task = asyncio.current_task()
    return _threads.get(task, task)


def waiting_as(who: Hashable, work: Callable[..., Awaitable[H]]) -> Callable[..., Awaitable[H]]:
    """The same work, that is waited for by somebody who does nothing else meanwhile, whatever task it runs in: a call, say,
    whose program asked for it."""

    async def do(*arguments: Any) -> H:
        task = asyncio.current_task()
        _threads[task] = who
        try:
            return await work(*arguments)
        finally:
            del _threads[task]

    return do


def ask_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, H]) -> H:
    """Has the loop do it, and waits; raises what it raises. Never to be used on the loop, which would wait for itself."""
    thread = threading.current_thread()

    async def do() -> H:
        task = asyncio.current_task()
        _threads[task] = thread
        try:
            return await work
        finally:
            del _threads[task]

    return asyncio.run_coroutine_threadsafe(do(), loop).result()


@contextmanager
def lent_to_thread(
    loop: asyncio.AbstractEventLoop, borrow: Callable[[], AbstractAsyncContextManager[H]]
) -> Iterator[H]:
    """Borrows on the loop and gives back there; the thread waits for both. Raises what borrowing raises.

    borrow is called on the loop. Never to be used on the loop itself, which would wait for itself.
    """

    async def enter() -> tuple[AbstractAsyncContextManager[H], H]:
        lent = borrow()
        return lent, await lent.__aenter__()

    async def leave() -> None:
        await lent.__aexit__(*failure)

    lent, handle = ask_loop(loop, enter())
    failure: tuple[type[BaseException], BaseException, object] | tuple[None, None, None] = (None, None, None)
    try:
        yield handle
    except BaseException:
        failure = sys.exc_info()
        raise
    finally:
        ask_loop(loop, leave())


def check_in_thread(loop: asyncio.AbstractEventLoop, method: str, instead: str) -> None:
    """Raises ToolError on the loop, which would wait for itself."""
    if running_loop() is loop:
        raise ToolError(f"{method} is for a sync tool, which runs in a thread; here, {instead}")


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
