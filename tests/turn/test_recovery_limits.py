"""Limits and waits over restarts: what goes on, what is counted, and what is given up."""

from __future__ import annotations

import asyncio
from typing import Any

from agentos.components import CallState, ToolboxSharing, Verdict
from agentos.definitions import PolicyRule
from agentos.errors import ModelError
from agentos.toolboxes.python import tool
from tests.support import (
    Lab,
    Life,
    Mind,
    call,
    calls,
    crash,
    hang,
    results,
    settled,
    until,
)


async def test_a_turn_that_dies_with_its_process_again_and_again_is_given_up() -> None:
    life = Life()
    await life.until_killed(Mind(hang), [], lambda here: here.minds["main"].requests)
    for _ in range(3):
        async with life.open(Mind(hang)) as here:
            await here.kernel.recover()
            await until(lambda: here.minds["main"].requests)
            crash(here)
    last = Mind("never", "well again")
    async with life.open(last) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "failed(no_progress)"
        assert last.requests == []
        assert (await conversation.ask("go on")).completed


async def test_a_call_that_dies_with_its_process_again_and_again_is_given_up() -> None:
    """It may be run again each time; but a tool that kills its process would be run for ever."""
    life = Life()
    ran: list[int] = []

    @tool(effect="pure")
    async def deadly() -> None:
        ran.append(1)
        await hang()

    await life.until_killed(Mind(calls(call("deadly"))), [deadly], lambda _: ran)
    for n in range(2, 5):
        async with life.open(Mind(), [deadly]) as here:
            await here.kernel.recover()
            await until(lambda n=n: len(ran) == n)
            crash(here)
    async with life.open(Mind("well again"), [deadly]) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "failed(no_progress)"
        assert len(ran) == 4
        assert [status for status, _ in await results(conversation)] == ["lost"] * 3 + ["unknown(no_progress)"]
        assert (await conversation.ask("go on")).text == "well again"


async def test_a_turn_that_waits_for_a_person_is_taken_up_however_often_its_process_ends() -> None:
    """Nothing is lost with a process that only waits."""
    life = Life()
    ask: dict[str, Any] = {"policy": [PolicyRule(tool="work", verdict="ask")], "approval": "park"}
    await life.until_killed(Mind(calls(call("work"))), [_plain], _parked, **ask)
    for _ in range(5):
        async with life.open(Mind(), [_plain], **ask) as here:
            await here.kernel.recover()
            await settled(here.kernel)
            crash(here)
    async with life.open(Mind("done"), [_plain], **ask) as here:
        await here.kernel.recover()
        ((waiting, _),) = here.kernel.world.find(CallState, status="waiting")
        ended = asyncio.create_task(here.kernel.outcome(life.id))
        await here.kernel.answer(waiting, Verdict.ALLOW)

        assert str(await ended) == "completed"


async def test_an_interrupt_ends_a_call_that_waits_to_be_run_again() -> None:
    """Recovered, but its toolbox is in use by another conversation; then its turn is interrupted."""
    life, inside, door = Life(), asyncio.Event(), asyncio.Event()

    @tool(effect="pure")
    async def use() -> str:
        if inside.is_set():
            await door.wait()
            return "used"
        inside.set()
        await hang()
        return "never"

    box: dict[str, Any] = {"sharing": ToolboxSharing.EXCLUSIVE}
    await life.until_killed(Mind(calls(call("use"))), [use], lambda _: inside.is_set(), **box)
    async with life.open(Mind(calls(call("use"))), [use], **box) as here:
        other = asyncio.create_task(here.ask())
        await until(here.kernel.slots.statistics)
        await here.kernel.recover()
        ended = asyncio.create_task(here.kernel.outcome(life.id))
        await settled(here.kernel)
        await here.kernel.interrupt(life.id)
        outcome = await ended
        door.set()

        assert str(outcome) == "cancelled(interrupt)"
        assert (await other).completed
        assert here.kernel.slots.statistics() == []


async def test_progress_begins_the_count_of_recoveries_anew() -> None:
    life = Life()
    await life.until_killed(Mind(hang), [_plain], lambda here: here.minds["main"].requests)
    for _ in range(6):
        waiting = asyncio.Event()

        async def then_hang(_: object, waiting: asyncio.Event = waiting) -> Any:
            waiting.set()
            await hang()

        async with life.open(Mind(calls(call("work")), then_hang), [_plain]) as here:
            await here.kernel.recover()
            await until(waiting.is_set)
            crash(here)
    async with life.open(Mind("done at last"), [_plain]) as here:
        _, outcome = await life.recovered(here)

        assert outcome == "completed"


async def _plain() -> str:
    return "worked"


_plain.__name__ = "work"


async def test_a_wait_for_a_retry_goes_on_after_a_restart() -> None:
    life = Life()
    broken = ModelError("rate_limit", "later", retry_after_s=30)
    await life.until_killed(Mind(broken), [], _parked)
    second = Mind("there")
    async with life.open(second) as here:
        await here.kernel.recover()
        await here.advance(29)
        early = len(second.requests)
        await here.advance(2)

        assert early == 0
        assert len(second.requests) == 1


async def test_a_time_limit_holds_over_a_restart() -> None:
    life = Life()
    await life.until_killed(Mind(hang), [], lambda here: here.minds["main"].requests, turn_s=60)
    async with life.open(Mind(hang), turn_s=60) as here:
        await here.kernel.recover()
        ended = asyncio.create_task(here.kernel.outcome(life.id))
        await here.advance(60)

        assert str(await ended) == "limit(time)"


async def test_a_request_to_a_person_expires_after_a_restart() -> None:
    life = Life()
    policy = [PolicyRule(tool="work", verdict="ask")]
    more: dict[str, Any] = {"policy": policy, "approval": "park", "approval_s": 60}
    mind = Mind(calls(call("work")))
    await life.until_killed(mind, [_plain], _parked, **more)
    second = Mind()
    async with life.open(second, [_plain], **more) as here:
        await here.kernel.recover()
        ended = asyncio.create_task(here.kernel.outcome(life.id))
        await here.advance(60)
        await ended

        assert second.results == ["not run: nobody answered in time"]


def _parked(here: Lab) -> bool:
    return any(loaded.times.shown == "parked" for loaded in here.kernel.ticker.loaded.values())
