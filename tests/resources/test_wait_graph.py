"""The wait graph: a circle is named by those who are in it, the youngest first; who only waits behind one is in none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given

from agentos.resources import wait_graph
from agentos.resources.wait_graph import Node, Wait, WaitGraph


class Place:
    """Waits as a test says them: who waits for whom, and what is behind the waiter."""

    def __init__(self) -> None:
        self.all: dict[Node, Wait] = {}
        self.held: set[Node] = set()

    def wait(self, waiter: str, *blockers: str, any_does: bool = False, behind: tuple[str, ...] = ()) -> Wait:
        found = Wait(waiter, None, f"what {waiter} wants", blockers, [None] * len(blockers), any_does, behind)
        self.all[waiter] = found
        self.held.update(blockers)
        return found

    def waits(self) -> Iterable[Wait]:
        return self.all.values()

    def holds(self, node: Node) -> bool:
        return node in self.held


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
    place.held.add("late")
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


def test_a_long_line_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round for each that goes would hold up the loop for seconds."""
    looks = 0

    def counted(wait: Wait, halted: Mapping[Node, int]) -> bool:
        nonlocal looks
        looks += 1
        return can_go(wait, halted)

    made, place = graph()
    names_ = [f"reader-{number}" for number in range(200)]
    for number, name in enumerate(names_):
        place.wait(name, "writer", *names_[:number])
    can_go = wait_graph._can_go
    monkeypatch.setattr(wait_graph, "_can_go", counted)

    assert made.deadlock(place.all[names_[-2]]) == []
    assert looks <= len(names_)
