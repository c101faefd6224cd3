"""An event loop for the life of one kernel that crashes: what it leaves behind goes away with it, without a word."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_life() -> Iterator[asyncio.Runner]:
    """A loop of its own. Coroutines that a crash kept from ever beginning are collected here, where nobody is warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            with asyncio.Runner() as runner:
                yield runner
        finally:
            gc.collect()
