"""stop: tells the processes that host agents on a store to end."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Annotated

from anyio import move_on_after, sleep
from cyclopts import Parameter

from agentos.errors import ControlRefused, KernelClosed, KernelUnreachable
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.left_open import left_open
from agentos.interfaces.cli.output import put_json, say
from agentos.interfaces.cli.running import all_running, process_of
from agentos.kernel.control import SocketClient
from agentos.kernel.reading import reading

LAST_STEPS_S = 10.0
LAST_MOMENT_S = 2.0
LOOK_S = 0.05


async def stop(
    *,
    writer: Annotated[int | None, Parameter(name="--writer")] = None,
    now: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Tell 'agentos up' to end, and wait until it has: it takes no more, and what runs ends within its grace.

    Every 'agentos up' on the store is told, or the one that --writer names. A 'run' or 'chat' is not: it ends with what it
    was asked, 'agentos cancel' ends a turn. Ctrl-C here ends the waiting.

    Parameters
    ----------
    writer
        only this one, by its number as 'agentos writers' has it
    now
        without grace: what runs is cancelled
    json
        print one JSON object: each that was told, whether it has ended, and what it left open
    """
    url = here.store_url()
    async with all_running(url) as kernels:
        told = [kernel for kernel in kernels if writer in (None, kernel.greeting.writer)]
        if writer is not None and not told:
            raise UsageError(f"no kernel with the number {writer} answers; 'agentos writers' lists them")
        silent = "" if kernels else await kernels.silent()
        results = await asyncio.gather(*(_stopped(url, one, now=now, named=writer is not None) for one in told))
    ended = [result for result in results if result is not None]
    if json:
        put_json({"stopped": ended})
    if silent or not (ended or json):
        say(silent or "nothing hosts agents on this store")
    is_done = all(result["ended"] for result in ended) and (writer is not None or not (kernels.hung or silent))
    return Exit.OK if is_done else Exit.FAILURE


async def _has_ended(url: str, kernel: SocketClient) -> bool:
    """A kernel closes its socket before its store, and that before its process ends. False for one that takes long over that.

    The store says it, and of its process what is left after that is a moment: whoever began it may not have noticed yet.
    """
    with move_on_after(LAST_STEPS_S):
        async with reading(url) as store:
            while True:
                if not any(row.alive for row in await store.writers() if row.n == kernel.greeting.writer):
                    break
                await sleep(LOOK_S)
        await _until_gone(kernel.greeting.pid)
        return True
    return False


async def _until_gone(pid: int) -> None:
    with move_on_after(LAST_MOMENT_S):
        while True:
            try:
                os.kill(pid, 0)
            except (ProcessLookupError, PermissionError):  # another user has its number by now
                return
            await sleep(LOOK_S)


async def _stopped(url: str, kernel: SocketClient, *, now: bool, named: bool) -> dict[str, object] | None:
    """What became of one; None for one that does not take the word."""
    facts: dict[str, object] = {"pid": kernel.greeting.pid, "writer": kernel.greeting.writer}
    try:
        with suppress(KernelClosed):  # it is about to end anyway
            await kernel.stop(force=now)
        say(f"{process_of(kernel)}: told to end")
        await kernel.wait_gone()
        if not await _has_ended(url, kernel):
            say(f"warning: {process_of(kernel)} still runs, {LAST_STEPS_S:g} s after it closed its control socket")
            return {**facts, "ended": False}
    except ControlRefused as error:
        if named:
            raise
        say(f"{process_of(kernel)}: {error}")
        return None
    except KernelUnreachable as error:
        if not (error.gone and await _has_ended(url, kernel)):
            say(f"warning: {error}")
            return {**facts, "ended": False}
    left = await left_open(url, kernel.greeting.writer)
    say(f"{process_of(kernel)}: ended; {left}")
    return {**facts, "ended": True, **left.as_object()}
