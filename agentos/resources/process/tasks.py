"""Tasks that are waited for, and ended, by the one who began them."""

from __future__ import annotations

import asyncio
from typing import Any

from agentos.resources.process.family import insist


async def happens(event: asyncio.Event) -> None:
    """As work that can be waited for together with other work."""
    await event.wait()


async def joined(task: asyncio.Task[None]) -> None:
    """Until it has ended; raises what it raised."""
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Until none of them runs any more."""
    for task in tasks:
        task.cancel()
    await insist(_all_done(tasks))


async def _all_done(tasks: tuple[asyncio.Task[Any], ...]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
