"""A kernel whose agent uses the kinds that it is told, under the leak meter: after each turn, and once it is closed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentos.events.model import ModelRequest, Role
from agentos.kernel import Conversation
from agentos.testing.leaks import Leak, LeakMeter, leak_meter
from agentos.testing.rounds import place
from tests.endings.kinds import Here, Meanwhile, boxes, nothing, user
from tests.support import Lab, Mind, Reply, call, calls, lab, results

REPLIES_MAX = 1_000
RESOURCES = frozenset({"resource"})
TOOL_S = 100.0
"""By a clock that stands still unless a test moves it."""


class Bench:
    """meanwhile is what calls do from now on while they have a handle; meter counts what is left since the bench stood.

    outlived are the resources that were still there when a turn went on after its call.
    """

    lab: Lab
    conversation: Conversation

    def __init__(self) -> None:
        self.meanwhile: Meanwhile = nothing
        self.held: asyncio.Queue[Any] = asyncio.Queue()
        self.door = asyncio.Event()
        self.meter = LeakMeter()
        self.outlived: list[Leak] = []

    async def stand(self, lab: Lab, kinds: Sequence[str]) -> None:
        """From here on the meter counts: what is made once for all was made for a call of each kind."""
        self.lab, self.conversation = lab, await lab.start()
        for kind in kinds:
            assert await self.ask(kind) == ("done", f"used {kind}")
        self.meter = LeakMeter(Path(tempfile.gettempdir()))
        self.meter.watch(lab.kernel)
        self.outlived.clear()

    def says(self, request: ModelRequest) -> Reply:
        """The model, which looks at what is left as a call has ended."""
        if _is_result(request):
            self.outlived += self.meter.left(RESOURCES)
        return uses(request)

    async def does(self, kind: str, handle: Any) -> None:
        await self.meanwhile(kind, handle)

    async def hold(self, kind: str, handle: Any) -> None:
        """A call has it until the door is opened."""
        self.held.put_nowait(handle)
        await self.door.wait()

    async def ask(self, *kinds: str) -> tuple[str, str]:
        """One turn that uses these kinds: how the last call to end did, and its text."""
        outcome = await self.conversation.ask(" ".join(kinds))
        assert outcome.completed, outcome
        return (await results(self.conversation))[-1]

    async def check_given_back(self, kind: str) -> None:
        """All that was there before is there, no more, and the next call is served."""
        await self.meter.check()
        self.meanwhile = nothing
        assert await self.ask(kind) == ("done", f"used {kind}")
        await self.meter.check()


@asynccontextmanager
async def bench(
    folder: Path, *kinds: str, scope: str | None = "call", wait_s: float | None = None
) -> AsyncIterator[Bench]:
    """A kernel in memory that has used these kinds once. What is still left when it is closed is an error."""
    async with leak_meter(), place(folder) as at:
        stands, here = Bench(), Here(at.folder, at.url)
        toolboxes = boxes(here, user(here, stands.does, scope=scope, wait_s=wait_s))
        async with lab(Mind(*[stands.says] * REPLIES_MAX), toolboxes=toolboxes, tool_s=TOOL_S) as open_:
            await stands.stand(open_, kinds)
            yield stands
        assert scope != "call" or stands.outlived == []


def uses(request: ModelRequest) -> Reply:
    """Calls `use` for each word that it is told."""
    if _is_result(request):
        return "done"
    return calls(*[call("use", kind=kind) for kind in request.messages[-1].text.split()])


def _is_result(request: ModelRequest) -> bool:
    return request.messages[-1].role is Role.TOOL
