"""What the tests of turns and cases share: a kernel in memory whose models say what they are told, and looks at it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentos.components import ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.errors import KernelClosed
from agentos.events.entry import Entry
from agentos.events.kinds import ModelRequested
from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.models.base import OnDelta
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.testing.checker import Checker
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.testing.pairing import unpaired
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.python import PythonToolbox

Reply = str | ModelReply | BaseException | Callable[[ModelRequest], Any]
"""A text, a whole reply, something to raise, or a function (sync or async) of the request that gives one of these."""

SPINS_MAX = 4_000
LOOKS_MAX, LOOK_S = 30_000, 0.002
"""How often, and how far apart, something is looked for that others do: a guard, no measure."""
T = TypeVar("T")


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


def copy_of(function: Any) -> Any:
    """Does the same, for a tool of another name."""

    async def copy() -> Any:
        return await function()

    return copy


def calls(*asked: ToolCall, text: str = "", finish: Finish = Finish.TOOL_USE) -> ModelReply:
    return ModelReply(text, asked, finish, Usage(10, 5))


class Mind:
    """A model that gives its replies one after the other, then "done". It keeps what it was shown, and what was wrong."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.shown: list[list[Message]] = []
        self.broken: list[str] = []
        self.closed = 0

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.requests.append(request)
        self.shown.append(list(request.messages))
        self.broken += unpaired(request.messages)
        said: Any = self._replies.pop(0) if self._replies else "done"
        while callable(said):
            said = said(request)
            if inspect.isawaitable(said):
                said = await said
        if isinstance(said, BaseException):
            raise said
        reply = said if isinstance(said, ModelReply) else ModelReply(str(said), usage=Usage(10, 5))
        if reply.text:
            on_delta(reply.text)
        return reply

    async def close(self) -> None:
        self.closed += 1

    @property
    def results(self) -> list[str]:
        """The results at the end of the last request."""
        texts: list[str] = []
        for message in reversed(self.shown[-1]):
            if message.role is not Role.TOOL:
                break
            texts.append(message.text)
        return texts[::-1]


class Lab:
    """An open kernel, and what it was opened with."""

    def __init__(self, kernel: Kernel, clock: ManualClock, minds: Mapping[str, Mind]) -> None:
        self.kernel, self.clock, self.minds = kernel, clock, minds

    async def start(self, agent: str = "main") -> Conversation:
        return await self.kernel.start(agent)

    async def ask(self, text: str = "go", agent: str = "main") -> RunOutcome:
        """The outcome of the first turn of a new conversation."""
        return await (await self.start(agent)).ask(text)

    async def moving(self, work: Awaitable[T]) -> T:
        """The value of something that polls, with the time going on until it is there."""
        task = asyncio.ensure_future(work)
        for _ in range(SPINS_MAX):
            if task.done():
                break
            await self.advance(0.01)
        return await task

    async def advance(self, seconds: float) -> None:
        """Time passes, and what it sets off happens."""
        await settled(self.kernel)
        self.clock.advance(seconds)
        await settled(self.kernel)


@asynccontextmanager
async def lab(
    mind: Mind | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    *,
    sharing: ToolboxSharing = ToolboxSharing.STATELESS,
    size: int = 0,
    toolboxes: Sequence[Toolbox] = (),
    others: Mapping[str, tuple[Mind, Mapping[str, Any]]] | None = None,
    store: Store | None = None,
    clock: ManualClock | None = None,
    first_id: int = 1,
    options: Mapping[str, Any] | None = None,
    **spec: Any,
) -> AsyncIterator[Lab]:
    """A kernel with an agent `main` that has the tools in a toolbox `box`, and other agents by slug with their specs.

    Every invariant is checked after every tick, and every request that a model is shown.
    """
    clock = clock or ManualClock()
    store = store or MemoryStore()
    checker = Checker(getattr(store, "inner", store))
    minds = {"main": mind or Mind(), **{slug: other for slug, (other, _) in (others or {}).items()}}
    specs = {"main": spec, **{slug: dict(other) for slug, (_, other) in (others or {}).items()}}
    kernel = Kernel(store, ids=SequentialIds(first_id), clock=clock, salts=SequentialSalts(), **(options or {}))
    try:
        async with kernel:
            checker.watch(kernel)
            boxes = [*toolboxes, PythonToolbox("box", tools, sharing, size)] if tools else toolboxes
            for toolbox in boxes:
                await kernel.add_toolbox(toolbox)
            for slug, more in specs.items():
                more.setdefault("toolboxes", [toolbox.name for toolbox in boxes])
                await kernel.install(AgentSpec(slug=slug, **more), model=minds[slug])
            yield Lab(kernel, clock, minds)
            await kernel.close(0)
    finally:
        kernel.ticker.after_tick = None
    broken = [what for other in minds.values() for what in other.broken] + checker.broken
    assert not broken, broken


def crash(here: Lab) -> None:
    """As kill -9 leaves it: what was not stored is gone, nobody is told, and the writer of the store is dead."""
    here.kernel.ticker.after_tick = None
    here.kernel.ticker.start_no_more()
    store = here.kernel.store
    assert isinstance(store, MemoryStore), "another store is not abandoned in the middle of a process"
    store.abandon()


class Life:
    """One store and one clock, over several processes."""

    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(), ManualClock()
        self.lives = 0
        self.id = ""

    def open(
        self, mind: Mind, tools: Sequence[Callable[..., Any]] = (), **more: Any
    ) -> AbstractAsyncContextManager[Lab]:
        """The next process, as `lab` would open it."""
        self.lives += 1
        self.clock = self.clock.after_a_crash()
        return lab(mind, tools, store=self.store, clock=self.clock, first_id=self.lives * 100, **more)

    async def until_killed(
        self, mind: Mind, tools: Sequence[Callable[..., Any]], when: Callable[[Lab], object], **more: Any
    ) -> None:
        """A process that takes an input, and dies as soon as something is true."""
        async with self.open(mind, tools, **more) as here:
            conversation = await here.start()
            self.id = conversation.id
            asked = asyncio.ensure_future(conversation.ask("go"))
            await until(lambda: when(here))
            crash(here)
        await asyncio.wait([asked])
        assert isinstance(asked.exception(), KernelClosed)

    async def recovered(self, here: Lab) -> tuple[Conversation, str]:
        """The conversation once its turn has ended, and how that ended."""
        await here.kernel.recover()
        await here.kernel.outcome(self.id)
        sql = "select outcome || coalesce('(' || outcome_name || ')', '') from turns order by seq desc limit 1"
        return await here.kernel.get(self.id), str((await here.kernel.query(sql)).rows[0][0])


async def hang(*_: object) -> Any:
    """A model or a tool that never ends by itself."""
    await asyncio.get_running_loop().create_future()


async def units(conversation: Conversation) -> list[list[str]]:
    """The kinds of entries, unit by unit."""
    found: dict[int, list[str]] = {}
    for entry in await conversation.history():
        found.setdefault(entry.unit, []).append(entry.data.kind)
    return list(found.values())


async def kinds(conversation: Conversation) -> list[str]:
    return [entry.data.kind for entry in await conversation.history()]


async def results(conversation: Conversation) -> list[tuple[str, str]]:
    """Status, with its kind, and text of each finished call, in the order of the log."""
    found = []
    for entry in await entries_of(conversation, "call.finished"):
        data: Any = entry.data
        status = f"{data.status.value}({data.call_kind})" if data.call_kind else data.status.value
        found.append((status, str(entry.private[0][1])))
    return found


def key_file(path: Path, **keys: str) -> Path:
    """Written there: a file of keys by their ids."""
    path.write_text(json.dumps({"keys": [{"id": id_, "value": value} for id_, value in keys.items()]}))
    return path


async def entries_of(conversation: Conversation, kind: str) -> list[Entry]:
    return [entry for entry in await conversation.history() if entry.data.kind == kind]


async def digests(conversation: Conversation) -> list[str]:
    """The digests of all requests."""
    found = [entry.data for entry in await conversation.history()]
    return [data.request for data in found if isinstance(data, ModelRequested)]


async def until(condition: Callable[[], object] | Callable[[], Awaitable[object]]) -> None:
    """Lets others run until it holds. A condition that never comes true is a failure, not a hang."""
    for spin in range(LOOKS_MAX):
        found: Any = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        await asyncio.sleep(0 if spin < 200 else LOOK_S)
    raise AssertionError("it never came true")


async def spin(times: int = 30) -> None:
    """Lets all others run so many steps."""
    for _ in range(times):
        await asyncio.sleep(0)


async def settled(kernel: Kernel) -> None:
    """Until nothing goes on without something from outside: a clock, an open door, a person."""
    for _ in range(3):
        await spin(20)
        await kernel.ticker.wait_quiet()
