"""The page of one turn: what it names is there, and is called in the order in which it is told."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

import agentos
from agentos import AgentSpec, PythonToolbox, tool
from agentos.kernel import Kernel

DOCS = Path(__file__).parent.parent / "docs"
CODE = Path(agentos.__file__).parent
PAGE = (DOCS / "one-turn.md").read_text()
LOG = PAGE[PAGE.index("## The log of it") : PAGE.index("## 1. ")]
WALK = PAGE[PAGE.index("## 1. ") : PAGE.index("## Other roads")]
LINK = re.compile(r"\]\(\.\./agentos/([\w/]+\.py)\)")
MENTION = re.compile(rf"{LINK.pattern}|`([\w.]+)\(\)`")
CLASS = re.compile(r"`([A-Z]\w*)`")


class Place(NamedTuple):
    """A function, by its file below the package and its name there."""

    file: str
    name: str


def mentioned(text: str) -> Iterator[Place]:
    """The functions of a text: each is one of the file that was linked last."""
    file = ""
    for linked, name in MENTION.findall(text):
        file = linked or file
        if name:
            yield Place(file, name)


def defined(tree: ast.AST, prefix: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    @tool
    async def count_words(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    async with agentos.open(f"sqlite:///{tmp_path}/store.db") as kernel:
        await kernel.add_toolbox(PythonToolbox("words", [count_words]))
        await kernel.install(AgentSpec(slug="clerk", model="direct", toolboxes=["words"]))
        yield kernel


@pytest.mark.parametrize("place", dict.fromkeys(mentioned(PAGE)), ids=":".join)
def test_a_function_that_the_page_names_is_in_that_file(place: Place) -> None:
    assert place.name in set(defined(ast.parse((CODE / place.file).read_text())))


def test_a_class_that_a_paragraph_names_stands_in_a_file_of_it() -> None:
    strangers = [
        name
        for paragraph in WALK.split("\n\n")
        for name in CLASS.findall(paragraph)
        if not any(re.search(rf"\b{name}\b", (CODE / file).read_text()) for file in LINK.findall(paragraph))
    ]

    assert strangers == []


async def test_a_turn_calls_them_in_the_order_of_the_page(kernel: Kernel) -> None:
    called: list[Place] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(CODE):
            called.append(Place(path.relative_to(CODE).as_posix(), frame.f_code.co_qualname))

    clerk = await kernel.start("clerk")
    sys.setprofile(note)
    try:
        outcome = await clerk.ask('count_words text="to be or not to be"')
    finally:
        sys.setprofile(None)

    rest = iter(called)
    not_in_order = [place for place in mentioned(WALK) if place not in rest]
    assert outcome.text.endswith(": 6")
    assert not_in_order == []


async def test_its_log_has_the_units_of_the_page(kernel: Kernel) -> None:
    clerk = await kernel.start("clerk")
    await clerk.ask('count_words text="to be or not to be"')

    asked = await kernel.query("select unit, kind from events where conversation = ? order by seq", (clerk.id,))
    units: dict[object, list[object]] = {}
    for unit, kind in asked.rows:
        units.setdefault(unit, []).append(kind)
    told = [re.findall(r"`([\w.]+)`", row) for row in LOG.splitlines() if row.startswith("|") and "`" in row]
    assert list(units.values()) == told
