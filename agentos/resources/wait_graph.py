"""Who waits for whom: the calls that stand in line for a slot, and the tasks that wait for a resource, in one graph.

A node is a call (its log and seq) or a task. A task gives back what it borrowed when it goes on; a call gives its slot back
when it has ended, which it has not before all that it waits for has. What a call does besides is not known here: a task of
it that waits for nothing is taken to go on, so that nobody is refused who might have had what it asked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from agentos.resources.borrowing import Caller

Node = Hashable


class Wait(NamedTuple):
    """One wait for a resource.

    behind: what cannot go on before the waiter does: its call, and all that waits for the end of that. any_does: whether
    one of the blockers giving back is enough; holders are their calls. caller: the call that waits, None for the program
    itself.
    """

    waiter: Node
    caller: Caller | None
    resource: str
    blockers: Sequence[Node]
    holders: Sequence[Caller | None]
    any_does: bool
    behind: Sequence[Node]


class Waits(Protocol):
    """A place where there is waiting."""

    def waits(self) -> Iterable[Wait]: ...
    def holds(self, node: Node) -> bool: ...


class WaitGraph:
    """All waiting of a kernel, gathered when somebody asks whether a wait is for ever."""

    def __init__(self) -> None:
        self.places: list[Waits] = []

    def deadlock(self, mine: Wait) -> list[Wait]:
        """The waits of the shortest cycle that this one is in, itself first; empty when it will have its turn.

        It is the youngest wait of the cycle when it has just begun: the older ones were no cycle without it.
        """
        if not self._holds((mine.waiter, *mine.behind)):
            return []
        stuck = _stuck({wait.waiter: wait for place in self.places for wait in place.waits()})
        return _cycle(stuck, mine) if mine.waiter in stuck else []

    def _holds(self, nodes: Iterable[Node]) -> bool:
        """Who holds nothing is waited for by nobody."""
        return any(place.holds(node) for node in nodes for place in self.places)


def _stuck(waits: Mapping[Node, Wait]) -> dict[Node, Wait]:
    """Lets all go on that wait for nothing, then those that waited for these alone, until nothing changes.

    A line is gone through from its begin, so that one pass does for all of it.
    """
    left = dict(waits)
    halted = Counter(node for wait in left.values() for node in _halts(wait))
    changed = True
    while changed:
        changed = False
        for waiter, wait in list(left.items()):
            if _can_go(wait, halted):
                del left[waiter]
                halted.subtract(_halts(wait))
                changed = True
    return left


def _halts(wait: Wait) -> set[Node]:
    return {wait.waiter, *wait.behind}


def _can_go(wait: Wait, halted: Mapping[Node, int]) -> bool:
    enough: Callable[[Iterable[object]], bool] = any if wait.any_does else all
    return enough(not halted.get(blocker) for blocker in wait.blockers)


def _cycle(stuck: Mapping[Node, Wait], first: Wait) -> list[Wait]:
    """The shortest way from a wait over those whom it waits for back to itself; empty when it only waits behind one.

    graphlib would name some cycle; this one has to begin with the wait that closed it.
    """
    halted: dict[Node, list[Wait]] = {}
    for wait in stuck.values():
        for node in (wait.waiter, *wait.behind):
            halted.setdefault(node, []).append(wait)
    came: dict[Node, Wait | None] = {first.waiter: None}
    queue = deque([first])
    while queue:
        wait = queue.popleft()
        for blocker in wait.blockers:
            for next_ in halted.get(blocker, ()):
                if next_.waiter == first.waiter:
                    return _way(came, wait)
                if next_.waiter not in came:
                    came[next_.waiter] = wait
                    queue.append(next_)
    return []


def _way(came: Mapping[Node, Wait | None], last: Wait) -> list[Wait]:
    way = [last]
    while (before := came[way[-1].waiter]) is not None:
        way.append(before)
    return way[::-1]
