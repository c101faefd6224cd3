"""The page shows the tree, loads nothing, shows texts as texts, and can be opened however much there is to show."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from agentos.history.bundle.axis import Axis
from agentos.history.bundle.page import TREES_SHOWN_MAX, page_html
from agentos.history.bundle.page_rows import CHILDREN_SHOWN_MAX, LEVELS_MAX, ROWS_MAX
from agentos.history.lineage.tree import Node, Tree
from tests.bundle.trees import busy_tree, deep_tree, node, nodes, open_tree, wide_tree

_VOID = {"meta", "rect"}
_LOADING = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "video",
    "audio",
    "source",
    "base",
    "form",
    "a",
    "use",
    "image",
}
ELEMENTS_DEEP_MAX = 500
"""A browser flattens what is nested more than 512 elements deep."""


class Page(HTMLParser):
    """What a browser makes of it: elements with their attributes, text, and how deep it goes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.deepest = 0
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)
            self.deepest = max(self.deepest, len(self._open))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(self.text)

    def values(self, tag: str, name: str) -> list[str]:
        return [value for known, attribute, value in self.attributes if (known, attribute) == (tag, name)]


async def test_every_node_has_a_row_with_how_it_came_out() -> None:
    tree = await busy_tree()
    page = Page(page_html([tree], {"heads digest": "ab" * 32}))
    known = list(nodes(tree.root))

    assert page.tags["details"] == sum(bool(one.children) for one in known)
    assert page.tags["svg"] == len(known)
    assert Counter(page.values("span", "aria-label")) == {"well": len(known) - 3, "not well": 3}
    assert "failed(raised)" in page.words
    assert "ab" * 32 in page.words
    for one in known:
        if one.kind == "call":
            assert f"call {one.seq} {one.name}" in page.words


async def test_what_went_wrong_is_unfolded() -> None:
    tree = await busy_tree()
    html = page_html([tree], {})
    opened = re.findall(r"<details( open)?><summary class=row>.*?<b>(.*?)</b>", html)
    (delegation,) = [one for one in nodes(tree.root) if one.name == "ask_aide" and one.agent == "clerk"]

    assert (" open", f"call {delegation.seq} ask_aide") in opened
    assert ("", f"call {_call(tree, 'ask_helper').seq} ask_helper") in opened


async def test_it_loads_nothing_and_its_policy_forbids_it() -> None:
    html = page_html([await busy_tree()], {"made at": "now"})
    page = Page(html)
    (policy,) = [value for value in page.values("meta", "content") if value.startswith("default-src")]
    (style,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert not _LOADING & set(page.tags)
    assert not {"src", "href", "style", "onclick", "onload"} & {name for _, name, _ in page.attributes}
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</style><script>",
        "![x](https://evil.example/?q=1)",
        "<a href='https://evil.example'>",
        "\u202egnp.exe",
        "\x00\x1b]52;c;x\x07",
        "&lt;b&gt;",
    ],
)
def test_a_text_is_shown_as_text_wherever_it_stands(text: str) -> None:
    call = node("call", 4, name=text, status=text)
    turn = node("turn", 2, node("step", 3, call, id=text, status=text), status=text, version=text)
    tree = Tree(root=node("conversation", 1, turn, name=text, id=text, status="idle"))
    html = page_html([tree], {text: text})
    page = Page(html)

    assert not _LOADING & set(page.tags)
    assert not {"src", "href", "onerror"} & {name for _, name, _ in page.attributes}
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", html)
    if text.isprintable():
        assert text in page.words


def test_ten_thousand_calls_are_a_page_that_opens() -> None:
    html = page_html([wide_tree(10_000)], {})
    page = Page(html)

    assert page.tags["svg"] == CHILDREN_SHOWN_MAX + 3
    assert f"and {10_000 - CHILDREN_SHOWN_MAX:,} more" in page.words
    assert f"{10_000 - CHILDREN_SHOWN_MAX:,} nodes have no row" in page.words
    assert len(html) < 2_000_000


def test_many_trees_share_the_rows_of_a_page() -> None:
    page = Page(page_html([wide_tree(400) for _ in range(30)], {}))

    assert page.tags["svg"] <= ROWS_MAX + 1
    assert "(ROWS_MAX)" in page.words


@pytest.mark.parametrize(
    ("trees", "cut", "shown"),
    [
        ([wide_tree(400)], False, "all of it"),
        ([wide_tree(400)], True, "a part of it"),
        ([wide_tree(CHILDREN_SHOWN_MAX + 1)], False, "a part of it"),
        ([wide_tree(400)] * 30, False, "a part of it"),
        ([wide_tree(0)] * (TREES_SHOWN_MAX + 1), False, "a part of it"),
        ([deep_tree(300)], False, "a part of it"),
    ],
)
def test_its_facts_tell_whether_all_is_shown(trees: list[Tree], cut: bool, shown: str) -> None:
    html = page_html(trees, {"asked for": "the whole store"}, cut=cut)

    assert f"<dt>shown here</dt><dd>{shown}</dd>" in html


def test_no_tree_is_nested_deeper_than_a_browser_can() -> None:
    page = Page(page_html([deep_tree(300)], {}))

    assert page.deepest < ELEMENTS_DEEP_MAX
    assert page.tags["svg"] == LEVELS_MAX + 1
    assert "more, which the page leaves out" in page.words


async def test_what_is_not_over_is_shown_so() -> None:
    page = Page(page_html([await open_tree()], {}))

    assert "not over" in page.values("span", "aria-label")
    assert "not well" not in page.values("span", "aria-label")


def test_no_trees_are_a_page_with_facts() -> None:
    assert "conversation" in Page(page_html([], {"asked": "conversation"})).words


def test_idle_days_take_a_small_part_of_the_axis() -> None:
    day = 86_400_000_000
    axis = Axis([(0, 100), (day, day + 100), (2 * day, 2 * day + 100)])
    places = [axis.at(time) for time in (0, 100, day, day + 100, 2 * day, 2 * day + 100)]

    assert axis.gaps == 2
    assert axis.idle_us == 2 * day - 200
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, 1.0)
    assert places[1] > 0.3
    assert places[2] - places[1] < 0.05


def test_overlapping_and_empty_stretches_make_an_axis_too() -> None:
    axis = Axis([(5, 10), (7, 20), (20, 20)])

    assert (axis.busy, axis.gaps) == ([(5, 20)], 0)
    assert Axis([]).at(3) == 0.0
    assert Axis([(4, 4)]).at(4) == 0.0


def _call(tree: Tree, name: str) -> Node:
    return next(one for one in nodes(tree.root) if one.kind == "call" and one.name == name)
