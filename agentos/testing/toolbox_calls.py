"""How the contract of toolboxes makes calls, and counts what they leave behind; see `toolbox_contract`."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentos.clock import Clock, SystemClock
from agentos.components import Access, ToolboxSharing
from agentos.errors import ToolError
from agentos.ids import CallId, ConversationId, Name, TurnId
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources.outside import OutsideLoans, OutsideResources
from agentos.toolboxes.base import Failed, Finish, Toolbox
from agentos.toolboxes.results import render

HANG_S = 60.0
"""What never ends is a failure after this; no test takes a hundredth of it."""
RESULT_CHARS = 32_000
SUFFIX = "0" * 26
"""Of the ids of a conversation that is nowhere stored."""


class Sample(NamedTuple):
    """A call of one tool; text is what its result contains."""

    tool: str
    arguments: dict[str, Any]
    text: str = ""


class ToolboxCase(NamedTuple):
    """One toolbox under test.

    make gives one more, not opened, on the same data. good is a call that works each time, also beside others; endless one
    that ends only when it is cancelled, or None where no tool can take long.
    """

    make: Callable[[], Toolbox]
    good: Sample
    endless: Sample | None


class ContractContext(OutsideLoans):
    """The context of one attempt of one call. What a tool defers is released by `close`."""

    def __init__(self, number: int = 1) -> None:
        self.call_id = CallId(f"call_{SUFFIX}_{number + 1}")
        super().__init__(OutsideResources(), self.call_id, {})
        self.turn = TurnId(f"turn_{SUFFIX}_3")
        self.conversation = ConversationId(f"conversation_{SUFFIX}")
        self.agent = Name("tester")
        self.attempt = 1
        self.key = str(self.call_id)
        self.timeout_s = HANG_S
        self.clock: Clock = SystemClock()
        self.lineage = Lineage()
        self._deferred: list[Callable[[], Awaitable[None] | None]] = []

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        raise ToolError("the contract makes no inner calls")

    def call_from_thread(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        raise ToolError("the contract makes no inner calls")

    def progress(self, data: Any) -> None:
        return None

    def defer(self, release: Callable[[], Awaitable[None] | None]) -> None:
        self._deferred.append(release)

    async def close(self) -> None:
        while self._deferred:
            done = self._deferred.pop()()
            if inspect.isawaitable(done):
                await done
        await self.give_back()
        await self._resources.close()


class Held(NamedTuple):
    """What this process has open: threads, and where the system tells, descriptors and living children."""

    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    children: frozenset[int]

    @classmethod
    def now(cls) -> Held:
        return cls(frozenset(threading.enumerate()), _listed("/proc/self/fd"), frozenset(children_of_this_process()))

    def beyond(self, before: Held) -> set[object]:
        """What was not there before. What has ended meanwhile is of somebody else."""
        return {one for now, then in zip(self, before, strict=True) for one in now - then}


@asynccontextmanager
async def opened(case: ToolboxCase) -> AsyncIterator[Toolbox]:
    """A new toolbox of the case, open for the length of a block."""
    toolbox = case.make()
    await toolbox.open()
    try:
        yield toolbox
    finally:
        await toolbox.close()


async def called(toolbox: Toolbox, sample: Sample, number: int = 1) -> object:
    """What one call returns, after what it deferred was released."""
    context = ContractContext(number)
    try:
        async with asyncio.timeout(HANG_S):
            return await toolbox.call(Name(sample.tool), sample.arguments, context)
    finally:
        await context.close()


async def cancelled(toolbox: Toolbox, sample: Sample | None, number: int, wait_s: float, times: int = 1) -> None:
    """Begins a call that does not end, and cancels it; nothing when there is no such call."""
    if sample is None:
        return
    task = asyncio.create_task(called(toolbox, sample, number))
    await asyncio.sleep(wait_s)
    assert not task.done(), f"the endless call of {sample.tool} ended by itself: {task.result()}"
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task], timeout=HANG_S)
    assert task.cancelled(), f"a cancelled call of {sample.tool} went on"


def assert_good(result: object, sample: Sample) -> None:
    assert not isinstance(result, Failed), result
    shown = render(result.value if isinstance(result, Finish) else result, RESULT_CHARS)
    assert sample.text in shown.text


def at_once(toolbox: Toolbox) -> int:
    """How many calls of one tool the kernel would let run side by side, at most 4."""
    if toolbox.sharing is ToolboxSharing.STATELESS:
        return 4
    if toolbox.sharing is ToolboxSharing.POOL:
        return min(4, toolbox.size)
    reads = all(spec.access is Access.READ for spec in toolbox.tools())
    return 4 if toolbox.sharing is ToolboxSharing.READ_WRITE and reads else 1


def _listed(path: str) -> frozenset[str]:
    return frozenset(os.listdir(path) if Path(path).exists() else ())


def children_of_this_process() -> set[int]:
    """Children of this process, adopted ones too; empty where the system does not tell."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            found.update(int(pid) for pid in file.read_bytes().split())
    return found
