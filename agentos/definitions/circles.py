"""The circles in which agents may ask each other. They are legal; how deep a delegation goes is bounded elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from agentos.definitions.limits import LIMITS
from agentos.definitions.spec import AgentSpec

Graph = Mapping[str, list[str]]


def cycles(agents: Mapping[str, AgentSpec], cycles_max: int = LIMITS.cycles_max) -> list[tuple[str, ...]]:
    """Each circle once, from its first slug in alphabetical order to the same one again: ("a", "b", "a").

    Shape:  at most cycles_max of them, each of slugs that differ but for the two ends; one that asks itself is ("a", "a").
    Source: D. B. Johnson, Finding All the Elementary Circuits of a Directed Graph, SIAM J. Comput. 4, 1975; the time to
            the next circle is linear in the references.
    """
    asks = {slug: sorted({use.slug for use in spec.subagent_uses} & agents.keys()) for slug, spec in agents.items()}
    return list(islice((cycle for root in sorted(asks) for cycle in _from(root, asks)), cycles_max))


def _from(root: str, asks: Graph) -> Iterator[tuple[str, ...]]:
    """The circles through root whose other agents all come after it."""
    part = _around(root, asks)
    path, ways = [root], [iter(part[root])]
    blocked, on_circle = {root}, set[str]()
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    while path:
        node = next(ways[-1], None)
        if node == root:
            on_circle.update(path)
            yield (*path, root)
        elif node is None:
            ways.pop()
            _leave(path.pop(), part, blocked, on_circle, waiting)
        elif node not in blocked:
            path.append(node)
            ways.append(iter(part[node]))
            blocked.add(node)
            on_circle.discard(node)


def _leave(node: str, part: Graph, blocked: set[str], on_circle: set[str], waiting: defaultdict[str, set[str]]) -> None:
    """A node from which a circle was found is free again, and with it all that wait for it; another one waits itself."""
    if node not in on_circle:
        for near in part[node]:
            waiting[near].add(node)
        return
    free = [node]
    while free:
        one = free.pop()
        if one in blocked:
            blocked.remove(one)
            free.extend(waiting.pop(one, ()))


def _around(root: str, asks: Graph) -> Graph:
    """The agents from root on that root reaches and that reach root, with the references among them."""
    asked_by: defaultdict[str, list[str]] = defaultdict(list)
    for slug, others in asks.items():
        for other in others:
            asked_by[other].append(slug)
    inside = _reached(root, asks) & _reached(root, asked_by)
    return {slug: [other for other in asks[slug] if other in inside] for slug in inside}


def _reached(root: str, ways: Graph) -> set[str]:
    reached, rest = {root}, [root]
    while rest:
        for other in ways.get(rest.pop(), ()):
            if other > root and other not in reached:
                reached.add(other)
                rest.append(other)
    return reached
