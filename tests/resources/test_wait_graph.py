"""The wait graph: a circle is named by those who are in it, the youngest first; who only waits behind one is in none."""

from __future__ import annotations

from collections.abc import Iterable

import hypothesis.strategies as st
from hypothesis import given

from agentos.resources import wait_graph
from agentos.resources.room import Room
from agentos.resources.wait_graph import Node, Wait, WaitGraph


class Place:
    """Waits as a test says them: who waits for whom, and what is behind the waiter."""

    def __init__(self) -> None:
        self.all: dict[Node, Wait] = {}

    def wait(self, waiter: str, *blockers: str, any_does: bool = False, behind: tuple[str, ...] = ()) -> Wait:
        found = Wait(waiter, None, f"what {waiter} wants", blockers, [None] * len(blockers), any_does, behind)
        self.all[waiter] = found
        return found

    def waits(self) -> Iterable[Wait]:
        return self.all.values()

    def lines_for(self, node: Node) -> Iterable[tuple[Node, Iterable[Wait]]]:
        return [(wait.waiter, [wait]) for wait in self.all.values() if node in wait.blockers]


def graph() -> tuple[WaitGraph, Place]:
    made, place = WaitGraph(), Place()
    made.places.append(place)
    return made, place


def names(cycle: list[Wait]) -> list[Node]:
    return [wait.waiter for wait in cycle]


def test_a_circle_begins_with_who_closed_it() -> None:
    made, place = graph()
    place.wait("a", "b")
    place.wait("b", "c")
    last = place.wait("c", "a")

    assert names(made.deadlock(last)) == ["c", "a", "b"]


def test_who_waits_behind_a_circle_is_not_in_it() -> None:
    made, place = graph()
    place.wait("a", "b")
    place.wait("b", "a")
    late = place.wait("late", "a")

    assert made.deadlock(late) == []


def test_the_shortest_circle_is_named() -> None:
    made, place = graph()
    place.wait("a", "b", "c")
    place.wait("b", "d")
    place.wait("d", "last")
    place.wait("c", "last")
    last = place.wait("last", "a")

    assert names(made.deadlock(last)) == ["last", "a", "c"]


def test_one_of_several_that_goes_on_is_enough_where_any_does() -> None:
    made, place = graph()
    place.wait("a", "b")
    free = place.wait("b", "a", "works", any_does=True)
    stuck = place.wait("b", "a", "works")

    assert made.deadlock(stuck) != []
    place.all["b"] = free
    assert made.deadlock(free) == []


def test_what_is_behind_a_waiter_waits_too() -> None:
    """A parent that holds what its child's call wants: it waits for the end of that call."""
    made, place = graph()
    child = place.wait("child", "parent", behind=("delegation", "parent"))

    assert names(made.deadlock(child)) == ["child"]


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.integers(0, 6), min_size=1, max_size=3), st.booleans()), max_size=7
    )
)
def test_a_circle_is_named_exactly_when_the_waiter_can_reach_itself_and_nobody_helps(
    said: list[tuple[int, list[int], bool]],
) -> None:
    made, place = graph()
    for waiter, blockers, any_does in said:
        place.wait(str(waiter), *map(str, blockers), any_does=any_does)
    going = {str(node) for node in range(7)} - {str(wait.waiter) for wait in place.all.values()}
    while helped := [
        wait
        for wait in place.all.values()
        if wait.waiter not in going and (any if wait.any_does else all)(blocker in going for blocker in wait.blockers)
    ]:
        going.update(str(wait.waiter) for wait in helped)

    for wait in place.all.values():
        cycle = made.deadlock(wait)
        if wait.waiter in going:
            assert cycle == []
        for this, next_ in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            assert next_.waiter in this.blockers
        assert bool(cycle) == (wait.waiter not in going and _reaches(place, str(wait.waiter), going))


def _reaches(place: Place, start: str, going: set[str]) -> bool:
    """Whether a way over blockers that are stuck leads back to the start."""
    seen: set[str] = set()
    left = [start]
    while left:
        for blocker in place.all[left.pop()].blockers:
            name = str(blocker)
            if name == start:
                return True
            if name not in seen and name not in going:
                seen.add(name)
                left.append(name)
    return False


class Rooms:
    """Rooms, read-write or for a number at once, and everybody who holds or waits there."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.rooms: list[Room[int]] = [Room(size or 1, read_write=not size) for size in sizes]
        self.looked = 0

    def take(self, who: int, number: int, reads: bool) -> None:
        if not any(who in room.line for room in self.rooms):
            self.rooms[number].take(who, reads)

    def waits(self) -> Iterable[Wait]:
        for number in range(len(self.rooms)):
            yield from self.line(number)

    def lines_for(self, node: Node) -> Iterable[tuple[Node, Iterable[Wait]]]:
        return [(number, self.line(number)) for number, room in enumerate(self.rooms) if node in room.holders]

    def line(self, number: int) -> Iterable[Wait]:
        room = self.rooms[number]
        holders = list(room.holders)
        for who in room.line:
            self.looked += 1
            yield Wait(who, None, str(number), holders, [None] * len(holders), room.any_does, (), number)

    def of(self, who: int) -> Wait | None:
        return next((wait for wait in self.waits() if wait.waiter == who), None)

    def plainly(self) -> dict[Node, tuple[list[int], bool]]:
        """Whom each waits for, as one would say it: of a read-write room all who are inside or before it in line."""
        found: dict[Node, tuple[list[int], bool]] = {}
        for room in self.rooms:
            before: list[int] = []
            for who in room.line:
                found[who] = ([*room.holders, *before] if room.read_write else list(room.holders), not room.read_write)
                before.append(who)
        return found

    def plainly_stuck(self) -> set[Node]:
        """Who is left when all have gone that can, round after round."""
        left = self.plainly()
        while going := [
            who
            for who, (blockers, any_does) in left.items()
            if (any if any_does else all)(blocker not in left for blocker in blockers)
        ]:
            for who in going:
                del left[who]
        return set(left)

    def plainly_closes(self, who: int) -> bool:
        """Whether it is in a circle of those who are stuck."""
        stuck, said = self.plainly_stuck(), self.plainly()
        seen: set[Node] = set()
        left: list[Node] = [who] if who in stuck else []
        while left:
            for blocker in said[left.pop()][0]:
                if blocker == who:
                    return True
                if blocker in stuck and blocker not in seen:
                    seen.add(blocker)
                    left.append(blocker)
        return False


SIZES = st.lists(st.integers(0, 2), min_size=2, max_size=4)
TAKES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.booleans()), max_size=25)


@given(SIZES, TAKES)
def test_who_is_stuck_does_not_depend_on_who_stands_before_it_in_line(
    sizes: list[int], takes: list[tuple[int, int, bool]]
) -> None:
    here = Rooms(sizes)
    for who, number, reads in takes:
        here.take(who, number % len(sizes), reads)

        assert wait_graph._stuck(here.waits()) == here.plainly_stuck()


@given(SIZES, TAKES)
def test_the_one_who_closes_a_circle_is_told_and_nobody_else(
    sizes: list[int], takes: list[tuple[int, int, bool]]
) -> None:
    here, made = Rooms(sizes), WaitGraph()
    made.places.append(here)
    for who, number, reads in takes:
        here.take(who, number % len(sizes), reads)
        wait = here.of(who)
        if wait is None:
            continue

        assert bool(made.deadlock(wait)) == here.plainly_closes(who)
        if here.plainly_closes(who):
            here.rooms[number % len(sizes)].leave(who)
        assert not here.plainly_stuck()


def test_a_long_line_is_not_looked_at_for_one_whom_nobody_waits_for() -> None:
    here, made = Rooms([0, 1]), WaitGraph()
    made.places.append(here)
    for who in range(1_000):
        here.take(who, 0, False)
    here.take(1_000, 1, False)
    here.take(1_000, 0, False)
    wait = here.of(1_000)
    assert wait is not None
    here.looked = 0

    assert made.deadlock(wait) == []
    assert here.looked == 0


def test_of_a_line_that_is_waited_for_each_is_looked_at_a_fixed_number_of_times() -> None:
    """Each that is inside or in line, and not each of one for each of the other: that would hold up the loop for seconds."""
    here, made = Rooms([0, 1]), WaitGraph()
    made.places.append(here)
    for who in range(1_000):
        here.take(who, 0, True)
    here.take(1_000, 1, True)
    here.take(0, 1, True)
    for who in range(1_001, 2_000):
        here.take(who, 0, False)
    here.take(1_000, 0, False)
    wait = here.of(1_000)
    assert wait is not None
    here.looked = 0

    assert names(made.deadlock(wait)) == [1_000, 0]
    assert here.looked <= 3 * 1_001
