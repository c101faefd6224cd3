"""Tools without a conversation: listed, looked at, and called by the person in charge. Nothing of it is recorded.

No grant, policy or approval stands between the person and the tool; the schema does. Of the kernel's rules, those of the
toolboxes hold: limits of time and output, and what a script may see.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.components import CallStatus, ToolSpec, TurnLimits
from agentos.errors import ConfigurationError, ToolError
from agentos.governance.schema import problems_of
from agentos.ids import CallId, ConversationId, Kind, Name, RandomIds, TurnId, call_id, turn_id
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources import ResourceKind
from agentos.resources.outside import OutsideLoans, OutsideResources
from agentos.resources.process.partial import partial_of
from agentos.toolboxes.base import (
    CutOff,
    Failed,
    Finish,
    Toolbox,
    ToolboxProblem,
    kinds_of,
    notes_of,
    resources_of,
    unavailable_of,
)
from agentos.toolboxes.base import problems_of as toolbox_problems
from agentos.toolboxes.results import Media, text_of

DEPTH_MAX = 8
"""How deep calls of tools may call other tools."""
CALLER = Name("workbench")
"""The agent's name that tools are told."""

Tell = Callable[[Any], None]


class Called(msgspec.Struct, frozen=True):
    """How a call ended: done, failed, also for arguments that do not fit, or timed out. data are the bytes of a result
    that is no text; text then says what they are."""

    call: CallId
    status: CallStatus
    text: str
    kind: Name | None = None
    data: bytes | None = None


class Workbench:
    """Toolboxes that are open. problems and notes are what their files are told of, with the toolbox before the place."""

    def __init__(self) -> None:
        self.problems: list[ToolboxProblem] = []
        self.notes: list[ToolboxProblem] = []
        self._toolboxes: dict[Name, Toolbox] = {}
        self._ids = RandomIds()
        self.resources = OutsideResources()

    def tools(self) -> list[ToolSpec]:
        """All tools, by toolbox and name."""
        return [tool for box in self._toolboxes.values() for tool in box.tools()]

    def found(self, name: str, toolbox: str | None = None) -> list[ToolSpec]:
        """The tools of a name, at most one in each toolbox."""
        return [tool for tool in self.tools() if tool.name == name and toolbox in (None, tool.toolbox)]

    async def call(self, tool: ToolSpec, arguments: Any, tell: Tell = lambda data: None) -> Called:
        """Calls a tool, whatever it does; tell hears its progress. Nothing is raised but a cancellation."""
        return await self._call(tool, arguments, tell, 1)

    async def _call(self, tool: ToolSpec, arguments: Any, tell: Tell, depth: int) -> Called:
        context = _Call(self, self._ids, tool, tell, depth)
        if wrong := problems_of(tool, arguments):
            return Called(context.call_id, CallStatus.FAILED, "\n".join(wrong), Name("invalid"))
        assert tool.toolbox is not None, "a toolbox names itself in its tools"
        try:
            called = await self._ended(tool, arguments or {}, context)
        finally:
            failures = await context.release()
        if failures:
            return msgspec.structs.replace(called, text=f"{called.text}\n(clean-up failed: {'; '.join(failures)})")
        return called

    async def _ended(self, tool: ToolSpec, arguments: dict[str, Any], context: _Call) -> Called:
        assert tool.toolbox is not None, "a toolbox names itself in its tools"
        toolbox = self._toolboxes[tool.toolbox]
        limit = asyncio.timeout(context.timeout_s)
        try:
            async with limit:
                return _done(context, await toolbox.call(tool.name, arguments, context))
        except ToolError as error:
            return Called(context.call_id, CallStatus.FAILED, str(error), Name("tool"))
        except (Exception, SystemExit) as error:  # a tool may raise anything; it is the failure of this call
            if not isinstance(error, TimeoutError) or not limit.expired():
                return Called(context.call_id, CallStatus.FAILED, f"{type(error).__name__}: {error}", Name("raised"))
            so_far = f"\nOutput so far:\n{partial_of(error)}" if partial_of(error) else ""
            text = f"no result within {context.timeout_s:g} s{so_far}"
            return Called(context.call_id, CallStatus.TIMED_OUT, text, Name("timeout"))

    async def call_inside(self, name: str, arguments: dict[str, Any], tell: Tell, depth: int) -> Called:
        """What a tool calls while it runs."""
        found = self.found(name)
        if len(found) != 1:
            return self._not_run(Name("unknown_tool"), f"there are {len(found)} tools named {name!r} here")
        if depth > DEPTH_MAX:
            return self._not_run(Name("depth"), f"calls within calls go {DEPTH_MAX} deep")
        return await self._call(found[0], arguments, tell, depth)

    def kinds_of(self, tool: ToolSpec) -> Mapping[str, ResourceKind]:
        """What the toolbox of a tool declares for its own tools to borrow."""
        return kinds_of(self._toolboxes[tool.toolbox]) if tool.toolbox in self._toolboxes else {}

    def _not_run(self, kind: Name, text: str) -> Called:
        return Called(call_id(self._ids.new(Kind.CONVERSATION), 1), CallStatus.FAILED, text, kind)

    def _take(self, toolbox: Toolbox) -> None:
        self._toolboxes[toolbox.name] = toolbox
        if reason := unavailable_of(toolbox):
            self.problems.append(ToolboxProblem(f"toolbox {toolbox.name}", reason))
            return
        for kept, said in ((self.problems, toolbox_problems(toolbox)), (self.notes, notes_of(toolbox))):
            kept.extend(ToolboxProblem(f"toolbox {toolbox.name}: {one.place}", one.reason) for one in said)
        for shared in resources_of(toolbox):
            self.resources.table.adopt(self.resources.scope, shared)


@asynccontextmanager
async def workbench(toolboxes: Sequence[Toolbox]) -> AsyncIterator[Workbench]:
    """Opens toolboxes for the length of the block; one that cannot be opened is a problem, and takes no other with it."""
    bench = Workbench()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bench.resources.close)
        for toolbox in toolboxes:
            try:
                await toolbox.open()
            except ConfigurationError as error:
                bench.problems.append(ToolboxProblem(f"toolbox {toolbox.name}", str(error)))
                continue
            stack.push_async_callback(toolbox.close)
            bench._take(toolbox)
        yield bench


class _Call(OutsideLoans):
    """The context of a call that belongs to no conversation: see agentos.ports.CallContext. Its ids name nothing stored."""

    def __init__(self, bench: Workbench, ids: RandomIds, tool: ToolSpec, tell: Tell, depth: int) -> None:
        self.agent, self.attempt = CALLER, 1
        self.timeout_s = tool.timeout_s if tool.timeout_s is not None else TurnLimits().tool_s
        self.conversation = ConversationId(ids.new(Kind.CONVERSATION))
        self.turn: TurnId = turn_id(self.conversation, 1)
        self.call_id: CallId = call_id(self.conversation, 2)
        super().__init__(bench.resources, self.call_id, bench.kinds_of(tool))
        self.key: str = self.call_id
        self.clock: Clock = SystemClock()
        self.lineage = Lineage()
        self._bench, self._tell, self._depth = bench, tell, depth
        self._releases: list[Callable[[], Awaitable[None] | None]] = []

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        called = await self._bench.call_inside(tool, arguments, self._tell, self._depth + 1)
        return InnerResult(call=called.call, status=called.status, text=called.text, kind=called.kind)

    def call_from_thread(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        return asyncio.run_coroutine_threadsafe(self.call(tool, arguments), self._loop).result()

    def progress(self, data: Any) -> None:
        self._tell(data)

    def defer(self, release: Callable[[], Awaitable[None] | None]) -> None:
        self._releases.append(release)

    async def release(self) -> list[str]:
        """Newest first; says of each one that failed why, and does the others all the same."""
        self._releases.insert(0, self.give_back)
        failures = []
        for release in reversed(self._releases):
            try:
                done = release()
                if inspect.isawaitable(done):
                    await done
            except Exception as error:  # it is the tool's own
                failures.append(f"{type(error).__name__}: {error}")
        return failures


def _done(context: _Call, value: object) -> Called:
    if isinstance(value, Failed):
        return Called(context.call_id, CallStatus.FAILED, value.text, value.kind)
    if isinstance(value, CutOff):
        return Called(context.call_id, CallStatus.UNKNOWN, value.text, value.kind)
    if isinstance(value, Finish):
        value = value.value
    data = value.data if isinstance(value, Media) else None
    return Called(context.call_id, CallStatus.DONE, text_of(value), data=data)
