"""The wait graph against what one would say plainly, where many wait in many lines, and some give back meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from agentos.resources import wait_graph
from agentos.resources.wait_graph import Wait, WaitGraph
from tests.resources.test_wait_graph import Rooms, graph

SEEDS = range(20)


def gives_back(here: Rooms, who: int) -> None:
    """One of the rooms that it is in, unless it waits."""
    if not any(who in room.line for room in here.rooms):
        held = next((room for room in here.rooms if who in room.holders), None)
        if held is not None:
            held.leave(who)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_many_rooms_the_one_who_closes_a_circle_is_told_and_nobody_else(seed: int) -> None:
    random, made = Random(seed), WaitGraph()
    here = Rooms([random.randint(0, 4) for _ in range(random.randint(4, 12))])
    made.places.append(here)
    for _ in range(120):
        who, number = random.randrange(40), random.randrange(len(here.rooms))
        if random.random() < 0.25:
            gives_back(here, who)
            continue
        here.take(who, number, random.random() < 0.5)
        wait = here.of(who)
        if wait is None:
            continue

        assert bool(made.deadlock(wait)) == here.plainly_closes(who)
        assert wait_graph._stuck(here.waits()) == here.plainly_stuck()
        if here.plainly_closes(who):
            next(room for room in here.rooms if who in room.line).leave(who)
        assert not here.plainly_stuck()


def plainly_stuck(waits: list[Wait]) -> list[Wait]:
    """What is left when all have gone on that can, round after round. A node goes on when no wait halts it any more."""
    while True:
        halted = {node for wait in waits for node in wait.halts}
        left = [
            wait
            for wait in waits
            if not (any if wait.any_does else all)(blocker not in halted for blocker in wait.blockers)
        ]
        if len(left) == len(waits):
            return left
        waits = left


def plainly_closes(stuck: list[Wait], mine: Wait) -> bool:
    """Whether a way over what it waits for, and what halts that, leads back to it."""
    seen, left = set[int](), [mine] if mine in stuck else []
    while left:
        blockers = left.pop().blockers
        for wait in stuck:
            if not set(blockers).isdisjoint(wait.halts):
                if wait is mine:
                    return True
                if id(wait) not in seen:
                    seen.add(id(wait))
                    left.append(wait)
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_of_waits_that_halt_others_with_them_exactly_those_in_a_circle_are_told(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        made, place = graph()
        size = random.randint(3, 25)
        for waiter in range(random.randint(2, size)):
            blockers = [str(random.randrange(size)) for _ in range(random.randint(1, 4))]
            behind = tuple({str(random.randrange(size)) for _ in range(random.randint(0, 2))})
            place.wait(str(waiter), *blockers, any_does=random.random() < 0.5, behind=behind)
        waits = list(place.all.values())
        stuck = plainly_stuck(waits)

        assert wait_graph._stuck(waits) == {wait.waiter for wait in stuck}
        for wait in waits:
            cycle = made.deadlock(wait)
            assert bool(cycle) == plainly_closes(stuck, wait)
            for this, next_ in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
                assert not set(this.blockers).isdisjoint(next_.halts)
