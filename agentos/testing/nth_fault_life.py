"""The story that `agentos.testing.nth_fault` has told again and again, each part of it in a process of its own.

An agent makes three calls, one of them to another agent, and its process dies in the first. The next one takes the turn
up until it waits for a person, and dies too. The third gets the answer, ends the turn, and takes one more input.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from agentos.clock import SystemClock
from agentos.components import Verdict
from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, ToolCall
from agentos.ids import Micros
from agentos.kernel import Kernel
from agentos.kernel.rest import open_requests
from agentos.models.scripted import ScriptedModel
from agentos.persistence.base import Store
from agentos.ports import CallContext
from agentos.testing.forked import Tell
from agentos.testing.nth_fault_points import SETTINGS
from agentos.testing.pairing import unpaired
from agentos.testing.torture_life import ended, note_effect, others_are_dead, patiently
from agentos.toolboxes.python import PythonToolbox, tool

DIES_IN_A_CALL, DIES_PARKED = 1, 2
"""The parts that end by the death of their process; in the first it comes in a call, in the second while it is parked."""
CALLS = (
    ToolCall("work_once", {"n": 1}),
    ToolCall("work_again", {"n": 2}),
    ToolCall("ask_aide", {"task": "a part of it"}),
)
KEY = "work 1"
PACE = 20
"""So much faster than others the kernel's time goes: what it waits for before it tries again."""
EPOCH = 1_700_000_000_000_000
LOOK_S = 0.002


class HurriedClock(SystemClock):
    """Time that runs PACE times as fast in all processes."""

    def now(self) -> Micros:
        return Micros(EPOCH + PACE * (time.time_ns() // 1000 - EPOCH))

    def monotonic(self) -> float:
        return PACE * time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s / PACE, callback)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s / PACE)


async def live(store: Store, effects: Path, part: int, tell: Tell) -> None:
    """One part: takes up what is there and begins what is not. It tells "a" of the acknowledged input, "o" of the outcomes,
    "z" when all has come to its end. Raises StoreError when it cannot begin."""
    async with Kernel(store, clock=HurriedClock(), settings=SETTINGS) as kernel:
        await patiently(partial(others_are_dead, kernel, tell), tell)
        await _Troupe(kernel, effects, part, tell).enter()
        await patiently(kernel.recover, tell)
        conversation = await patiently(partial(kernel.start, "lead", KEY), tell)
        seq = await patiently(partial(conversation.send, KEY, key=KEY), tell)
        tell(f"a{conversation.id} {seq}")
        person = asyncio.create_task(_answer(kernel, part, tell))
        while await ended(kernel, conversation.id, tell):
            continue
        person.cancel()
        await patiently(partial(conversation.send, "work 2", key="work 2"), tell)
        await ended(kernel, conversation.id, tell)
    tell("z")


async def _answer(kernel: Kernel, part: int, tell: Tell) -> None:
    """The person whom the turn waits for; in the second part nobody comes, and the process dies."""
    while True:
        await asyncio.sleep(LOOK_S)
        for call in open_requests(kernel):
            if part == DIES_PARKED and kernel.ticker.quiet:
                die()
            await patiently(partial(kernel.answer, call, Verdict.ALLOW), tell)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Troupe:
    """The agents and the tools of the story in one kernel."""

    def __init__(self, kernel: Kernel, effects: Path, part: int, tell: Tell) -> None:
        self._kernel, self._effects, self._part, self._tell = kernel, effects, part, tell

    async def enter(self) -> None:
        kernel, tell = self._kernel, self._tell
        await patiently(partial(kernel.add_toolbox, PythonToolbox("desk", self._tools())), tell)
        limits: dict[str, Any] = {"approval": "park", "policy": [{"tool": "guarded", "verdict": "ask"}]}
        lead = AgentSpec(slug="lead", toolboxes=["desk"], subagents=["aide"], **limits)
        for spec in (lead, AgentSpec(slug="aide", toolboxes=["desk"])):
            await patiently(partial(kernel.install, spec, model=ScriptedModel(self._reply)), tell)

    def _tools(self) -> list[Callable[..., Any]]:
        @tool
        async def work_once(context: CallContext, n: int) -> str:
            """May not happen twice; the first time, the process does not survive it."""
            note_effect(self._effects, context, "once")
            if self._part == DIES_IN_A_CALL:
                await self._others_ended()
                die()
            return f"worked {n}"

        @tool(effect="idempotent")
        async def work_again(context: CallContext, n: int) -> str:
            """May happen twice."""
            note_effect(self._effects, context, "again")
            return f"worked {n}"

        @tool
        async def guarded(context: CallContext, n: int) -> str:
            """Needs a person, and may not happen twice."""
            note_effect(self._effects, context, "guarded")
            return f"worked {n}"

        return [work_once, work_again, guarded]

    async def _others_ended(self) -> None:
        """Until nothing runs but this call."""
        while len(self._kernel.runner) > 1 or not self._kernel.ticker.quiet:  # noqa: ASYNC110 - rest tells nobody
            await asyncio.sleep(LOOK_S)

    def _reply(self, request: ModelRequest) -> ModelReply:
        for problem in unpaired(request.messages):
            self._tell(f"!{request.conversation}: {problem}")
        if request.context.slug == "aide":
            return (
                ModelReply(calls=(ToolCall("work_again", {"n": 3}),)) if not request.step_index else ModelReply("done")
            )
        if request.messages[-1].text == "work 2" or request.step_index > 1:
            return ModelReply("done")
        return ModelReply(calls=CALLS if not request.step_index else (ToolCall("guarded", {"n": 4}),))
