"""The tools of scenarios: small actions in order, and what they leave outside of the kernel, which no crash undoes."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from agentos.clock import Clock
from agentos.components import CallStatus, EffectClass, ToolSpec
from agentos.errors import ToolError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.testing.scenario_cast import Action, Box, Tool
from agentos.toolboxes.base import Doubt

TEXT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "additionalProperties": False,
}


class Effect(msgspec.Struct, frozen=True):
    """A line of the effect file: what a tool did outside, and for which call."""

    text: str
    tool: str
    call: str


class Run(msgspec.Struct, frozen=True):
    """One attempt of a call, noted as its tool begins."""

    call: str
    attempt: int
    tool: str
    effect: EffectClass


class Gate:
    """Holds who comes until somebody opens it, for a few or for good."""

    def __init__(self) -> None:
        self.is_open = False
        self.waiting: list[asyncio.Future[None]] = []

    async def through(self) -> None:
        if self.is_open:
            return
        place = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            await place
        finally:
            if place in self.waiting:
                self.waiting.remove(place)

    def open(self, calls: int | None) -> int:
        """Lets the oldest calls through, or all from now on; returns how many went."""
        self.is_open = self.is_open or calls is None
        going = self.waiting[:calls]
        del self.waiting[: len(going)]
        for place in going:
            if not place.done():
                place.set_result(None)
        return len(going)


class Outside:
    """The world around a kernel: the effect file, the list of what ran, gates, and how full the toolboxes were."""

    def __init__(self, folder: Path, clock: Clock, released: Sequence[str], most_inside: Mapping[str, int]) -> None:
        self._effects, self._runs = folder / "effects", folder / "runs"
        self.clock = clock
        self.gates: dict[str, Gate] = {}
        self.meetings: dict[str, Gate] = {}
        self.inside: Counter[str] = Counter()
        self.most_inside: Counter[str] = Counter(most_inside)
        for tool in released:
            self.gate(tool).open(None)

    def gate(self, tool: str) -> Gate:
        return self.gates.setdefault(tool, Gate())

    @property
    def released(self) -> list[str]:
        return sorted(tool for tool, gate in self.gates.items() if gate.is_open)

    @property
    def held(self) -> int:
        return sum(len(gate.waiting) for gate in self.gates.values())

    def append(self, effect: Effect) -> None:
        """One line, whole and on the disk before this returns."""
        _append(self._effects, effect, sync=True)

    def note(self, run: Run) -> None:
        _append(self._runs, run, sync=False)

    def effects(self) -> list[Effect]:
        return [msgspec.convert(line, Effect) for line in _lines(self._effects)]

    def runs(self) -> list[Run]:
        return [msgspec.convert(line, Run) for line in _lines(self._runs)]

    def ran_twice(self) -> list[str]:
        """What ran more often than it may: an attempt twice, or a second attempt of a call that may do harm."""
        runs = self.runs()
        ran = Counter(f"attempt {run.attempt} of {run.tool} ({run.call})" for run in runs)
        ran.update(f"{run.tool} ({run.call}), a `once` tool," for run in runs if run.effect is EffectClass.ONCE)
        return [f"{what} ran {n} times" for what, n in ran.items() if n > 1]


class ScenarioToolbox:
    """A toolbox as a scenario file describes it."""

    kind: ClassVar[Name] = Name("scenario")

    def __init__(self, name: str, box: Box, outside: Outside) -> None:
        self.name, self.sharing, self.size = Name(name), box.sharing, box.size
        self._tools, self._outside = box.tools, outside

    async def open(self) -> None:
        pass

    def tools(self) -> Sequence[ToolSpec]:
        return [self._spec(name, tool) for name, tool in sorted(self._tools.items())]

    def _spec(self, name: str, tool: Tool) -> ToolSpec:
        return ToolSpec(
            name=Name(name),
            description=f"{name}, for a test.",
            schema=TEXT_SCHEMA,
            effect=tool.effect,
            access=tool.access,
            toolbox=self.name,
            timeout_s=tool.timeout_s,
        )

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        """What its actions say, one after the other."""
        outside, told = self._outside, self._tools[tool]
        outside.note(Run(context.call_id, context.attempt, tool, told.effect))
        outside.inside[self.name] += 1
        outside.most_inside[self.name] = max(outside.most_inside[self.name], outside.inside[self.name])
        effect = Effect(str(arguments.get("text", "")), tool, context.call_id)
        try:
            async with AsyncExitStack() as lent:
                said = [await self._act(action, effect, context, lent) for action in told.does]
        finally:
            outside.inside[self.name] -= 1
        return ", ".join(filter(None, said)) or "done"

    async def _act(self, action: Action, effect: Effect, context: CallContext, lent: AsyncExitStack) -> str:
        outside = self._outside
        if action.borrow is not None:
            await lent.enter_async_context(context.borrow(action.borrow))
            return f"had {action.borrow}"
        if action.call is not None:
            key = "task" if action.call.startswith("ask_") else "text"
            return (await context.call(action.call, {key: effect.text})).text
        if action.fail is not None:
            raise ToolError(action.fail)
        if action.wait_s is not None:
            await outside.clock.sleep(action.wait_s)
            return f"waited {action.wait_s:g} s"
        if action.meet is not None:
            return await self._meet(action.meet, effect.tool)
        if action.act == "append":
            outside.append(effect)
            return f"wrote {effect.text}"
        if action.act == "hold":
            await outside.gate(effect.tool).through()
            return ""
        return f"number {sum(run.tool == effect.tool for run in outside.runs())}"

    async def _meet(self, size: int, tool: str) -> str:
        """All go on once so many are here, which they never are when calls run one after the other."""
        gate = self._outside.meetings.setdefault(tool, Gate())
        if len(gate.waiting) + 1 >= size:
            gate.open(size)
        else:
            await gate.through()
        return f"met {size - 1} others"

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        """A tool that can tell looks into the effect file for its own line."""
        if not self._tools[tool].probe:
            return None
        found = any(effect.call == key for effect in self._outside.effects())
        status = CallStatus.DONE if found else CallStatus.FAILED
        return Doubt(status, "it was done" if found else "it was not done")

    async def close(self) -> None:
        pass


def _append(path: Path, line: msgspec.Struct, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(line) + b"\n")
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
