"""What adds up along the tree: calls, subagents, and the time that was spent in a conversation itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from agentos.history.lineage.tree import Node

Span = tuple[int, int]
"""From when to when, in microseconds."""


class _Summed(NamedTuple):
    """A node, and when turns of conversations below it were open."""

    node: Node
    away: Sequence[Span]


def with_sums(root: Node) -> Node:
    """The tree with own_ms, calls, total_calls, subagents and total_subagents at each node."""
    return _summed(root).node


def _summed(node: Node) -> _Summed:
    below = [_summed(child) for child in node.children]
    subagents = [one.node for one in below if one.node.kind == "conversation"]
    own = [one.node for one in below if one.node.kind != "conversation"]
    is_call = int(node.kind == "call")
    away = [*chain.from_iterable(one.away for one in below), *chain.from_iterable(map(_turns, subagents))]
    summed = msgspec.structs.replace(
        node,
        own_ms=_own_ms(node, away, own),
        calls=is_call + sum(one.calls for one in own),
        total_calls=is_call + sum(one.node.total_calls for one in below),
        subagents=len(subagents) + sum(one.subagents for one in own),
        total_subagents=len(subagents) + sum(one.node.total_subagents for one in below),
        children=tuple(one.node for one in below),
    )
    return _Summed(summed, away)


def _own_ms(node: Node, away: Iterable[Span], own: Sequence[Node]) -> float | None:
    """None while it is not over; that of a conversation is the sum of its turns, as its ms is."""
    if node.ms is None or node.at is None:
        return None
    if node.kind == "conversation":
        return sum(turn.own_ms or 0.0 for turn in own)
    first, last = _span(node.at, node.ms)
    return node.ms - _covered(away, first, last) / 1000


def _turns(conversation: Node) -> list[Span]:
    """When its turns were open; one that still is has no end yet, and what waits for it has none either."""
    return [_span(turn.at, turn.ms) for turn in conversation.children if turn.at is not None and turn.ms is not None]


def _span(at: int, ms: float) -> Span:
    return at, at + round(ms * 1000)


def _covered(spans: Iterable[Span], first: int, last: int) -> int:
    """How much of a stretch of time is covered by any of the spans, in microseconds."""
    covered, reached = 0, first
    for begin, end in sorted(spans):
        begin, end = max(begin, reached), min(end, last)
        if end > begin:
            covered += end - begin
            reached = end
    return covered
