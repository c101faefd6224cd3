"""Places under several bounds at once: who comes in when one leaves, and what a bound that changes does to those in line."""

from __future__ import annotations

import asyncio

from agentos.resources.account import Account, Asked, Place, What
from agentos.resources.fairness import Party
from agentos.resources.places import Bound, Places
from agentos.resources.room import Room
from tests.bounds.ledger import Counted
from tests.support import spin


class Desk:
    """Places whose bounds a test says for each that comes."""

    def __init__(self) -> None:
        self.ways: dict[str, list[Bound]] = {}
        self.granted: list[str] = []
        self.places: Places[str] = Places(self.ways.__getitem__, lambda: None, self.granted.append)  # type: ignore[arg-type, return-value]

    def take(self, who: str, **sizes: int) -> bool:
        self.ways[who] = [Bound(scope, "", size) for scope, size in sizes.items()]
        return self.places.take(who)


async def test_one_that_leaves_is_gone_from_all_its_bounds_before_anybody_is_told_that_waiting_is_no_use() -> None:
    here, door = Counted(), asyncio.Event()
    folder, box = Bound("conversation", "log", 2), Bound("toolbox", "box", 1)

    def account(*bounds: Bound) -> Account:
        return Account(here.ledger, Party("", "ann"), {What.PROCESSES: bounds}, caller=None)

    async def use(*bounds: Bound) -> None:
        place = await here.place(account(*bounds)).take()
        await door.wait()
        place.give_back()

    kept = await Place(Asked(account(folder, box), account()), What.PROCESSES, "kept").take()
    used = asyncio.create_task(use(folder))
    await spin()
    waits = asyncio.create_task(use(folder, box))
    await spin()
    kept.give_back()
    door.set()
    await asyncio.gather(used, waits)

    assert here.ledger.uses() == []


def test_a_bound_that_was_raised_lets_those_in_who_wait_for_it() -> None:
    desk = Desk()
    assert desk.take("a", agent=1)
    assert [desk.take(who, agent=1) for who in "bcd"] == [False] * 3
    assert not desk.take("e", agent=3)

    assert desk.granted == ["b", "c"]
    assert [(one.size, one.held, one.waiting) for one in desk.places.statistics()] == [(3, 3, 2)]


def test_a_bound_that_was_lowered_stays_so_though_those_in_line_came_before() -> None:
    desk = Desk()
    assert desk.take("a", conversation=1, agent=3)
    assert not desk.take("b", conversation=1, agent=3)
    assert desk.take("c", agent=3)
    assert not desk.take("d", agent=1)
    desk.places.leave("a")

    assert desk.granted == []
    assert {one.scope: (one.size, one.held) for one in desk.places.statistics()} == {
        "agent": (1, 1),
        "conversation": (1, 1),
    }


def test_those_in_line_are_asked_again_what_bounds_they_fall_under() -> None:
    desk = Desk()
    assert desk.take("a", agent=1)
    assert [desk.take(who, agent=1) for who in "bcd"] == [False] * 3
    for who in "bcd":
        desk.ways[who] = [Bound("agent", "", 3)]
    desk.places.ask_bounds_again()
    raised = list(desk.granted)
    desk.ways["d"] = []
    desk.places.ask_bounds_again()
    desk.places.ask_bounds_again()

    assert (raised, desk.granted) == (["b", "c"], ["b", "c", "d"])
    assert desk.places.waiting == 0


def test_a_room_that_became_larger_lets_in_as_many_as_fit() -> None:
    room: Room[int] = Room(1)
    for who in range(5):
        room.take(who)
    room.size = 3

    assert room.let_in() == [1, 2]
    assert list(room.line) == [3, 4]
