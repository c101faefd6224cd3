"""The rows of a page: a call tree that folds, each node with its bar on one axis of time, and never more than a bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from agentos.history.bundle.axis import Axis
from agentos.history.bundle.outcomes import CameOut, came_out
from agentos.history.lineage.tree import Node, Tokens, printable

ROWS_MAX = 4_000
"""How many rows a page has; a browser opens so many at once."""
CHILDREN_SHOWN_MAX = 500
"""How many rows stand right below one row."""
LEVELS_MAX = 48
"""How deep rows are nested: a browser flattens what is nested hundreds of elements deep."""
LEVELS_INDENTED = 8
"""From here on deeper rows are not moved further to the right, so that a narrow screen has room for them."""
LEVELS_UNFOLDED = 2
"""How many levels are unfolded at first; what leads to the first things that went wrong is unfolded too."""
BAD_UNFOLDED_MAX = 20
BAR_MIN_PERCENT = 0.4

_SIGN = {CameOut.WELL: "✓", CameOut.BADLY: "✗", CameOut.OPEN: "…"}
_SIGN_NAME = {CameOut.WELL: "well", CameOut.BADLY: "not well", CameOut.OPEN: "not over"}


class Budget:
    """How many rows may still come on the page, all its trees together; left out counts the nodes without a row."""

    def __init__(self, rows: int = ROWS_MAX) -> None:
        self.rows, self.left_out = rows, 0

    def take(self, nodes: Sequence[Node], level: int) -> Sequence[Node]:
        """Those of a row's children that get a row."""
        room = min(self.rows, CHILDREN_SHOWN_MAX) if level <= LEVELS_MAX else 0
        taken = nodes[:room]
        self.rows -= len(taken)
        return taken


class _Step(NamedTuple):
    """What is still to be written: a node with its level, or a text as it stands."""

    node: Node | None
    level: int = 0
    text: str = ""


class _Above(NamedTuple):
    """A row above another, by identity, and the one above that."""

    node: int
    above: _Above | None


def rows(root: Node, axis: Axis, budget: Budget) -> Iterator[str]:
    """A list with one item, which holds a list, and so on; depth first, with a stack of its own.

    The children of a row get their rows before those of the next row do, so that a page which is too small for a tree
    shows its upper levels.
    """
    shown, unfolded = _chosen(root, budget), _above_bad(root)
    waiting = [_Step(root)]
    yield '<ul class="tree">'
    while waiting:
        step = waiting.pop()
        if step.node is None:
            yield step.text
            continue
        node = step.node
        if not node.children:
            yield f'<li><div class="row leaf">{_row(node, axis)}</div></li>'
            continue
        children = shown.get(id(node), ())
        opened = " open" if step.level < LEVELS_UNFOLDED or id(node) in unfolded else ""
        yield f"<li><details{opened}><summary class=row>{_row(node, axis)}</summary>"
        yield f"<ul{_indented(step.level)}>"
        waiting.append(_Step(None, text=f"{_more(node, children, budget)}</ul></details></li>"))
        waiting += [_Step(child, step.level + 1) for child in reversed(children)]
    yield "</ul>"


def count_nodes(node: Node) -> int:
    """The node and all below it."""
    count, waiting = 0, [node]
    while waiting:
        count += 1
        waiting += waiting.pop().children
    return count


def _chosen(root: Node, budget: Budget) -> dict[int, Sequence[Node]]:
    """The children that get a row, by the identity of their parent, level by level."""
    shown: dict[int, Sequence[Node]] = {}
    budget.take([root], 0)
    level, now = 0, [root]
    while now:
        level += 1
        below: list[Node] = []
        for node in now:
            if node.children:
                shown[id(node)] = taken = budget.take(node.children, level)
                below += taken
        now = below
    return shown


def _above_bad(root: Node) -> set[int]:
    """The identities of all nodes above the first BAD_UNFOLDED_MAX that went wrong."""
    found: set[int] = set()
    left = BAD_UNFOLDED_MAX
    waiting: list[tuple[Node, _Above | None]] = [(root, None)]
    while waiting and left:
        node, above = waiting.pop()
        if came_out(node) is CameOut.BADLY:
            left -= 1
            step = above
            while step is not None and step.node not in found:
                found.add(step.node)
                step = step.above
        waiting += [(child, _Above(id(node), above)) for child in reversed(node.children)]
    return found


def _row(node: Node, axis: Axis) -> str:
    state = came_out(node)
    sign = f'<span class="sign" role="img" aria-label="{_SIGN_NAME[state]}">{_SIGN[state]}</span>'
    facts = " · ".join(shown_text(fact) for fact in _facts(node))
    what = f'<span class="what"><b>{shown_text(_title(node))}</b> <span class="facts">{facts}</span></span>'
    return f'<span class="{state.value} cells">{sign}{what}{_bar(node, axis, state)}</span>'


def _title(node: Node) -> str:
    if node.kind == "conversation":
        return f"{node.name} {node.id}".strip()
    if node.kind == "step":
        return f"model call {node.id.removeprefix('step ')}"
    return f"{node.kind} {node.seq} {node.name or node.version}".strip()


def _facts(node: Node) -> Iterator[str]:
    yield node.status
    if node.ms is not None:
        yield shown_ms(node.ms)
    if node.total != Tokens():
        yield f"{node.total.input:,} + {node.total.output:,} tokens"
    if node.total_calls > (node.kind == "call"):
        yield f"{node.total_calls:,} call{'s' if node.total_calls > 1 else ''}"


def _bar(node: Node, axis: Axis, state: CameOut) -> str:
    """It is for the eye alone: the row says in words how it came out and how long it took."""
    spans = _bars_of(node)
    marks = "".join(_rect(axis.at(begin), axis.at(end), state) for begin, end in spans)
    return f'<svg class="bar" width="100%" height="10" aria-hidden="true">{marks}</svg>'


def _bars_of(node: Node) -> list[tuple[int, int]]:
    """A conversation has a bar for each of its turns."""
    nodes = node.children[:CHILDREN_SHOWN_MAX] if node.kind == "conversation" else (node,)
    return [(one.at, one.at + round((one.ms or 0.0) * 1_000)) for one in nodes if one.at is not None]


def _rect(begin: float, end: float, state: CameOut) -> str:
    width = max((end - begin) * 100, BAR_MIN_PERCENT)
    left = min(begin * 100, 100 - width)
    return f'<rect class="{state.value}" x="{left:.2f}%" width="{width:.2f}%" y="1" height="8" rx="2"/>'


def _indented(level: int) -> str:
    return "" if level < LEVELS_INDENTED else ' class="deep"'


def _more(node: Node, shown: Sequence[Node], budget: Budget) -> str:
    """What is below and has no row."""
    left = node.children[len(shown) :]
    if not left:
        return ""
    nodes = sum(map(count_nodes, left))
    budget.left_out += nodes
    return f'<li class="more">and {nodes:,} more, which the page leaves out</li>'


def shown_ms(ms: float) -> str:
    """A time in the unit that people read it in."""
    if ms < 1_000:
        return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    seconds = ms / 1_000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7_200 else _hours(seconds)


def _hours(seconds: float) -> str:
    return f"{seconds / 3_600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def shown_text(text: str) -> str:
    """What a browser shows as these letters, and nothing else: no markup, no link, no letter that turns others around."""
    return escape(printable(text))
