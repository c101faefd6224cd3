"""A command that has returned is found again, though its process dies before the next tick."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentos.components import CallState, ConversationState, ConversationStatus, Verdict
from agentos.definitions import PolicyRule
from agentos.events.intake import Control
from tests.support import Lab, Life, Mind, call, calls, crash

ASK: dict[str, Any] = {"policy": [PolicyRule(tool="work", verdict="ask")], "approval": "park"}
Command = Callable[[Lab, str], Awaitable[None]]


async def work() -> str:
    return "worked"


async def _allow(here: Lab, _: str) -> None:
    ((waiting, _state),) = here.kernel.world.find(CallState, status="waiting")
    await here.kernel.answer(waiting, Verdict.ALLOW)


async def _interrupt(here: Lab, conversation: str) -> None:
    await here.kernel.interrupt(conversation)


async def _dies_after(command: Command) -> Life:
    life = Life()
    await life.until_killed(Mind(calls(call("work"))), [work], _parked, **ASK)
    async with life.open(Mind(), [work], **ASK) as here:
        await here.kernel.recover()
        await command(here, life.id)
        crash(here)
    return life


def _parked(here: Lab) -> bool:
    return any(loaded.times.shown == "parked" for loaded in here.kernel.ticker.loaded.values())


@pytest.mark.parametrize(("command", "end"), [(_allow, "completed"), (_interrupt, "cancelled(interrupt)")])
async def test_an_answer_and_an_interrupt_outlive_their_process(command: Command, end: str) -> None:
    life = await _dies_after(command)
    async with life.open(Mind("done"), [work], **ASK) as here:
        async with asyncio.timeout(60):  # else the approval would be waited for again
            _, outcome = await life.recovered(here)

        assert outcome == end


async def test_a_pause_outlives_its_process() -> None:
    life = await _dies_after(lambda here, conversation: here.kernel.control(conversation, Control.PAUSE))
    async with life.open(Mind(), [work], **ASK) as here:
        await here.kernel.recover()
        await here.kernel.ticker.wait_quiet()
        state = here.kernel.world.get(life.id, ConversationState)

        assert state is not None
        assert state.status is ConversationStatus.PAUSED
