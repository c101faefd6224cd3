"""What the contract of clients is played with: a kernel, its mind, a desk of tools, and how answers are compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.components import ApprovalMode, ToolboxSharing
from agentos.definitions import AgentSpec, PolicyRule
from agentos.errors import AgentosError
from agentos.events.entry import Entry
from agentos.events.model import Finish, ModelReply, ModelRequest, ToolCall, Usage
from agentos.ids import Micros
from agentos.kernel import Kernel
from agentos.kernel.client import Operator
from agentos.kernel.lsof import OpenResource, ResourceUser
from agentos.models.base import OnDelta
from agentos.settings import Settings
from agentos.toolboxes.python import PythonToolbox, tool

STRANGE = 'two\nlines, \0, \udcff, \N{SNOWMAN} \N{OGHAM SPACE MARK}, "{"$text": 1}", \x85 and \u2028'
"""A text that wants care on every way."""
TRIES_MAX = 30_000
CONTRACT_SETTINGS = Settings(inbox_poll_ms=20, control_silence_s=30.0)


class Mind:
    """Asks for the tool that an input names, with odd arguments, and then says what came of it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        last = request.messages[-1]
        if last.text in ("tell", "hold", "pay"):
            arguments: dict[str, Any] = {"text": STRANGE, "number": 2**80} if last.text == "tell" else {}
            return ModelReply("", (ToolCall(last.text, arguments),), Finish.TOOL_USE, Usage(3, 1))
        if last.text == "wait":
            await self.gate.wait()
        for piece in ("it ", "is ", "so"):
            on_delta(piece)
            await asyncio.sleep(0)
        return ModelReply("it is so", usage=Usage(3, 2))

    async def close(self) -> None:
        self.gate.set()


class Desk:
    """The tools: one that answers, one that never does, and one that a person has to allow."""

    def __init__(self) -> None:
        self.held = asyncio.Event()

        @tool(effect="pure")
        async def tell(text: str, number: int) -> dict[str, Any]:
            """Tells."""
            return {"text": text, "number": number}

        @tool
        async def hold() -> None:
            """Holds for ever."""
            self.held.set()
            await asyncio.Event().wait()

        @tool
        async def pay() -> str:
            """Pays."""
            return "paid"

        self.tools: list[Callable[..., Any]] = [tell, hold, pay]


class ClientCase:
    """A kernel over a file, and the client under test beside it."""

    def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
        """The client of a kernel, which it does not close."""
        raise NotImplementedError

    @pytest.fixture
    def mind(self) -> Mind:
        return Mind()

    @pytest.fixture
    def desk(self) -> Desk:
        return Desk()

    @pytest.fixture
    async def kernel(self, tmp_path: Path, mind: Mind, desk: Desk) -> AsyncIterator[Kernel]:
        async with Kernel(f"sqlite:///{tmp_path}/store.db", settings=CONTRACT_SETTINGS, control=True) as kernel:
            await kernel.add_toolbox(PythonToolbox("desk", desk.tools, ToolboxSharing.POOL, 4))
            policy = [PolicyRule(tool="pay", verdict="ask")]
            await kernel.install(
                AgentSpec(slug="clerk", toolboxes=["desk"], policy=policy, approval=ApprovalMode.PARK), model=mind
            )
            yield kernel
            await kernel.close(0)

    @pytest.fixture
    async def client(self, kernel: Kernel) -> AsyncIterator[Operator]:
        async with self.client_of(kernel) as client:
            yield client


async def same_error(
    kernel: Kernel, client: Operator, way: Callable[[Operator], Awaitable[object]], type_: type[AgentosError]
) -> None:
    """The client raises what the kernel raises: class, words and attributes."""
    errors = []
    for one in (kernel, client):
        with pytest.raises(type_) as raised:
            await way(one)
        errors.append(raised.value)
    ours, theirs = errors
    assert (type(theirs), str(theirs), vars(theirs)) == (type(ours), str(ours), vars(ours))


def entry_of(entries: list[Entry], kind: str, number: int = 0) -> Entry:
    return [entry for entry in entries if entry.data.kind == kind][number]


def timeless(one: OpenResource) -> OpenResource:
    """Without how long somebody has it, which goes on between two looks."""

    def still(users: tuple[ResourceUser, ...]) -> tuple[ResourceUser, ...]:
        return tuple(msgspec.structs.replace(user, for_ms=0.0, since=Micros(0)) for user in users)

    return msgspec.structs.replace(one, holders=still(one.holders), waiters=still(one.waiters), takes=())


def closeable(items: AsyncIterator[Any]) -> Any:
    """It has to be closed, and every client gives one that can be."""
    assert hasattr(items, "aclose"), "who watches must be able to stop"
    return items


async def until(condition: Callable[[], object]) -> None:
    for _ in range(TRIES_MAX):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")
