"""The places of handles: what is idle makes room, what is measured in vain counts on, and who closes waits for nobody."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from agentos.components import Pattern
from agentos.errors import ResourceClosed, ResourceDeadlock, ResourceLimitReached
from agentos.resources import Bounds, Factory, Shared
from agentos.resources.account import Account, Place, What, borne_by, process_place
from agentos.resources.borrowing import Takes
from agentos.resources.places import Bound
from tests.bounds.ledger import Counted
from tests.support import spin


@dataclass
class Worker:
    """A handle that has a process; all of them are equal."""

    name: str = "worker"

    def __post_init__(self) -> None:
        self.place: Place | None = None
        self.closed = False


async def worker() -> Worker:
    made, place = Worker(), process_place("worker", kept=True)
    made.place = await place.take() if place is not None else None
    return made


def close(handle: Worker) -> None:
    handle.closed = True
    if handle.place is not None:
        handle.place.give_back()


def pool(here: Counted, account: Account | None = None) -> Shared[Worker]:
    shared = Shared("workers", "test", Pattern.POOL, Factory(worker, close=close), size=3, clock=here.clock)
    shared.count_on(account or here.account())
    return shared


def processes_alone(account: Account) -> Account:
    return Account(account.bearer, account.party, {What.PROCESSES: account.bounds[What.PROCESSES]})


async def test_a_handle_that_is_returned_gives_up_its_process_for_who_waits_for_one() -> None:
    here, door = Counted(program=1), asyncio.Event()
    shared = pool(here, processes_alone(here.account()))

    async def compute() -> Worker:
        async with shared.borrow() as handle:
            await door.wait()
        return handle

    async def run() -> str:
        with borne_by(here.account(log="b")):
            place = await here.place(here.account(log="b")).take()
        place.give_back()
        return "ran"

    computes = asyncio.create_task(compute())
    await spin()
    runs = asyncio.create_task(run())
    await spin()
    waiting = not runs.done()
    door.set()
    handle = await computes

    assert (waiting, await runs, handle.closed) == (True, "ran", True)
    assert here.ledger.uses() == []
    await shared.close()


async def test_a_process_that_was_given_back_before_its_handle_is_asked_for_no_more() -> None:
    here = Counted(program=2)
    shared = pool(here)
    async with shared.borrow() as handle:
        assert handle.place is not None
        handle.place.give_back()
    async with shared.borrow() as again:
        assert again is handle
    await shared.close()

    assert here.ledger.uses() == []


async def test_of_equal_handles_the_one_is_closed_whose_place_is_needed() -> None:
    here, other = Counted(program=3), Counted(program=9)
    shared = pool(here)
    async with shared.borrow() as first:
        shared.count_on(other.account())
        async with shared.borrow() as second:
            pass
    kept = [await here.place(here.account(), What.HANDLES, used=False).take() for _ in range(2)]
    (await here.place(here.account(), What.HANDLES).take()).give_back()
    for place in kept:
        place.give_back()

    async with shared.borrow() as again:
        assert again is second

    assert (first == second, first.closed, second.closed) == (True, True, False)
    await shared.close()


async def test_what_is_closed_refuses_those_at_once_who_wait_for_a_place_for_it() -> None:
    here, door = Counted(program=1), asyncio.Event()

    async def other() -> None:
        place = await here.place(here.account(), What.HANDLES).take()
        await door.wait()
        place.give_back()

    async def use() -> None:
        async with shared.borrow():
            raise AssertionError("there is no place")

    shared, holder = pool(here, here.account(call=1)), asyncio.create_task(other())
    await spin()
    waits = asyncio.create_task(use())
    await spin()
    closing = asyncio.create_task(shared.close())
    await spin()

    assert closing.done()
    assert isinstance(waits.exception(), ResourceClosed)
    door.set()
    await holder
    assert here.ledger.uses() == []


async def test_a_maker_and_a_user_that_wait_for_what_the_other_has_are_a_circle() -> None:
    """One has a place for a handle and waits for a process to make it with, the other has the process and waits for a
    place."""
    here, door = Counted(program=1), asyncio.Event()
    shared = pool(here)

    async def process_then_handle() -> None:
        process = await here.place(here.account(log="b")).take()
        try:
            await door.wait()
            (await here.place(here.account(log="b"), What.HANDLES).take()).give_back()
        finally:
            process.give_back()

    async def borrow() -> str:
        async with shared.borrow():
            return "borrowed"

    other = asyncio.create_task(process_then_handle())
    await spin()
    maker = asyncio.create_task(borrow())
    await spin()
    door.set()
    await asyncio.gather(other, maker, return_exceptions=True)

    assert isinstance(other.exception(), ResourceDeadlock)
    assert maker.result() == "borrowed"
    await shared.close()
    assert here.ledger.uses() == []


@pytest.mark.parametrize("how", ["fails", "hangs", "takes"])
async def test_what_cannot_be_measured_counts_for_what_it_took_before(how: str) -> None:
    sizes = [600]

    async def measure(_: str) -> int:
        if sizes:
            return sizes.pop()
        if how == "hangs":
            await asyncio.Event().wait()
        raise OSError("it is gone")

    async def make() -> str:
        return "folder"

    def takes(_: str) -> Takes:
        if sizes:
            return Takes(bytes=sizes.pop())
        raise OSError("it is gone")

    here = Counted()
    bounds = {What.BYTES: (Bound("program", "", 600),)}
    account = Account(here.ledger, here.account().party, bounds)
    factory = Factory(make, takes=takes) if how == "takes" else Factory(make, measure=measure)
    shared = Shared("folders", "test", Pattern.POOL, factory, size=9, bounds=Bounds(check_s=0.01), clock=here.clock)
    shared.count_on(account)
    with pytest.raises(ResourceLimitReached):
        async with shared.borrow(), shared.borrow():
            raise AssertionError("the first takes all there is")
    with pytest.raises(ResourceLimitReached):
        async with shared.borrow(), shared.borrow():
            raise AssertionError("it still does")
    await shared.close()

    assert here.ledger.uses() == []
