"""Circles through several kinds of waiting: resources, bounds, slots of toolboxes, subagents; and through pools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.clock import Clock
from agentos.components import Concern, Pattern, ToolboxSharing
from agentos.errors import ResourceDeadlock
from agentos.ids import RandomIds
from agentos.ports import CallContext
from agentos.resources import Factory, Level, Resources, Scope, Shared
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from agentos.toolboxes.python import PythonToolbox
from tests.resources.lending import notes_of, printer, replays
from tests.support import Mind, call, calls, lab, results, settled, until


@pytest.mark.parametrize("through", ["use_slot", "ask_aide"])
async def test_a_circle_of_a_resource_a_bound_and_a_slot_is_named_and_ends_with_who_closed_it(through: str) -> None:
    """A holds the slot and waits for the printer; B holds that and waits for a handle; C has the only one, and wants the
    slot, itself or by a subagent."""
    doors = {name: asyncio.Event() for name in "abc"}
    inside: list[str] = []

    async def hold(name: str) -> None:
        inside.append(name)
        await doors[name].wait()

    async def hold_slot(context: CallContext) -> str:
        await hold("a")
        async with context.borrow("printer"):
            return "printed"

    async def use_slot() -> str:
        return "used"

    async def hold_printer(context: CallContext) -> str:
        async with context.borrow("printer"):
            await hold("b")
            async with context.resource("tempdir"):
                return "stored"

    async def hold_handle(context: CallContext) -> str:
        async with context.resource("tempdir"):
            await hold("c")
            arguments = {"task": "go"} if through == "ask_aide" else {}
            return (await context.call(through, arguments)).text

    narrow = PythonToolbox("narrow", [hold_slot, use_slot], ToolboxSharing.EXCLUSIVE)
    wide = PythonToolbox("wide", [hold_printer, hold_handle])
    aide = Mind(calls(call("use_slot")), lambda request: f"I got: {request.messages[-1].text}")
    minds = {"a": Mind(calls(call("hold_slot"))), "b": Mind(calls(call("hold_printer")))}
    others: dict[str, Any] = {name: (mind, {}) for name, mind in minds.items()} | {"aide": (aide, {})}
    options = {"settings": Settings(handles_max=2)}  # the printer is one of them
    async with lab(
        Mind(calls(call("hold_handle"))), toolboxes=[narrow, wide], others=others, subagents=["aide"], options=options
    ) as here:
        await printer(here)
        conversations = [await here.start(agent) for agent in ("a", "b", "main")]
        asked = [asyncio.ensure_future(conversation.ask("go")) for conversation in conversations]
        await until(lambda: len(inside) == 3)
        for door in doors.values():
            door.set()
            await settled(here.kernel)
        await until(lambda: all(one.done() for one in asked))

        assert [(await results(one))[-1][1] for one in conversations[:2]] == ["printed", "stored"]
        text = (await results(conversations[2]))[-1][1]
        for said in ("waits for narrow", "waits for printer", "waits for handles_max"):
            assert said in text
        assert [await replays(here.kernel, one.id) for one in conversations] == [True] * 3
        assert [await notes_of(one) for one in conversations[:2]] == [[], []]
        assert not here.kernel.slots.statistics()


async def made(clock: Clock, size: int) -> tuple[Scope, Resources, Shared[list[int]]]:
    async def handle() -> list[int]:
        return []

    scope, all_ = Scope(Level.PROGRAM, "program"), Resources(clock, RandomIds(), hold_warn_s=1_000, wait_warn_s=1_000)
    pool = await all_.create(scope, "thing", "pool", Factory(handle), pattern=Pattern.POOL, size=size)
    return scope, all_, pool


@pytest.mark.parametrize("agents", [8, 9, 30])
async def test_more_who_each_have_one_of_a_pool_and_want_another_than_it_has_all_end(agents: int) -> None:
    """Each time all that hold wait, the last to ask is refused, and what it had lets somebody in."""
    size = 8
    scope, all_, pool = await made(ManualClock(), size)
    told: list[Concern] = []
    all_.lookout.noted_to = lambda note: told.append(note.what)
    ended: list[str] = []

    async def take() -> None:
        async with pool.borrow():
            await asyncio.sleep(0)
            try:
                async with pool.borrow():
                    ended.append("both")
            except ResourceDeadlock:
                ended.append("refused")

    await asyncio.gather(*(take() for _ in range(agents)))
    shown = pool.statistics()
    await scope.close()
    all_.shut()

    assert len(ended) == agents
    assert ended.count("both") >= size - 1
    assert told == [Concern.DEADLOCK] * ended.count("refused")
    assert not shown.holders
    assert not shown.waiters
