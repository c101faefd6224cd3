"""Runs what gives something back to its end, whoever is cancelled meanwhile, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

STOP_S = 0.1
"""How long work that was over its limit, and then cancelled, is waited for before it is left to itself."""

Finished = tuple[BaseException | None, asyncio.CancelledError | None]
"""How it failed, None if it did not; and the last cancellation of the one who waited, if one came meanwhile."""


async def finish(work: Awaitable[Any], limit_s: float | None, limit: str = "") -> Finished:
    """Has work end by itself, however often the waiting task is cancelled; over limit_s it is cancelled, and left to itself
    when it ignores that. None is no limit; limit names it. Raises nothing."""
    task = asyncio.ensure_future(work)
    cancelled = await _wait(task, limit_s)
    if not task.done():
        task.cancel()
        cancelled = await _wait(task, STOP_S) or cancelled
        task.add_done_callback(unheard)
        return TimeoutError(f"not given back within {limit_s:g} s ({limit})"), cancelled
    if task.cancelled():
        return RuntimeError("it cancelled itself"), cancelled
    return task.exception(), cancelled


async def _wait(task: asyncio.Future[Any], limit_s: float | None) -> asyncio.CancelledError | None:
    """Until it is done or the limit is over, whoever cancels us meanwhile."""
    loop = asyncio.get_running_loop()
    until = None if limit_s is None else loop.time() + limit_s
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (until is None or loop.time() < until):
        try:
            await asyncio.wait({task}, timeout=None if until is None else until - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def unheard(future: asyncio.Future[Any]) -> None:
    """A callback for what nobody may wait for any more: its error is no one's to hear, not even the loop's."""
    if not future.cancelled():
        future.exception()
