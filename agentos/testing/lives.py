"""An event loop for the life of one kernel that crashes: what it leaves behind goes away with it, without a word."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def one_life() -> Iterator[asyncio.Runner]:
    """A loop of its own. Coroutines that a crash kept from ever beginning are collected here, where nobody is warned."""
    _set_aside_what_was_before()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            with asyncio.Runner() as runner:
                yield runner
        finally:
            gc.collect()


@cache
def _set_aside_what_was_before() -> None:
    """Keeps what the process had before its first life out of all collections: a long test run has millions of objects,
    and there are thousands of lives."""
    gc.freeze()


async def die() -> None:
    """Cancels what runs beside the caller, oldest first. The end of the loop would do it in the order of addresses in
    memory, and what is done on the way out, a write to the store say, would differ from run to run."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in sorted(others, key=lambda task: (len(task.get_name()), task.get_name())):
        task.cancel()
    if others:
        await asyncio.wait(others)
