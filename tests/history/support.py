"""Real kernels for the tests of history: agents that do what a message spells out; tools that note, wait and fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import agentos
from agentos import AgentSpec, Kernel, tool
from agentos.clock import Clock
from agentos.components import ToolboxSharing
from agentos.definitions import SessionPolicy, SubagentUse
from agentos.events.model import ModelReply, ModelRequest
from agentos.history import Identical, Replayed, Skipped, replay_all, verify_store
from agentos.models import ScriptedModel
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.systems import Schedule
from agentos.testing.clock import ManualClock
from agentos.toolboxes.python import PythonToolbox

Reply = Callable[[ModelRequest], ModelReply]


class Desk:
    """Tools, and what became of their calls: `started` counts those that wait, `gate` lets them go on."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.started = 0
        self.gate = asyncio.Event()

    def toolbox(self, sharing: ToolboxSharing = ToolboxSharing.STATELESS, size: int = 0) -> PythonToolbox:
        @tool
        async def note(text: str) -> str:
            """Keeps a text."""
            self.notes.append(text)
            return f"noted {text}"

        @tool
        async def wait(text: str) -> str:
            """Waits for the gate."""
            self.started += 1
            await self.gate.wait()
            return f"waited {text}"

        @tool(effect="pure")
        async def peek(text: str) -> str:
            """Waits for the gate, and may do it again."""
            self.started += 1
            await self.gate.wait()
            return f"peeked {text}"

        @tool
        async def fail(text: str) -> str:
            """Fails."""
            raise RuntimeError(text)

        return PythonToolbox("desk", [note, wait, peek, fail], sharing=sharing, size=size)

    async def until_started(self, count: int) -> None:
        await until(lambda: self.started >= count)


@asynccontextmanager
async def office(
    store: Store,
    desk: Desk,
    *,
    reply: Reply | None = None,
    clock: Clock | None = None,
    sharing: ToolboxSharing = ToolboxSharing.STATELESS,
    clerk: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Kernel]:
    """A kernel with the agents clerk, who may ask helper and aide, and helper, who may ask aide. reply is the clerk's
    model; all others do what the message spells out."""
    async with agentos.open(store, clock=clock, **options) as kernel:
        await kernel.add_toolbox(desk.toolbox(sharing))
        await kernel.install(AgentSpec(slug="aide", toolboxes=["desk"]))
        await kernel.install(AgentSpec(slug="helper", toolboxes=["desk"], subagents=["aide"]))
        helper = SubagentUse(slug="helper", session=SessionPolicy.REUSE)
        given = {"system_prompt": "Keep order.", **(clerk or {})}
        spec = AgentSpec(slug="clerk", toolboxes=["desk"], subagents=[helper, "aide"], **given)
        await kernel.install(spec, model=ScriptedModel(reply) if reply is not None else None)
        yield kernel


async def crash(kernel: Kernel) -> Store:
    """Ends a kernel as a crash would: nothing more is stored. Gives the store as another process finds it."""
    store = kernel.store
    assert isinstance(store, (MemoryStore, SQLiteStore))
    store.abandon()
    await kernel.close(0)
    return (
        MemoryStore(beside=store)
        if isinstance(store, MemoryStore)
        else SQLiteStore(store.url.removeprefix("sqlite:///"))
    )


async def replayed(store: Store, schedule: Schedule | None = None) -> list[Replayed]:
    """The results for all logs with passes."""
    options: dict[str, Any] = {} if schedule is None else {"schedule": schedule}
    return [result async for result in replay_all(store, **options) if not isinstance(result, Skipped)]


async def assert_history_holds(store: Store, schedule: Schedule | None = None) -> None:
    """Every log is decided again as it is stored, and everything that is stored is what was written."""
    results = await replayed(store, schedule)
    assert results
    for result in results:
        assert isinstance(result, Identical), f"{result}: {result.stored} is not {result.produced}"  # type: ignore[union-attr]
        assert not result.other_rules
        assert not result.erased
    report = await verify_store(store)
    assert report.ok, "\n".join(map(str, report.differences))


async def kinds_of(kernel: Kernel, conversation: str) -> list[str]:
    return [entry.data.kind for entry in await kernel.history(conversation)]


async def settled(kernel: Kernel, conversations: Sequence[str]) -> None:
    """Waits until no turn is open in these."""
    await until(lambda: all(kernel.state_of(id_) in ("idle", "closed", "paused") for id_ in conversations))


async def until(holds: Callable[[], bool]) -> None:
    """Lets others run until it holds. Raises TimeoutError after 60 s."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)


async def advance(clock: ManualClock, seconds: float) -> None:
    """Lets time pass, and what it wakes run."""
    clock.advance(seconds)
    for _ in range(50):
        await asyncio.sleep(0)
