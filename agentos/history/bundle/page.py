"""One HTML page that shows call trees to people: who called whom, when, for how long, with how many tokens, and what failed.

It is complete in itself: no script, no picture, nothing that is loaded from elsewhere, and a policy that has the browser
refuse all of that even if a text were to get past the escaping. Folding is that of the browser, so that it works by key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from agentos.history.bundle.axis import Axis, busy_of
from agentos.history.bundle.outcomes import CameOut, came_out
from agentos.history.bundle.page_rows import ROWS_MAX, Budget, count_nodes, rows, shown_ms, shown_text
from agentos.history.bundle.page_style import STYLE
from agentos.history.lineage.tree import Node, Tokens, Tree

LAST_US = 253_402_300_799_000_000
"""The end of the year 9999: what is later is no time of a calendar."""
TREES_SHOWN_MAX = 500
"""How many trees a page shows."""

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
_END = "</main></body></html>\n"


def page_html(trees: Sequence[Tree], facts: Mapping[str, str], *, cut: bool = False) -> str:
    """The page. facts stand on it as they are, in their order: heads, digests, when it was made; then whether all is shown.

    Of all trees together ROWS_MAX rows are shown, upper levels first; what has no row is counted. cut: the trees themselves
    are a part of what there is.
    """
    budget = Budget()
    sections = [piece for tree in trees[:TREES_SHOWN_MAX] for piece in _tree(tree, budget)]
    left_out = [*_left_out(len(trees) - TREES_SHOWN_MAX, budget)]
    shown = {"shown here": "a part of it" if cut or left_out else "all of it"}
    return "".join([*_head(), *_sums(trees), *_facts({**facts, **shown}), *sections, *left_out, _END])


def _head() -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="referrer" content="no-referrer">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<title>What agents did</title><style>{STYLE}</style></head><body><main>\n<h1>What agents did</h1>"


def _facts(facts: Mapping[str, str]) -> Iterator[str]:
    yield "<h2>Facts</h2><dl>"
    yield from (f"<dt>{shown_text(name)}</dt><dd>{shown_text(value)}</dd>" for name, value in facts.items())
    yield "</dl>\n"


def _sums(trees: Sequence[Tree]) -> Iterator[str]:
    tokens = sum((tree.root.total for tree in trees), Tokens())
    badly = sum(_count_bad(tree.root) for tree in trees)
    shown = {
        "trees": len(trees),
        "calls": sum(tree.root.total_calls for tree in trees),
        "subagents": sum(tree.root.total_subagents for tree in trees),
        "tokens in": tokens.input,
        "tokens out": tokens.output,
    }
    yield '<ul class="sums">'
    named = {what.removesuffix("s") if count == 1 else what: count for what, count in shown.items()}
    yield from (f"<li><b>{count:,}</b>{what}</li>" for what, count in named.items())
    yield f'<li class="{"badly" if badly else "well"}"><b>{badly:,}</b>not well</li></ul>\n'


def _tree(tree: Tree, budget: Budget) -> Iterator[str]:
    if budget.rows <= 0:
        budget.left_out += count_nodes(tree.root)
        return
    root, axis = tree.root, Axis(busy_of(tree.root))
    yield f"<section><h2>{shown_text(f'{root.name} {root.id}'.strip())}</h2>"
    if tree.above:
        yield f"<p>below {shown_text(' > '.join(frame.entity_id for frame in tree.above))}</p>"
    if axis.busy:
        yield from _axis(axis)
    yield from rows(root, axis, budget)
    if tree.cut:
        yield "<p>There is more below than was read for this page.</p>"
    yield "</section>\n"


def _axis(axis: Axis) -> Iterator[str]:
    yield f'<div class="axis"><span>{_time(axis.busy[0][0])}</span>'
    if axis.gaps:
        stretches = "1 stretch" if axis.gaps == 1 else f"{axis.gaps:,} stretches"
        yield f"<span>{stretches} without work cut short: {shown_ms(axis.idle_us / 1_000)}</span>"
    yield f"<span>{_time(axis.busy[-1][1])}</span></div>"


def _left_out(more_trees: int, budget: Budget) -> Iterator[str]:
    if more_trees > 0:
        yield f"<p>And {more_trees:,} more trees: the page shows {TREES_SHOWN_MAX:,} (TREES_SHOWN_MAX).</p>"
    if budget.left_out:
        yield f"<p>{budget.left_out:,} nodes have no row: the page shows {ROWS_MAX:,} (ROWS_MAX) at most."
        yield " 'agentos lineage ID' shows the tree below any conversation, turn or call.</p>"


def _count_bad(root: Node) -> int:
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        count += came_out(node) is CameOut.BADLY
        waiting += node.children
    return count


def _time(at_us: int) -> str:
    if not 0 <= at_us <= LAST_US:
        return f"{at_us} us"
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
