"""Agents and tools that do what dice say: the actors of the simulator.

Each throw is made from the seed and a place in a log, so that the same place always gives the same throw, whatever else
happens and however often a process dies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar

from agentos.clock import Clock
from agentos.components import CallStatus, EffectClass, ToolboxSharing, ToolSpec, Verdict
from agentos.errors import ToolError
from agentos.events.model import ModelReply, ModelRequest, ToolCall, Usage
from agentos.ids import CallId, Name
from agentos.models.base import OnDelta
from agentos.ports import CallContext, HookVerdict
from agentos.testing.pairing import unpaired
from agentos.toolboxes.base import Doubt, Finish

WAITS_S = (0.0, 0.0, 0.0, 0.1, 1.0, 3.0)
INNER = {
    "lead": ("air_pure", "air_once", "desk_once", "desk_pure", "ask_twin", "ask_hand", "book_pure"),
    "twin": ("book_pure", "book_once", "pairs_idempotent", "pairs_once", "ask_twin"),
    "hand": ("air_pure", "desk_pure", "pairs_pure", "pairs_once", "pocket_once", "no_such_tool"),
}
"""What the tools of each agent call themselves; not all of it may be used."""
Stored = Callable[[str, int], bool]
"""Whether the start of this attempt of a call is in the store."""
Retried = Callable[[str], int]
"""How often a person had a call tried again, as it is in the store."""


class Ledger:
    """What happened outside, which no crash undoes: which tools ran, and for which requests a model was asked."""

    def __init__(self) -> None:
        self.runs: dict[tuple[CallId, int], str] = {}
        self.once: dict[CallId, int] = {}
        self.done: set[CallId] = set()
        self.inside: dict[str, int] = {}
        self.inner: dict[str, int] = {}
        self.requests = 0
        self.dying = False
        self.broken: list[str] = []

    def next_life(self) -> None:
        """A process died and another begins: nobody is inside a toolbox any more."""
        self.inside.clear()
        self.dying = False


class DiceModel:
    """Answers, makes up to three calls, or makes calls that are no good. Checks each request that it is shown."""

    def __init__(self, seed: int, clock: Clock, ledger: Ledger) -> None:
        self._seed, self._clock, self._ledger = seed, clock, ledger

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self._ledger.requests += 1
        self._ledger.broken += [f"{request.conversation} was shown: {what}" for what in unpaired(request.messages)]
        place = f"{request.conversation} {request.turn} {request.step_index} {request.attempt}"
        random = Random(f"{self._seed} {place}")
        await self._clock.sleep(random.choice(WAITS_S))
        text = f"{random.randrange(1000)} things"
        on_delta(text[:4])
        usage = Usage(10 * len(request.messages), 5)
        names = [str(tool.name) for tool in request.context.tools]
        if not names or random.random() < 0.3 + 0.1 * request.step_index:
            return ModelReply(text=text, usage=usage)
        calls = tuple(_call(random, names) for _ in range(random.choice((1, 1, 2, 3))))
        return ModelReply(text=text if random.random() < 0.5 else "", calls=calls, usage=usage)

    async def close(self) -> None:
        pass


def _call(random: Random, names: Sequence[str]) -> ToolCall:
    if random.random() < 0.04:
        return ToolCall("no_such_tool", {})
    name = random.choice(names)
    if random.random() < 0.04:
        return ToolCall(name, "not an object")
    return ToolCall(name, {"task": f"task {random.randrange(100)}"})


class DiceToolbox:
    """Three tools, one of each effect class, behind one kind of sharing, that now and then make calls of their own. Checks
    its bound, that the start of each call is stored, and that no `once` call runs twice unless a person says so."""

    kind: ClassVar[Name] = Name("dice")

    def __init__(
        self,
        name: str,
        sharing: ToolboxSharing,
        size: int,
        *,
        seed: int,
        clock: Clock,
        ledger: Ledger,
        stored: Stored,
        retried: Retried,
    ) -> None:
        self.name, self.sharing, self.size = Name(name), sharing, size
        self._seed, self._clock, self._ledger, self._stored = seed, clock, ledger, stored
        self._retried = retried

    async def open(self) -> None:
        pass

    def tools(self) -> Sequence[ToolSpec]:
        return [self._tool(effect) for effect in sorted(EffectClass, key=lambda effect: effect.value)]

    def _tool(self, effect: EffectClass) -> ToolSpec:
        return ToolSpec(
            name=Name(f"{self.name}_{effect.value}"),
            description=f"Works at the {self.name}; twice is {effect.value}.",
            schema={"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]},
            effect=effect,
            toolbox=self.name,
        )

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        self._enter(tool, context)
        try:
            return await self._work(Random(f"{self._seed} {context.call_id} {context.attempt}"), arguments, context)
        finally:
            self._ledger.inside[self.name] = max(0, self._ledger.inside.get(self.name, 0) - 1)

    def _enter(self, tool: Name, context: CallContext) -> None:
        ledger = self._ledger
        place = (context.call_id, context.attempt)
        if place in ledger.runs:
            ledger.broken.append(f"{tool} ran twice for {place}")
        ledger.runs[place] = tool
        if tool.endswith(EffectClass.ONCE.value):
            ledger.once[context.call_id] = times = ledger.once.get(context.call_id, 0) + 1
            if times > 1 + self._retried(context.call_id):
                ledger.broken.append(f"{tool}, a `once` tool, ran {times} times for {context.call_id}")
        if not self._stored(*place):
            ledger.broken.append(f"{tool} ran for {place}, whose start is not stored")
        inside = ledger.inside[self.name] = ledger.inside.get(self.name, 0) + 1
        bound = {ToolboxSharing.EXCLUSIVE: 1, ToolboxSharing.POOL: self.size}.get(self.sharing)
        if bound is not None and inside > bound:
            ledger.broken.append(f"{inside} calls are inside {self.name}, which bears {bound}")

    async def _work(self, random: Random, arguments: dict[str, Any], context: CallContext) -> object:
        throw = random.random()
        if throw < 0.1:
            context.defer(self._tidy_up)
        if throw > 0.9:
            context.progress({"half": True})
        await self._clock.sleep(random.choice(WAITS_S))
        if throw < 0.05:
            raise ToolError("the dice said no")
        if 0.15 < throw < 0.4:
            await asyncio.gather(*(self._call_another(random, context) for _ in range(random.choice((1, 1, 2, 3)))))
        self._ledger.done.add(context.call_id)
        if 0.1 < throw < 0.15:
            return Finish(f"final word on {arguments['task']}")
        return {"did": arguments["task"], "times": [1] * random.randrange(5)}

    async def _call_another(self, random: Random, context: CallContext) -> None:
        """What it brings is of this process; that it is in the log, and how it ended there, is for the checks to see."""
        inner = await context.call(random.choice(INNER[context.agent]), {"task": f"inner task {random.randrange(100)}"})
        self._ledger.inner[inner.status.value] = self._ledger.inner.get(inner.status.value, 0) + 1

    async def _tidy_up(self) -> None:
        """Takes a moment; in a process that dies no moment passes any more."""
        if not self._ledger.dying:
            await self._clock.sleep(0.2)

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        """Half of the toolboxes remember what they did."""
        await self._clock.sleep(0.1)
        if len(self.name) % 2:
            return None
        done = CallId(key) in self._ledger.done
        return Doubt(CallStatus.DONE if done else CallStatus.FAILED, "it was done" if done else "it was not done")

    async def close(self) -> None:
        pass


class DiceHook:
    """Lets most calls pass, and denies, asks, changes, raises or hangs in the others."""

    name = Name("dice")

    def __init__(self, seed: int, clock: Clock) -> None:
        self._seed, self._clock = seed, clock

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
        random = Random(f"{self._seed} hook {call}")
        throw = random.random()
        await self._clock.sleep(random.choice(WAITS_S))
        if throw < 0.03:
            raise RuntimeError("the hook has a bug, for a test")
        if throw < 0.05:
            await asyncio.get_running_loop().create_future()
        if throw < 0.1:
            return HookVerdict(verdict=Verdict.DENY, reason="the dice said no")
        if throw < 0.15:
            return HookVerdict(verdict=Verdict.ASK)
        if throw < 0.25:
            return HookVerdict(arguments={"task": "another one"})
        return HookVerdict() if throw < 0.5 else None
