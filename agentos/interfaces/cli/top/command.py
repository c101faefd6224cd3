"""top: how a running kernel does, again and again."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.errors import KernelClosed, KernelUnreachable
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, is_terminal, put, put_json, say, terminal_width
from agentos.interfaces.cli.running import all_running, process_of
from agentos.interfaces.cli.top.lines import HEADS, screen_of
from agentos.interfaces.cli.top.rates import rates_of
from agentos.interfaces.cli.top.screen import Screen
from agentos.kernel.control import SocketClient
from agentos.kernel.top import TURNS_SHOWN, TURNS_SHOWN_MAX, Top

EVERY_S_MIN, EVERY_S_MAX = 0.1, 86_400.0
UNBOUNDED = 1_000_000
"""Lines and columns of a screen that is no terminal's."""


async def top(
    *,
    once: Flag = False,
    every: Annotated[
        float, Parameter(name=["--every", "-n"], validator=Number(gte=EVERY_S_MIN, lte=EVERY_S_MAX))
    ] = 1.0,
    turns: Annotated[int, Parameter(validator=Number(gte=0, lte=TURNS_SHOWN_MAX))] = TURNS_SHOWN,
    writer: int | None = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Show what a running kernel does: its turns and what they wait for, rates, slots and resources, the store.

    At a terminal it is drawn again every second, until q or Ctrl-C. Elsewhere, and with --once, it is printed once, with the
    rates of one such time. What is in use stands as held/size, with those that wait; 'agentos lsof' says who.

    Parameters
    ----------
    once
        print it once
    every
        seconds between two looks
    turns
        how many open turns to ask for, the running first and the oldest of them first
    writer
        the kernel of this number, where several run over the store; 'agentos writers' lists them
    json
        print one object a line, and with --once one in all
    """
    async with all_running(here.store_url()) as running:
        kernel, others = _chosen(running, writer)
        if kernel is None:
            say(await running.why_none())
            return Exit.FAILURE
        looks = _Looks(kernel, every, turns)
        if others:
            say(f"{counted(len(others), 'other kernel')} over this store: --writer {' or '.join(map(_number, others))}")
        if json:
            await _print_objects(looks, once=once)
        elif once or not (is_terminal(sys.stdout) and is_terminal(sys.stdin)):
            await looks.look()
            await asyncio.sleep(every)
            await looks.look()
            for line in looks.lines(terminal_width() if is_terminal(sys.stdout) else UNBOUNDED, UNBOUNDED):
                put(line)
        else:
            await _draw(looks)
    return Exit.OK


def _chosen(running: list[SocketClient], writer: int | None) -> tuple[SocketClient | None, list[SocketClient]]:
    """The kernel that is meant, by default the one that has run longest, and the others. Raises UsageError for a number that
    none of them has."""
    numbers = [client.greeting.writer for client in running]
    if writer is not None and running and writer not in numbers:
        raise UsageError(f"no kernel {writer} runs over this store; there is {', '.join(map(str, numbers))}")
    chosen = next((one for one in running if writer in (None, one.greeting.writer)), None)
    return chosen, [one for one in running if one is not chosen]


def _number(client: SocketClient) -> str:
    return str(client.greeting.writer)


class _Looks:
    """The last look at a kernel, and the one before it."""

    def __init__(self, kernel: SocketClient, every_s: float, turns_max: int) -> None:
        self._kernel, self.every_s, self._turns_max = kernel, every_s, turns_max
        self._before: Top | None = None
        self._now: Top | None = None

    async def look(self) -> Top:
        try:
            seen = await self._kernel.top(self._turns_max)
        except KernelClosed:
            raise KernelUnreachable(f"the kernel of {process_of(self._kernel)}", "it ends", gone=True) from None
        self._before, self._now = self._now, seen
        return seen

    def lines(self, columns: int, rows: int) -> list[str]:
        if self._now is None:
            return []
        return screen_of(self._before, self._now, columns, rows)

    def as_object(self) -> dict[str, object]:
        """What was seen, with rates where there was a look before."""
        assert self._now is not None, "it has looked"
        rates = rates_of(self._before, self._now)
        seen: dict[str, object] = msgspec.to_builtins(self._now)
        return {**seen, "rates": None if rates is None else {name: round(x, 3) for name, x in rates._asdict().items()}}


async def _print_objects(looks: _Looks, *, once: bool) -> None:
    await looks.look()
    while True:
        await asyncio.sleep(looks.every_s)
        await looks.look()
        put_json(looks.as_object(), stream=not once)
        if once:
            return


async def _draw(looks: _Looks) -> None:
    """Until the person has seen enough. The end of the kernel is an error, told once the terminal is given back."""

    def draw() -> None:
        lines = looks.lines(*screen.size)
        screen.draw(lines, frozenset(n for n, line in enumerate(lines) if n == 0 or line.startswith(HEADS)))

    screen = Screen(draw)
    async with screen:
        leaving = asyncio.ensure_future(screen.ended.wait())
        looking: asyncio.Future[Top] | None = None
        try:
            while not leaving.done():
                looking = asyncio.ensure_future(looks.look())
                await asyncio.wait({looking, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if looking.done():
                    looking.result()
                    draw()
                    await asyncio.wait({leaving}, timeout=looks.every_s)
        finally:
            tasks = [task for task in (looking, leaving) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
