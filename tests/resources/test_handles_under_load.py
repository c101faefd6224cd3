"""Handles when much happens at once: makings that hang or fail, looks that take long, endings in the middle of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentos.components import Access, Concern, Pattern
from agentos.errors import ResourceBroken, ResourceClosed
from agentos.ids import RandomIds
from agentos.resources import Bounds, Factory, Level, Note, Resources, Scope, Shared
from agentos.testing.clock import ManualClock
from tests.support import spin

COMMON = (Pattern.STATELESS, Pattern.READ_WRITE)
MANY = 50


class Bench:
    """A factory whose makings and looks wait for the test, and what came of them."""

    def __init__(self) -> None:
        self.door = asyncio.Event()
        self.made: list[list[int]] = []
        self.alive: list[list[int]] = []
        self.fails = False
        self.sound: Callable[[list[int]], bool] = lambda handle: True
        self.looks = 0

    async def make(self) -> list[int]:
        number = len(self.made)
        self.made.append([number])
        await self.door.wait()
        if self.fails:
            raise OSError("no route")
        self.alive.append(self.made[number])
        return self.made[number]

    async def check(self, handle: list[int]) -> bool:
        self.looks += 1
        await self.door.wait()
        return self.sound(handle)

    def factory(self, *, checked: bool = False) -> Factory[list[int]]:
        return Factory(self.make, close=self.alive.remove, check=self.check if checked else None)


async def use(shared: Shared[list[int]]) -> int:
    async with shared.borrow() as handle:
        await asyncio.sleep(0)
        return handle[0]


@pytest.mark.parametrize("pattern", [Pattern.STATELESS])
async def test_those_who_wait_for_one_handle_fail_with_who_could_not_make_it(pattern: Pattern) -> None:
    """Fifty that each tried as long as the first would take fifty times its limit."""
    bench = Bench()
    shared = Shared("thing", "test", pattern, bench.factory(), bounds=Bounds(tries_max=1))
    tasks = [asyncio.create_task(use(shared)) for _ in range(MANY)]
    await spin()
    bench.fails = True
    bench.door.set()
    said = await asyncio.gather(*tasks, return_exceptions=True)
    bench.fails = False

    assert len(bench.made) == 1
    assert isinstance(said[0], OSError)
    assert all(isinstance(error, ResourceBroken) and "OSError: no route" in str(error) for error in said[1:])
    assert await use(shared) == 1, "who asks later tries anew"
    await shared.close()
    assert bench.alive == []


async def test_those_who_wait_for_one_handle_make_it_when_who_made_it_was_cancelled() -> None:
    bench = Bench()
    shared = Shared("thing", "test", Pattern.STATELESS, bench.factory())
    tasks = [asyncio.create_task(use(shared)) for _ in range(MANY)]
    await spin()
    tasks[0].cancel()
    bench.door.set()
    said = await asyncio.gather(*tasks, return_exceptions=True)
    await shared.close()

    assert isinstance(said[0], asyncio.CancelledError)
    assert said[1:] == [1] * (MANY - 1)
    assert bench.alive == []


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("checked", [False, True])
async def test_a_resource_that_closes_while_a_handle_is_made_or_looked_at_lends_none(
    pattern: Pattern, checked: bool
) -> None:
    bench, clock = Bench(), ManualClock()
    shared = Shared("thing", "test", pattern, bench.factory(checked=checked), clock=clock, bounds=Bounds(drain_s=1))
    if checked:
        bench.door.set()
        await shared.open()
        bench.door.clear()
    tasks = [asyncio.create_task(use(shared)) for _ in range(3)]
    await spin()
    closing = asyncio.create_task(shared.close())
    await spin()
    clock.advance(1)
    await closing
    bench.door.set()
    said = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(error) for error in said] == [ResourceClosed] * 3
    assert (len(bench.made), bench.alive, shared.statistics().handles) == (1, [], 0)
    assert shared.statistics().holders == ()


@pytest.mark.parametrize("pattern", COMMON)
async def test_a_handle_that_is_given_up_while_it_is_looked_at_is_replaced(pattern: Pattern) -> None:
    bench = Bench()
    bench.door.set()
    shared = Shared("thing", "test", pattern, bench.factory(checked=True))
    async with shared.borrow() as first:
        pass
    bench.door.clear()
    late = asyncio.create_task(use(shared))
    await spin()
    shared.discard(first)
    bench.door.set()

    assert await late == 1
    await shared.close()
    assert bench.alive == []


@pytest.mark.parametrize("pattern", [Pattern.EXCLUSIVE, Pattern.POOL, Pattern.STATELESS])
async def test_a_look_that_takes_too_long_counts_as_broken_and_says_so(pattern: Pattern) -> None:
    bench = Bench()
    bench.door.set()
    shared = Shared("thing", "test", pattern, bench.factory(checked=True), bounds=Bounds(check_s=0.01, tries_max=1))
    await shared.open()
    bench.door.clear()
    with pytest.raises(ResourceBroken, match=r"its check took over 0.01 s \(check_s\)"):
        await use(shared)
    bench.door.set()

    assert await use(shared) == 1
    await shared.close()
    assert bench.alive == []


async def test_each_broken_handle_is_noted_once_by_who_found_it() -> None:
    """A making that goes on meanwhile is another's, and found none."""
    bench, notes = Bench(), list[Note]()
    bench.door.set()
    table, scope = (
        Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30),
        Scope(Level.PROGRAM, "program"),
    )
    table.lookout.noted_to = notes.append
    shared = await table.create(scope, "thing", "one", bench.factory(checked=True), pattern=Pattern.POOL, size=3)
    bench.sound = lambda handle: handle[0] != 0
    bench.door.clear()
    tasks = [asyncio.create_task(use(shared)) for _ in range(3)]
    await spin()
    bench.door.set()
    said = await asyncio.gather(*tasks)
    await scope.close()
    table.shut()

    assert sorted(said) == [1, 2, 3]
    assert [note.what for note in notes] == [Concern.BROKEN]
    assert bench.alive == []


@pytest.mark.parametrize("size", [1, 2, 8])
async def test_a_pool_under_load_whose_handles_break_never_has_more_than_its_size_and_loses_none(size: int) -> None:
    bench = Bench()
    bench.door.set()
    shared = Shared("thing", "test", Pattern.POOL, bench.factory(checked=True), size=size)
    bench.sound = lambda handle: bench.looks % 3 != 0
    inside: list[int] = []
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        async with shared.borrow() as handle:
            assert handle[0] not in inside
            inside.append(handle[0])
            most = max(most, len(inside))
            await spin(number % 4)
            inside.remove(handle[0])
            if number % 7 == 0:
                shared.discard(handle)

    await asyncio.gather(*(work(number) for number in range(200)))
    said = shared.statistics()
    await shared.close()

    assert most == size
    assert said.borrowed == 200
    assert said.broken > 20
    assert said.handles == said.idle <= size
    assert bench.alive == []


async def test_a_pool_of_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size is 0; at least 1 is needed"):
        Shared("thing", "test", Pattern.POOL, Bench().factory(), size=0)


async def test_a_handle_that_nobody_has_had_for_a_while_is_closed_and_one_that_is_had_is_not() -> None:
    bench, clock = Bench(), ManualClock()
    bench.door.set()
    shared = Shared("thing", "test", Pattern.POOL, bench.factory(), size=3, clock=clock, bounds=Bounds(idle_s=10))
    async with shared.borrow() as kept, shared.borrow():
        pass
    async with shared.borrow() as again:
        clock.advance(10)
        await spin()
        said = shared.statistics()

    assert again is kept or again[0] == 1
    assert (said.handles, said.idle, len(bench.alive)) == (1, 0, 1)
    await shared.close()
    clock.advance(100)
    assert bench.alive == []


async def test_readers_and_writers_that_never_stop_are_served_alike() -> None:
    """Ten of each come back as soon as they were served: nobody is served twice before all others were once."""
    bench = Bench()
    bench.door.set()
    shared = Shared("thing", "test", Pattern.READ_WRITE, bench.factory())
    served: dict[tuple[Access, int], int] = {(access, number): 0 for access in Access for number in range(10)}
    spread: list[int] = []

    async def work(who: tuple[Access, int]) -> None:
        for _ in range(20):
            async with shared.borrow(access=who[0]):
                served[who] += 1
                spread.append(max(served.values()) - min(served.values()))
                await asyncio.sleep(0)

    await asyncio.gather(*map(work, served))
    await shared.close()

    assert set(served.values()) == {20}
    assert max(spread) == 1


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("handle", [None, 0, "one for all"])
async def test_handles_may_be_the_same_object_or_none_at_all(pattern: Pattern, handle: object) -> None:
    """A seat or a licence is nothing to look at: what was made so often is closed so often."""
    told = {"made": 0, "closed": 0}

    async def make() -> object:
        told["made"] += 1
        return handle

    def close(given: object) -> None:
        assert given is handle
        told["closed"] += 1

    async def work(shared: Shared[object], number: int) -> None:
        async with shared.borrow() as given:
            assert given is handle
            await spin(number)
            assert shared.statistics().handles <= 3

    shared = Shared("seat", "test", pattern, Factory(make, close=close), size=3)
    for _ in range(3):
        await asyncio.gather(*(work(shared, number) for number in range(4)))
    said = shared.statistics()
    made = 3 if pattern is Pattern.POOL else 1

    assert (said.handles, said.idle, told["made"]) == (made, made, made)
    await shared.close()
    assert told["closed"] == told["made"]


async def test_one_of_several_handles_that_are_the_same_object_may_be_broken() -> None:
    told = {"made": 0, "closed": 0}

    async def make() -> None:
        told["made"] += 1

    def close(_: None) -> None:
        told["closed"] += 1

    shared = Shared("seat", "test", Pattern.POOL, Factory(make, close=close), size=3)
    async with shared.borrow(), shared.borrow(), shared.borrow() as handle:
        shared.discard(handle)
    await spin()
    said = shared.statistics()

    assert (said.broken, said.handles, told["closed"]) == (1, 2, 1)
    await shared.close()
    assert told == {"made": 3, "closed": 3}
