"""The ledger of what resources take: who has a place, who waits for one, and who is told that it will never come."""

from __future__ import annotations

import asyncio

import pytest

from agentos.errors import ResourceAccessTimeout, ResourceDeadlock, ResourceLimitReached
from agentos.resources.account import Account, Place, What
from agentos.resources.borrowing import Caller
from agentos.resources.wait_graph import Node
from tests.bounds.ledger import Counted
from tests.support import spin


async def use(here: Counted, account: Account, door: asyncio.Event, timeout_s: float | None = None) -> Place:
    """Has a place until the door opens."""
    place = await here.place(account).take(timeout_s)
    try:
        await door.wait()
    finally:
        place.give_back()
    return place


async def test_who_finds_no_room_waits_until_there_is_some() -> None:
    here, doors = Counted(program=1), [asyncio.Event(), asyncio.Event()]
    first = asyncio.create_task(use(here, here.account(log="a"), doors[0]))
    second = asyncio.create_task(use(here, here.account(log="b"), doors[1]))
    await spin()
    (full,) = here.ledger.uses()
    doors[0].set()
    await first
    doors[1].set()
    await second

    assert (full.what, full.scope, full.size, full.held, len(full.waiters)) == (What.PROCESSES, "program", 1, 1, 1)
    assert here.ledger.uses() == []


async def test_the_line_is_shared_by_agents() -> None:
    here, order = Counted(program=1), list[str]()

    async def go(agent: str) -> None:
        async def one() -> None:
            place = await here.place(here.account(agent)).take()
            order.append(agent)
            await asyncio.sleep(0)
            place.give_back()

        await one()

    await asyncio.gather(*(asyncio.create_task(go(agent)) for agent in ("ann", "ann", "ann", "ann", "bob")))

    assert order == ["ann", "ann", "bob", "ann", "ann"]


async def test_a_wait_ends_with_its_time_and_names_who_has_the_places() -> None:
    here, door = Counted(program=1), asyncio.Event()
    holder = asyncio.create_task(use(here, here.account(), door))
    waiter = asyncio.create_task(use(here, here.account(), door, timeout_s=5))
    await spin()
    here.clock.advance(5)
    await asyncio.gather(waiter, return_exceptions=True)
    left = here.held
    door.set()
    await holder

    assert isinstance(waiter.exception(), ResourceAccessTimeout)
    assert "processes_max' (1 at once) did not come free within 5 s" in str(waiter.exception())
    assert left == {("program", ""): 1}
    assert here.held == {}


async def test_a_wait_of_no_time_is_refused_at_once() -> None:
    here, door = Counted(program=1), asyncio.Event()
    holder = asyncio.create_task(use(here, here.account(), door))
    await spin()
    with pytest.raises(ResourceAccessTimeout):
        await here.place(here.account()).take(0)
    door.set()
    await holder

    assert here.held == {}


async def test_who_would_wait_for_what_nobody_gives_back_is_refused_by_name() -> None:
    here = Counted(program=2)
    kept = [await here.place(here.account(), used=False).take() for _ in range(2)]
    with pytest.raises(ResourceLimitReached) as raised:
        await here.place(here.account()).take()
    for place in kept:
        place.give_back()

    error = raised.value
    assert (error.limit, error.scope, error.size, error.held) == ("processes_max", "program", 2, 2)
    assert "processes_max allows 2 processes in the program, 2 are in use, and none of them comes back" in str(error)
    assert "raise processes_max, or give some back" in str(error)
    assert here.held == {}


async def test_who_waits_is_refused_when_the_last_that_would_come_back_goes_to_one_who_keeps_it() -> None:
    here, door = Counted(program=1), asyncio.Event()
    holder = asyncio.create_task(use(here, here.account(), door))
    keeper = here.place(here.account(), used=False)
    keeping = asyncio.create_task(keeper.take())
    waiter = asyncio.create_task(use(here, here.account(), door))
    await spin()
    waiting = not keeping.done() and not waiter.done()
    door.set()
    await asyncio.gather(holder, keeping, waiter, return_exceptions=True)
    keeper.give_back()

    assert waiting
    assert isinstance(waiter.exception(), ResourceLimitReached)
    assert here.held == {}


async def test_a_call_that_has_all_there_is_is_told_so_at_once() -> None:
    here = Counted(program=1)
    mine = here.account(call=3, ends=("log", 3))
    kept = await here.place(mine, What.HANDLES, used=False).take()
    with pytest.raises(ResourceDeadlock, match="handles_max allows 1 handles there: raise it, or give one back before"):
        await here.place(mine, What.HANDLES).take()
    kept.give_back()

    assert [(note.what.value, note.resource) for note in here.looks.notes] == [("deadlock", "handles_max")]
    assert here.held == {}


async def test_what_a_call_asked_for_is_told_when_that_call_has_all_there_is() -> None:
    here = Counted(program=1)
    outer, inner = here.account(call=3, ends=("log", 3)), here.account(call=5, ends=("log", 5))
    asking = asyncio.current_task()
    place = await here.place(outer).take()
    here.looks.stands_above["log", 5] = [asking, ("log", 3)]

    async def within() -> None:
        await here.place(inner).take()

    with pytest.raises(ResourceDeadlock):
        await asyncio.create_task(within())
    place.give_back()

    assert here.held == {}


async def test_two_that_hold_what_the_other_waits_for_are_a_circle_and_the_younger_ends() -> None:
    here, door = Counted(conversation=1), asyncio.Event()
    ann, bob = here.account(log="a", call=1), here.account(log="b", call=1)

    async def both(first: Account, then: Account) -> None:
        place = await here.place(first).take()
        try:
            await door.wait()
            (await here.place(then).take()).give_back()
        finally:
            place.give_back()

    tasks = [asyncio.create_task(both(ann, bob)), asyncio.create_task(both(bob, ann))]
    await spin()
    door.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert tasks[0].exception() is None
    assert isinstance(tasks[1].exception(), ResourceDeadlock)
    assert here.held == {}


async def test_a_place_is_given_back_once() -> None:
    here = Counted(program=1)
    first = await here.place(here.account()).take()
    first.give_back()
    second = await here.place(here.account()).take()
    first.give_back()

    assert here.held == {("program", ""): 1}
    second.give_back()


@pytest.mark.parametrize("step", range(12))
async def test_who_is_cancelled_at_any_moment_leaves_no_trace(step: int) -> None:
    here, door = Counted(program=1, conversation=1), asyncio.Event()
    holder = asyncio.create_task(use(here, here.account(log="a"), door))
    await spin()
    first = asyncio.create_task(use(here, here.account(log="b"), asyncio.Event()))
    open_ = asyncio.Event()
    open_.set()
    second = asyncio.create_task(use(here, here.account(log="b"), open_))
    await spin(2)
    asyncio.get_running_loop().call_soon(door.set)
    await spin(step)
    first.cancel()
    await asyncio.gather(holder, first, second, return_exceptions=True)

    assert first.cancelled()
    assert second.exception() is None
    assert here.ledger.uses() == []


async def test_who_waits_for_long_is_noted_once_and_by_whom_it_is_held_up() -> None:
    here, door = Counted(program=1), asyncio.Event()
    holder = asyncio.create_task(use(here, here.account(call=1), door))
    await spin()
    waiter = asyncio.create_task(use(here, here.account(log="b", call=2), door))
    await spin()
    (look,) = here.looks.bounds
    assert here.looks.begun
    here.clock.advance(10)
    early = (look(here.clock.monotonic() - 11), list(here.looks.notes))
    late = [look(here.clock.monotonic() - 10) for _ in range(2)]
    door.set()
    await asyncio.gather(holder, waiter)

    (note,) = here.looks.notes
    assert (early, late) == ((True, []), [True, True])
    assert (note.what.value, note.resource, note.kind) == ("starved", "processes_max", "bound")
    assert (note.by.caller, note.ms, [one.call for link in note.cycle for one in link.holders]) == (
        ("b", 2),
        10_000,
        ["call__1"],
    )
    assert not look(here.clock.monotonic())


async def test_a_circle_that_closed_while_it_waited_ends_when_it_is_looked_at() -> None:
    here = Counted(program=1)
    outer, inner = here.account(call=3, ends=("log", 3)), here.account(call=5, ends=("log", 5))
    place = await here.place(outer, used=False).take()
    waiter = asyncio.create_task(here.place(inner).take())
    await spin()
    waiting = not waiter.done()
    here.looks.stands_above["log", 5] = [("log", 3)]
    here.looks.bounds[0](here.clock.monotonic())
    await asyncio.gather(waiter, return_exceptions=True)
    place.give_back()

    assert waiting
    assert isinstance(waiter.exception(), ResourceDeadlock)
    assert here.held == {}


async def test_one_more_that_waits_costs_no_more_than_the_first() -> None:
    here, door, asked = Counted(program=8), asyncio.Event(), list[Caller]()

    def above(caller: Caller) -> list[Node]:
        asked.append(caller)
        return []

    here.looks.above = above
    tasks = [asyncio.create_task(use(here, here.account(log=f"{n}", call=n), door)) for n in range(1_008)]
    await spin(3)
    (full,) = here.ledger.uses()
    door.set()
    await asyncio.gather(*tasks)

    assert (full.held, len(full.waiters), len(asked)) == (8, 1_000, 1_000)
    assert here.ledger.uses() == []
