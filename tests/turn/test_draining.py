"""A kernel that is about to close lets the open turns end, and begins no others: what waits is for the next kernel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.errors import KernelClosed
from agentos.events.model import Role
from agentos.kernel import Conversation
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from tests.support import Lab, Life, Mind, call, calls, hang, kinds, lab, settled, until

GRACE_S = 60.0


class Door:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.entered, self._gate = asyncio.Event(), asyncio.Event()

    async def knock(self) -> str:
        """Waits at the door."""
        self.entered.set()
        await self._gate.wait()
        return "open"

    def open(self) -> None:
        self._gate.set()


async def draining(here: Lab, door: Door, asks: Conversation) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
    """The turn that is open, with a call that runs, and the close of the kernel that waits for it."""
    asked = asyncio.ensure_future(asks.ask("first"))
    await door.entered.wait()
    return asked, asyncio.ensure_future(here.kernel.close(GRACE_S))


async def test_the_turn_of_an_input_that_waits_is_left_to_the_next_kernel() -> None:
    life, door = Life(), Door()
    async with life.open(Mind(calls(call("knock")), "first"), [door.knock]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("first"))
        await door.entered.wait()
        later = asyncio.ensure_future(conversation.ask("second"))
        await settled(here.kernel)
        closing = asyncio.ensure_future(here.kernel.close(GRACE_S))
        await settled(here.kernel)
        door.open()
        first = await asked
        with pytest.raises(KernelClosed):
            await later
        await closing
        requests = len(here.minds["main"].requests)
    async with life.open(Mind()) as here:
        again = await here.kernel.get(conversation.id)
        assert (await kinds(again))[-1] == "turn.finished"
        await here.kernel.recover()
        await until(lambda: again.state == "idle")
        shown = [message.text for message in here.minds["main"].shown[-1] if message.role is Role.USER]

    assert first.text == "first"
    assert requests == 2
    assert shown == ["first", "second"]


async def test_an_input_that_comes_by_the_store_meanwhile_waits_too() -> None:
    life, door = Life(), Door()
    async with life.open(Mind(calls(call("knock")), "first"), [door.knock]) as here:
        idle = await here.start()
        asked, closing = await draining(here, door, await here.start())
        async with lab(Mind(), store=MemoryStore(life.store), clock=life.clock, first_id=500) as other:
            await here.moving(other.kernel.send(idle.id, "later"))
        door.open()
        await asyncio.gather(asked, closing)
    async with life.open(Mind()) as here:
        before = await kinds(await here.kernel.get(idle.id))
        await here.kernel.recover()
        await until(lambda: here.minds["main"].requests)
        (message,) = here.minds["main"].shown[0]

    assert before == ["conversation.started", "input.received"]
    assert message.text == "later"


async def test_a_subagent_that_an_open_turn_asks_meanwhile_does_its_task() -> None:
    door = Door()
    main = Mind(calls(call("knock")), calls(call("ask_helper", task="count")), "both")
    helper = Mind("counted")
    async with lab(main, [door.knock], subagents=["helper"], others={"helper": (helper, {})}) as here:
        asked, closing = await draining(here, door, await here.start())
        await settled(here.kernel)
        door.open()
        outcome = await asked
        await closing

    assert outcome.text == "both"
    assert len(helper.requests) == 1


async def test_what_a_dead_process_left_is_not_taken_up_meanwhile() -> None:
    life, door = Life(), Door()
    await life.until_killed(Mind(hang), [], lambda here: here.minds["main"].requests)
    options = {"settings": Settings(recover_poll_s=5)}
    async with life.open(Mind(calls(call("knock")), "own"), [door.knock], options=options) as here:
        asked, closing = await draining(here, door, await here.start())
        await here.advance(20)
        requests = len(here.minds["main"].requests)
        door.open()
        await asyncio.gather(asked, closing)

    assert requests == 1
