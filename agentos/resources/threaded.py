"""Lends to a thread: a sync tool has a handle for the length of a `with`, while all that is decided stays on the loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

H = TypeVar("H")


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

    lent, handle = asyncio.run_coroutine_threadsafe(enter(), loop).result()
    failure: tuple[type[BaseException], BaseException, object] | tuple[None, None, None] = (None, None, None)
    try:
        yield handle
    except BaseException:
        failure = sys.exc_info()
        raise
    finally:
        asyncio.run_coroutine_threadsafe(leave(), loop).result()
