"""One axis of time for a whole call tree, on which a conversation of many days can be read: stretches in which nothing
was open are cut short."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from agentos.history.lineage.tree import Node

GAP_SHARE = 0.02
"""How much of the axis a stretch without work takes, as a share of the time with work."""
GAPS_SHARE_MAX = 0.25
"""How much all of them take together at most."""

Busy = tuple[int, int]
"""From when to when something was open, in microseconds, UTC."""


class Axis:
    """Places times between 0 and 1. busy are the stretches with work, in order and apart; idle_us is what is cut out."""

    def __init__(self, spans: Iterable[Busy]) -> None:
        self.busy = _joined(spans)
        self.idle_us = sum(begin - end for (_, end), (begin, _) in zip(self.busy, self.busy[1:], strict=False))
        self._starts, self._length_us = _laid_out(self.busy)

    @property
    def gaps(self) -> int:
        """How many stretches are cut short."""
        return max(0, len(self.busy) - 1)

    def at(self, time_us: int) -> float:
        """Where a time stands; one that lies in no stretch with work stands at the end of the one before."""
        n = bisect_right(self.busy, time_us, key=lambda busy: busy[0]) - 1
        if n < 0:
            return 0.0
        begin, end = self.busy[n]
        return (self._starts[n] + min(time_us, end) - begin) / self._length_us


def busy_of(root: Node) -> list[Busy]:
    """When turns of a tree were open, and its calls; what has no end counts as a moment."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node.at is not None and node.kind != "conversation":
            found.append((node.at, node.at + round((node.ms or 0.0) * 1_000)))
        waiting += node.children
    return found


def _joined(spans: Iterable[Busy]) -> list[Busy]:
    joined: list[Busy] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _laid_out(busy: Sequence[Busy]) -> tuple[list[float], float]:
    """Where each stretch begins, and how long all are together, in microseconds of the axis; at least one."""
    worked = sum(end - begin for begin, end in busy)
    gaps = max(1, len(busy) - 1)
    share = max(1.0, worked * min(GAP_SHARE, GAPS_SHARE_MAX / gaps))
    starts, reached = [], 0.0
    for n, (begin, end) in enumerate(busy):
        gap = min(share, begin - busy[n - 1][1]) if n else 0.0
        starts.append(reached := reached + gap)
        reached += end - begin
    return starts, max(1.0, reached)
