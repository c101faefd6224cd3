"""A handle that is asked for under a bound, and whose borrower is cancelled wherever it waits, leaves its place to others."""

from __future__ import annotations

import asyncio

import pytest

from agentos.components import Pattern
from agentos.errors import ResourceAccessTimeout, ResourceBroken
from agentos.resources import Bounds, Factory, Shared
from agentos.resources.account import What
from tests.bounds.ledger import Counted
from tests.resources.test_cancel_at_every_await import Shop, at_every_step
from tests.support import spin


def shared_of(here: Counted, shop: Shop, pattern: Pattern = Pattern.POOL, **more: object) -> Shared[int]:
    factory = shop.factory(checked=True)
    shared: Shared[int] = Shared("thing", "test", pattern, factory, size=2, clock=here.clock, **more)  # type: ignore[arg-type]
    shared.count_on(here.account())
    return shared


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("full", [False, True])
async def test_a_cancelled_borrower_leaves_no_place_taken(pattern: Pattern, full: bool) -> None:
    async def round_(step: int) -> bool:
        here, shop, door = Counted(program=1), Shop(), asyncio.Event()
        shared = shared_of(here, shop, pattern)

        async def other() -> None:
            place = await here.place(here.account(), What.HANDLES).take()
            await door.wait()
            place.give_back()

        async def use() -> None:
            async with shared.borrow():
                await asyncio.sleep(0)

        holder = asyncio.create_task(other()) if full else None
        await spin()
        task = asyncio.create_task(use())
        asyncio.get_running_loop().call_soon(door.set)
        await spin(step)
        in_time = task.cancel()
        await asyncio.gather(*filter(None, (holder, task)), return_exceptions=True)
        await spin()
        handles = shared.statistics().handles
        assert here.held == ({("program", ""): handles} if handles else {})
        async with shared.borrow():
            assert here.held == {("program", ""): 1}
        await shared.close()
        await spin()

        assert (here.ledger.uses(), shop.open) == ([], set())
        return in_time

    assert await at_every_step(round_) > 0


async def test_a_borrower_waits_for_a_place_as_long_as_it_waits_for_the_rest() -> None:
    here, shop = Counted(program=1), Shop()
    other = await here.place(here.account(), What.HANDLES).take()
    shared = shared_of(here, shop)

    async def use() -> None:
        async with shared.borrow(timeout_s=3):
            raise AssertionError("there is no place")

    task = asyncio.create_task(use())
    await spin()
    here.clock.advance(3)
    await asyncio.gather(task, return_exceptions=True)
    other.give_back()
    await shared.close()

    assert isinstance(task.exception(), ResourceAccessTimeout)
    assert "handles_max" in str(task.exception())
    assert (here.ledger.uses(), shop.made) == ([], 0)


async def test_a_place_is_waited_for_as_long_as_a_making_may_take_at_most() -> None:
    here, shop = Counted(program=1), Shop()
    other = await here.place(here.account(), What.HANDLES).take()
    shared = shared_of(here, shop, Pattern.READ_WRITE, bounds=Bounds(make_s=7))
    task = asyncio.create_task(shared.open())
    await spin()
    here.clock.advance(7)
    await asyncio.gather(task, return_exceptions=True)
    other.give_back()

    assert "did not come free within 7 s" in str(task.exception())
    assert here.ledger.uses() == []


async def test_a_handle_that_is_returned_while_another_waits_for_a_place_makes_room() -> None:
    here, shop, door = Counted(program=1), Shop(), asyncio.Event()
    first, second = shared_of(here, shop), shared_of(here, shop)

    async def use(shared: Shared[int], wait: bool) -> int:
        async with shared.borrow() as handle:
            if wait:
                await door.wait()
            return handle

    one = asyncio.create_task(use(first, wait=True))
    await spin()
    other = asyncio.create_task(use(second, wait=False))
    await spin()
    waiting = not other.done()
    door.set()
    handles = [await one, await other]

    assert (waiting, handles, shop.open) == (True, [1, 2], {2})
    for shared in (first, second):
        await shared.close()
    assert here.ledger.uses() == []


async def test_a_handle_that_is_broken_or_does_not_close_gives_its_place_back() -> None:
    here = Counted(program=1)

    async def fails(handle: str) -> None:
        raise OSError("it hangs")

    async def make() -> str:
        return "handle"

    shared = Shared("thing", "test", Pattern.POOL, Factory(make, close=fails), clock=here.clock)
    shared.count_on(here.account())
    async with shared.borrow() as handle:
        shared.discard(handle)
    await spin()
    after = here.held
    async with shared.borrow():
        pass
    with pytest.raises(ExceptionGroup, match="it hangs"):
        await shared.close()

    assert (after, here.ledger.uses()) == ({}, [])


async def test_the_words_of_a_making_that_took_too_long_tell_what_it_waited_for() -> None:
    here = Counted(program=1)
    door = asyncio.Event()

    async def other() -> None:
        process = await here.place(here.account()).take()
        await door.wait()
        process.give_back()

    async def make() -> str:
        await here.place(here.account()).take()
        return "never"

    holder = asyncio.create_task(other())
    await spin()
    shared = Shared("thing", "test", Pattern.POOL, Factory(make), bounds=Bounds(make_s=0.01))
    with pytest.raises(
        ResourceBroken, match="make_s\\); it waited for one of the 1 processes that processes_max allows"
    ):
        await shared.open()
    door.set()
    await holder

    assert here.ledger.uses() == []
