"""Who waits for whom: the calls that stand in line for a slot, and the tasks that wait for a resource, in one graph.

A node is a call (its log and seq) or a task. A task gives back what it borrowed when it goes on; a call gives its slot back
when it has ended, which it has not before all that it waits for has. What a call does besides is not known here: a task of
it that waits for nothing is taken to go on, so that nobody is refused who might have had what it asked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agentos.resources.borrowing import Caller

Node = Hashable


class Wait(NamedTuple):
    """One wait for a resource.

    behind: what cannot go on before the waiter does: its call, and all that waits for the end of that. any_does: whether
    one of the blockers giving back is enough; holders are their calls. caller: the call that waits, None for the program
    itself. line names where it stands: all in one line wait for the same blockers; None for one that stands alone.
    """

    waiter: Node
    caller: Caller | None
    resource: str
    blockers: Sequence[Node]
    holders: Sequence[Caller | None]
    any_does: bool
    behind: Sequence[Node]
    line: Hashable = None

    @property
    def halts(self) -> tuple[Node, ...]:
        """What does not go on before this wait has ended."""
        return (self.waiter, *self.behind)


class Waits(Protocol):
    """A place where there is waiting.

    waits: all of it. lines_for: the lines in which there is waiting for what a node holds, each by its name with those in
    it, who are looked at only when they are asked for.
    """

    def waits(self) -> Iterable[Wait]: ...
    def lines_for(self, node: Node) -> Iterable[tuple[Hashable, Iterable[Wait]]]: ...


class WaitGraph:
    """All waiting of a kernel, looked at when somebody asks whether a wait is for ever."""

    def __init__(self) -> None:
        self.places: list[Waits] = []

    def deadlock(self, mine: Wait) -> list[Wait]:
        """The waits of the shortest cycle that this one is in, itself first; empty when it will have its turn.

        It is the youngest wait of the cycle when it has just begun: the older ones were no cycle without it. Only those
        that wait for this one are looked at, mostly none, unless one of them is waited for by this one in turn.
        """
        following = self._following(mine)
        halted = {node for wait in following.values() for node in wait.halts}
        if halted.isdisjoint(mine.blockers):
            return []
        stuck = _stuck(wait for place in self.places for wait in place.waits())
        if mine.waiter not in stuck:
            return []
        return _cycle([wait for wait in following.values() if wait.waiter in stuck], mine)

    def _following(self, mine: Wait) -> dict[Node, Wait]:
        """This wait, and those that do not end before it does, however far away."""
        found, lines, nodes = {mine.waiter: mine}, set[Hashable](), set[Node]()
        queue = deque([mine])
        while queue:
            for node in queue.popleft().halts:
                if node in nodes:
                    continue
                nodes.add(node)
                for wait in self._waiting_for(node, lines):
                    if wait.waiter not in found:
                        found[wait.waiter] = wait
                        queue.append(wait)
        return found

    def _waiting_for(self, node: Node, seen: set[Hashable]) -> Iterator[Wait]:
        """All in the lines for what a node holds, but those lines that were seen."""
        for place in self.places:
            for line, waits in place.lines_for(node):
                if line not in seen:
                    seen.add(line)
                    yield from waits


def _stuck(waits: Iterable[Wait]) -> set[Node]:
    """The waiters that are left when all have gone on that wait for nothing, then those that waited for these alone, and so
    on. Each line and each of its blockers is looked at once."""
    lines: dict[Hashable, list[Wait]] = {}
    for wait in waits:
        lines.setdefault(wait.waiter if wait.line is None else wait.line, []).append(wait)
    halted = Counter(node for line in lines.values() for wait in line for node in set(wait.halts))
    blocking: dict[Node, list[Hashable]] = {}
    held_up: Counter[Hashable] = Counter()
    for name, line in lines.items():
        for blocker in line[0].blockers:
            if halted[blocker]:
                blocking.setdefault(blocker, []).append(name)
                held_up[name] += 1
    going = [name for name, line in lines.items() if _can_go(line[0], held_up[name])]
    gone = set(going)
    while going:
        for node in _set_going(lines.pop(going.pop()), halted):
            for name in blocking.get(node, ()):
                held_up[name] -= 1
                if name not in gone and _can_go(lines[name][0], held_up[name]):
                    gone.add(name)
                    going.append(name)
    return {wait.waiter for line in lines.values() for wait in line}


def _can_go(wait: Wait, held_up: int) -> bool:
    """held_up: how many of its blockers do not go on."""
    return held_up < len(wait.blockers) if wait.any_does else not held_up


def _set_going(line: Iterable[Wait], halted: Counter[Node]) -> Iterator[Node]:
    """The nodes that nothing halts any more once all in a line have gone."""
    for wait in line:
        for node in set(wait.halts):
            halted[node] -= 1
            if not halted[node]:
                yield node


def _cycle(stuck: Iterable[Wait], first: Wait) -> list[Wait]:
    """The shortest way from a wait over those whom it waits for back to itself; empty when it only waits behind one.

    graphlib would name some cycle; this one has to begin with the wait that closed it.
    """
    halted: dict[Node, list[Wait]] = {}
    for wait in stuck:
        for node in wait.halts:
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
