"""A crash right before or after any append: nothing acknowledged is lost, nothing happens twice, all comes to an end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from agentos.components import CallState, EffectClass, ToolboxSharing, Verdict, Waiting
from agentos.definitions import AgentSpec
from agentos.errors import StoreUnavailable
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall
from agentos.kernel import Kernel
from agentos.models.scripted import ScriptedModel
from agentos.persistence.memory import MemoryStore
from agentos.ports import CallContext
from agentos.testing.aftermath import problems_of
from agentos.testing.checker import Checker, at_once
from agentos.testing.clock import ManualClock
from agentos.testing.faults import Fault, FaultPlan, FaultyStore
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.testing.lives import one_life
from agentos.testing.pairing import unpaired
from agentos.toolboxes.python import PythonToolbox, tool

CALLS = (
    ToolCall("work_once", {"n": 1}),
    ToolCall("work_again", {"n": 2}),
    ToolCall("ask_aide", {"task": "a part of it"}),
    ToolCall("work_once", {"n": 3}),
    ToolCall("guarded", {"n": 4}),
)
INNER_CALLS = (ToolCall("portal", {"n": 1}), ToolCall("work_once", {"n": 2}))
"""One of them makes calls of all kinds itself."""
SPINS_MAX = 3_000


class Story:
    """One turn with calls of all kinds, told by as many kernels as it takes; what happened outside is kept."""

    def __init__(self, n: int, kind: str, calls: tuple[ToolCall, ...] = CALLS) -> None:
        self.calls = calls
        self.data, self.clock = MemoryStore(), ManualClock()
        self.plan = FaultPlan([Fault("store.append", n, kind)])
        self.checker = Checker(self.data)
        self.ids, self.salts = SequentialIds(), SequentialSalts()
        self.happened: Counter[tuple[str, EffectClass]] = Counter()
        self.broken: list[str] = []
        self.conversation, self.input = "", 0
        self.toolboxes = self._toolboxes()

    def run(self) -> None:
        over = False
        while not over:
            with one_life() as runner:
                over = runner.run(self._life())
                self.data.abandon()
            self.clock = self.clock.after_a_crash()
        self.broken += self.checker.broken + asyncio.run(self._aftermath())

    async def _aftermath(self) -> list[str]:
        try:
            return await problems_of(self.data)
        finally:
            await self.data.close()

    async def _life(self) -> bool:
        store = FaultyStore(self.data, self.plan)
        kernel = Kernel(store, ids=self.ids, clock=self.clock, salts=self.salts)
        try:
            await kernel.__aenter__()
            self.checker.watch(kernel)
            await self._enter(kernel)
            await kernel.recover()
            asking = None if self.input else asyncio.ensure_future(self._ask(kernel))
            for _ in range(SPINS_MAX):
                if store.is_gone:
                    break
                if (asking is None or asking.done()) and not at_once(self.data.open_logs()):
                    return self.input > 0
                await self._move(kernel)
        except StoreUnavailable:
            assert store.is_gone
        kernel.ticker.after_tick = None
        assert store.is_gone, "it never came to an end"
        return False

    async def _ask(self, kernel: Kernel) -> None:
        try:
            self.conversation = self.conversation or (await kernel.start("lead", "the one")).id
            self.input = await kernel.send(self.conversation, "go", key="the input")
        except StoreUnavailable:
            assert self.plan.fired

    async def _move(self, kernel: Kernel) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
        for call, _ in kernel.world.find(CallState, waiting=Waiting.APPROVAL):
            await kernel.answer(call, Verdict.ALLOW)
        self.clock.advance(0.1)

    async def _enter(self, kernel: Kernel) -> None:
        for toolbox in self.toolboxes:
            await kernel.add_toolbox(toolbox)
        limits: dict[str, Any] = {"approval": "park", "policy": [{"tool": "guarded", "verdict": "ask"}]}
        lead = AgentSpec(slug="lead", toolboxes=["desk", "air"], subagents=["aide"], **limits)
        for spec in (lead, AgentSpec(slug="aide", toolboxes=["air"])):
            await kernel.install(spec, model=ScriptedModel(self._reply, self.clock))

    def _toolboxes(self) -> tuple[PythonToolbox, ...]:
        """The same for all lives, which keep nothing in them."""

        async def happen(context: CallContext, n: int, effect: EffectClass) -> str:
            self.happened[context.key, effect] += 1
            await self.clock.sleep(0.3 * n)
            return f"worked {n}"

        @tool
        async def work_once(context: CallContext, n: int) -> str:
            """May not happen twice."""
            return await happen(context, n, EffectClass.ONCE)

        @tool
        async def guarded(context: CallContext, n: int) -> str:
            """Needs a person, and may not happen twice."""
            return await happen(context, n, EffectClass.ONCE)

        @tool(effect="idempotent")
        async def work_again(context: CallContext, n: int) -> str:
            """May happen twice."""
            return await happen(context, n, EffectClass.IDEMPOTENT)

        @tool(effect="idempotent")
        async def portal(context: CallContext, n: int) -> str:
            """Makes calls of its own."""
            inner = [context.call(name, {"n": n}) for name in ("work_once", "work_again", "guarded")]
            ended = await asyncio.gather(*inner, context.call("ask_aide", {"task": "it"}))
            return ", ".join(one.status.value for one in ended)

        return (
            PythonToolbox("desk", [work_once, guarded], ToolboxSharing.EXCLUSIVE),
            PythonToolbox("air", [work_again, portal], ToolboxSharing.STATELESS),
        )

    def _reply(self, request: ModelRequest) -> ModelReply:
        self.broken += unpaired(request.messages)
        if request.messages[-1].role is Role.TOOL:
            return ModelReply(text="done")
        return ModelReply(calls=self.calls if request.context.slug == "lead" else (ToolCall("work_again", {"n": 2}),))


@pytest.mark.parametrize("kind", ["crash_before", "crash_after"])
@pytest.mark.parametrize("calls", [CALLS, INNER_CALLS], ids=["calls", "inner calls"])
def test_a_crash_at_any_append_is_survived(kind: str, calls: tuple[ToolCall, ...]) -> None:
    n, fired = 0, True
    while fired:
        n += 1
        story = Story(n, kind, calls)
        story.run()
        fired = bool(story.plan.fired)
        once = {key: times for (key, effect), times in story.happened.items() if effect is EffectClass.ONCE}
        kinds = [entry.kind for entry in at_once(story.data.entries(story.conversation))]

        assert story.broken == [], f"{kind} at append {n}"
        assert all(times == 1 for times in once.values()), f"{kind} at append {n}: {once}"
        assert kinds.count("input.received") == 1
        assert kinds.count("turn.finished") == 1

    assert n > 15
