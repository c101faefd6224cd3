"""A borrower that is cancelled, wherever it waits, leaves no trace: no room is lost, no handle, no place in line.

The same work is done again and again, and cancelled one step of the loop later each time, until it is no longer in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentos.components import Access, Pattern
from agentos.errors import ResourceBroken
from agentos.ids import RandomIds
from agentos.resources import Bounds, Factory, Level, ResourceKind, Resources, Scope, Shared
from agentos.testing.clock import ManualClock
from tests.support import spin

STEPS_MAX = 60


class Shop:
    """A factory that takes its time for everything, and knows what is open."""

    def __init__(self, sound: Callable[[int], bool] = lambda number: True) -> None:
        self.open: set[int] = set()
        self.made = 0
        self.sound = sound

    async def make(self) -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.made += 1
        self.open.add(self.made)
        return self.made

    async def check(self, handle: int) -> bool:
        await asyncio.sleep(0)
        return self.sound(handle)

    async def close(self, handle: int) -> None:
        await asyncio.sleep(0)
        self.open.remove(handle)

    def factory(self, *, checked: bool) -> Factory[int]:
        return Factory(self.make, close=self.close, check=self.check if checked else None)


async def at_every_step(round_: Callable[[int], Awaitable[bool]]) -> int:
    """How many rounds there were; round_ is given the step at which to cancel, and says whether that was in time."""
    for step in range(STEPS_MAX):
        if not await round_(step):
            return step
    raise AssertionError(f"the work is not done after {STEPS_MAX} steps")


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("contended", [False, True])
async def test_a_cancelled_borrower_leaves_no_trace(pattern: Pattern, checked: bool, contended: bool) -> None:
    async def round_(step: int) -> bool:
        shop = Shop(sound=lambda number: number != 1)  # the first handle is found broken, if anybody looks
        shared: Shared[int] = Shared("thing", "test", pattern, shop.factory(checked=checked), clock=ManualClock())
        await shared.open()
        used: list[int] = []
        door = asyncio.Event()

        async def use(wait: bool) -> None:
            async with shared.borrow(access=Access.WRITE) as handle:
                used.append(handle)
                if wait:
                    await door.wait()

        holder = asyncio.create_task(use(wait=True)) if contended else None
        await spin()
        task = asyncio.create_task(use(wait=False))
        after = asyncio.create_task(use(wait=False)) if contended else None
        if holder is not None:
            asyncio.get_running_loop().call_soon(door.set)
        await spin(step)
        in_time = task.cancel()
        await asyncio.gather(*filter(None, (holder, task, after)), return_exceptions=True)

        said = shared.statistics()
        assert (said.holders, said.waiters) == ((), ())
        assert after is None or after.exception() is None
        async with shared.borrow(timeout_s=0) as handle:  # the room is free, and a handle in order
            assert handle in shop.open
        await shared.close()
        await spin()
        assert shop.open == set()
        return in_time

    assert await at_every_step(round_) > 0


async def test_room_that_was_granted_to_a_waiter_as_it_was_cancelled_goes_to_the_next() -> None:
    shared: Shared[int] = Shared("thing", "test", Pattern.EXCLUSIVE, Shop().factory(checked=False))
    await shared.open()
    order: list[str] = []

    async def use(name: str) -> None:
        async with shared.borrow():
            order.append(name)

    async with shared.borrow():
        first, second = asyncio.create_task(use("first")), asyncio.create_task(use("second"))
        await spin()
    first.cancel()  # it has been let in and has not run since
    await asyncio.gather(first, second, return_exceptions=True)

    assert order == ["second"]
    assert first.cancelled()


async def test_a_timeout_and_a_grant_in_the_same_moment_lose_nothing() -> None:
    clock = ManualClock()
    shared: Shared[int] = Shared("thing", "test", Pattern.EXCLUSIVE, Shop().factory(checked=False), clock=clock)
    await shared.open()
    order: list[str] = []

    async def use(name: str, timeout_s: float | None) -> None:
        async with shared.borrow(timeout_s=timeout_s):
            order.append(name)

    async with shared.borrow():
        late = asyncio.create_task(use("late", 5))
        next_ = asyncio.create_task(use("next", None))
        await spin()
        clock.advance(5)
    await asyncio.gather(late, next_, return_exceptions=True)

    assert order == ["next"]
    assert "did not come free within 5 s" in str(late.exception())
    assert shared.statistics().holders == ()


async def test_a_creation_that_is_cancelled_or_fails_registers_nothing() -> None:
    async def round_(step: int) -> bool:
        resources = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
        program = Scope(Level.PROGRAM, "program")
        shop = Shop()
        task = asyncio.create_task(resources.create(program, "test", "thing", shop.factory(checked=True)))
        await spin(step)
        in_time = task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert len(resources) == len(shop.open) == program.open == (0 if in_time else 1)
        await program.close()
        assert (len(resources), shop.open) == (0, set())
        return in_time

    assert await at_every_step(round_) > 0


async def test_a_scope_that_ends_while_its_resource_is_made_takes_no_resource() -> None:
    resources = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    scope = Scope(Level.CALL, "call", Scope(Level.PROGRAM, "program"))
    shop = Shop()
    task = asyncio.create_task(resources.create(scope, "test", "thing", shop.factory(checked=False)))
    await asyncio.sleep(0)
    await scope.close()

    with pytest.raises(Exception, match="cannot live in scope program/call: it has ended"):
        await task
    assert (len(resources), shop.open) == (0, set())


async def test_two_that_ask_for_the_same_name_at_once_have_the_same_thing() -> None:
    resources = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    program = Scope(Level.PROGRAM, "program")
    shop = Shop()
    resources.register(ResourceKind(name="shop", factory=lambda: shop.factory(checked=False)))
    first = asyncio.create_task(resources.ensure(program, "shop", "mine"))
    second = asyncio.create_task(resources.ensure(program, "shop", "mine"))
    await asyncio.sleep(0)
    first.cancel()
    shared = await second

    assert shop.open == {shop.made}
    assert resources.find("mine", program) is shared
    await program.close()
    assert shop.open == set()


async def test_a_pool_that_finds_nothing_sound_gives_up_after_so_many_tries() -> None:
    shop = Shop(sound=lambda number: False)
    bounds = Bounds(tries_max=3, idle_s=None)
    pool: Shared[int] = Shared("pool", "test", Pattern.POOL, shop.factory(checked=True), size=5, bounds=bounds)
    leases = [pool.borrow() for _ in range(5)]
    for lease in leases:
        await lease.__aenter__()
    for lease in leases:
        await lease.__aexit__(None, None, None)
    with pytest.raises(ResourceBroken, match="no sound handle after 3 tries: its check says no"):
        async with pool.borrow():
            pass
    await spin()

    assert len(shop.open) == 2
    assert pool.statistics().broken == 3
    await pool.close()


async def test_idle_handles_of_a_pool_are_dropped_and_made_anew() -> None:
    clock, shop = ManualClock(), Shop()
    pool: Shared[int] = Shared(
        "pool", "test", Pattern.POOL, shop.factory(checked=False), size=3, bounds=Bounds(idle_s=60), clock=clock
    )
    await pool.open()
    async with pool.borrow(), pool.borrow():
        clock.advance(59)
    clock.advance(30)
    async with pool.borrow():
        pass
    clock.advance(31)
    await spin()
    one_left = set(shop.open)
    clock.advance(60)
    await spin()

    assert len(one_left) == 1
    assert (shop.open, pool.statistics().handles) == (set(), 0)
    async with pool.borrow() as handle:
        assert handle == shop.made == 3
    await pool.close()
