"""up: hosts the agents of a project in the foreground until it is told to end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.errors import ConfigurationError, UnknownAgent
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.happening import Happening
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.left_open import left_open
from agentos.interfaces.cli.output import counted, put_happened, tell
from agentos.interfaces.cli.signals import Signals
from agentos.interfaces.cli.workplace import Selection, Workplace, opened
from agentos.kernel import Kernel
from agentos.secrets import without_password

ANOTHER = "another terminal"
RECOVER_POLL_S = 2.0
"""How often it takes up what other processes left behind, where the project says nothing of it (recover_poll_s)."""


async def up(
    *agents: str,
    selection: Selection | None = None,
    grace: Annotated[float | None, Parameter(name="--grace", validator=Number(gte=0))] = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Host the agents of the project until it is told to end, and print what happens.

    Turns that a process left open go on, inputs and answers that wait in the store are taken, and other terminals may ask
    and command it: 'agentos ps', 'watch', 'send', 'answer', 'cancel', 'stop'. Ctrl-C, SIGTERM, SIGHUP and 'agentos stop' end
    it: it takes no more, lets what runs end within the grace, and cancels the rest. A second signal, or 'agentos stop --now',
    ends the grace. The last line says what was left open; the next 'agentos up' takes it up.

    Parameters
    ----------
    agents
        only these, with those that they may ask; all of the project without
    grace
        how many seconds running calls have to end, close_grace_s of the project by default
    json
        print one object a line
    """
    work = Workplace.of(here, selection or Selection())
    named = _named(work, agents)
    if work.url == "memory:":
        raise ConfigurationError(
            "a store in memory is of use to one process alone; name one with --store sqlite:///FILE"
        )
    with Signals() as signals:
        async with _hosting(work, named, signals) as kernel, _printing(kernel, json=json):
            _begin(kernel, json=json)
            await _take_up(kernel, signals)
            await _until_told(kernel, signals)
            await _drain(kernel, signals, grace)
        writer = kernel.ticker.writer
    left = await left_open(work.url, writer)
    if json:
        put_happened({"type": "ended", "forced": signals.forced, **left.as_object()})
    tell(f"ended; {left}")
    return Exit.INTERRUPTED if signals.forced else Exit.OK


@asynccontextmanager
async def _hosting(work: Workplace, named: list[str], signals: Signals) -> AsyncIterator[Kernel]:
    """The kernel with its agents. A word to end that comes while they are opened gives that up."""
    async with AsyncExitStack() as stack:
        hosted = opened(work, hosted=named, recover_poll_s=RECOVER_POLL_S, takes_stop=True)
        try:
            with signals.opening():
                kernel = await stack.enter_async_context(hosted)
        except asyncio.CancelledError:
            tell(f"ended before anything was hosted, told by {signals.told_by or 'its caller'}")
            raise
        if named:
            kernel.take_up_only(list(kernel.catalog.agents))
        yield kernel


def _named(work: Workplace, agents: tuple[str, ...]) -> list[str]:
    """The agents that are wanted, none for all. Raises UnknownAgent."""
    named = [*agents, *([work.selection.agent] if work.selection.agent else ())]
    for agent in named:
        if agent not in work.agents:
            raise UnknownAgent(agent, list(work.agents))
    return named


def _begin(kernel: Kernel, *, json: bool) -> None:
    agents = sorted(kernel.catalog.agents)
    url = without_password(kernel.store.url)
    if json:
        facts = {"pid": os.getpid(), "writer": kernel.ticker.writer, "store": url, "control": kernel.control_path}
        put_happened({"type": "up", "agents": agents, **facts})
    asked = "" if kernel.control_path is not None else "; no other terminal can ask it"
    tell(f"up: {counted(len(agents), 'agent')} ({', '.join(agents)}) over {url}, process {os.getpid()}{asked}")


@asynccontextmanager
async def _printing(kernel: Kernel, *, json: bool) -> AsyncIterator[None]:
    """What happens is printed during the block and, when that ends well, to the last entry."""
    happening = Happening(kernel, json=json)
    task = asyncio.get_running_loop().create_task(happening.follow())
    await asyncio.sleep(0)  # it listens from here on
    try:
        yield
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _take_up(kernel: Kernel, signals: Signals) -> None:
    """What other processes left, as far as that comes before a word to end: the rest is for the next one."""
    loop = asyncio.get_running_loop()
    taking, told = loop.create_task(kernel.recover()), loop.create_task(_until_told(kernel, signals))
    try:
        await asyncio.wait([taking, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (taking, told):
            task.cancel()
        await asyncio.wait([taking, told])
    if not taking.cancelled():
        for talk in taking.result():
            tell(f"{talk.id}: an open turn is taken up")


async def _until_told(kernel: Kernel, signals: Signals) -> None:
    """A signal, or a word of another terminal."""
    loop = asyncio.get_running_loop()
    asked, signalled = loop.create_task(kernel.stopping.wait()), loop.create_task(signals.wait())
    try:
        await asyncio.wait([asked, signalled], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (asked, signalled):
            task.cancel()
        await asyncio.wait([asked, signalled])
        if not asked.cancelled():
            signals.tell(ANOTHER, at_once=asked.result())


async def _drain(kernel: Kernel, signals: Signals, grace_s: float | None) -> None:
    """To the close of the kernel, with its grace cut short by a second word to end."""
    running = len(kernel.runner)
    waits = f"; waiting for {counted(running, 'running effect')} (again ends them at once)" if running else ""
    tell(f"ending, told by {signals.told_by}{waits}")
    closing = asyncio.get_running_loop().create_task(kernel.close(0.0 if signals.forced else grace_s))
    again = asyncio.get_running_loop().create_task(_told_again(kernel, signals))
    try:
        await asyncio.wait([closing, again], return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            tell("what still runs is cancelled")
            kernel.hurry()
        await closing
    finally:
        again.cancel()
        await asyncio.wait([again])


async def _told_again(kernel: Kernel, signals: Signals) -> None:
    """Until it is to end at once. Who says 'agentos stop' again means what he said, and waits with the first."""
    loop = asyncio.get_running_loop()
    asked, signalled = loop.create_task(_told_at_once(kernel)), loop.create_task(signals.wait_again())
    try:
        await asyncio.wait([asked, signalled], return_when=asyncio.FIRST_COMPLETED)
        if asked.done() and not signalled.done():
            signals.tell(ANOTHER, at_once=True)
    finally:
        for task in (asked, signalled):
            task.cancel()
        await asyncio.wait([asked, signalled])


async def _told_at_once(kernel: Kernel) -> None:
    while not await kernel.stopping.wait():
        pass
