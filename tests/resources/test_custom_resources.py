"""Resources of somebody's own: a function marked with @resource in a file of tools, and kinds that a program registers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentos import CallContext, resource, tool
from agentos.components import Access, Pattern
from agentos.errors import ConfigurationError
from agentos.resources import Factory, Level, ResourceKind
from agentos.testing.leaks import leak_meter
from agentos.toolboxes.python import PythonToolbox
from agentos.toolboxes.python_file import load_python_toolbox
from tests.support import Mind, call, calls, lab, results


class Counter:
    """Handles that are numbered, and who had which; those that are told to are unsound."""

    def __init__(self) -> None:
        self.made = self.closed = 0
        self.unsound: set[int] = set()
        self.lent: list[int] = []

    def maker(self, **options: Any) -> Callable[..., Any]:
        @resource(name="thing", check=lambda handle: handle not in self.unsound, **options)
        async def make() -> AsyncIterator[int]:
            self.made += 1
            handle = self.made
            try:
                yield handle
            finally:
                self.closed += 1

        return make

    def box(self, name: str = "box", **options: Any) -> PythonToolbox:
        @tool(name=f"use_{name}")
        async def use(context: CallContext) -> int:
            async with context.borrow("thing", timeout_s=5) as handle:
                self.lent.append(handle)
                await asyncio.sleep(0)
                return int(handle)

        return PythonToolbox(name, [use], resources=[self.maker(**options)])


def uses(times: int = 1, name: str = "box") -> Any:
    return calls(*[call(f"use_{name}")] * times)


@pytest.mark.parametrize(
    ("scope", "made_in_two_turns_of_two_conversations"),
    [("call", 8), ("turn", 4), ("conversation", 2), ("agent", 1), ("toolbox", 1), ("program", 1)],
)
async def test_a_resource_lives_as_long_as_its_scope_and_is_made_when_it_is_first_asked_for(
    scope: str, made_in_two_turns_of_two_conversations: int
) -> None:
    counter = Counter()
    mind = Mind(*[uses(2), "done"] * 4)
    async with leak_meter(), lab(mind, toolboxes=[counter.box(scope=scope)]) as here:
        made_before = counter.made
        for conversation in [await here.start(), await here.start()]:
            await conversation.ask("go")
            await conversation.ask("again")
        made = counter.made

    assert (made_before, made) == (0, made_in_two_turns_of_two_conversations)
    assert counter.closed == made


async def test_a_pool_makes_no_more_handles_than_its_size_and_others_wait() -> None:
    counter = Counter()
    async with lab(Mind(uses(6)), toolboxes=[counter.box(pattern="pool", size=2)]) as here:
        await here.ask()
        (row,) = here.kernel.resources.rows()

    assert (counter.made, len(counter.lent), counter.closed) == (2, 6, 2)
    assert (row.kind, row.name, row.scope[-1], row.size, row.borrowed) == ("box.thing", "box.thing", "box", 2, 6)


async def test_a_handle_that_its_check_refuses_is_closed_and_another_one_is_made() -> None:
    counter = Counter()
    async with lab(Mind(uses(), uses()), toolboxes=[counter.box()]) as here:
        conversation = await here.start()
        counter.unsound.add(1)
        await conversation.ask("go")

        assert counter.lent == [2, 2]
        assert [row.broken for row in here.kernel.resources.rows()] == [1]
    assert counter.closed == 2


async def test_a_maker_that_raises_fails_the_call_alone_and_leaves_nothing() -> None:
    tries: list[int] = []

    @resource
    async def thing() -> AsyncIterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not today")
        yield 7

    async with lab(Mind(uses(), uses()), toolboxes=[_box_of(thing)]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["failed(raised)", "done"]
        assert len(here.kernel.resources) == 1


@pytest.mark.parametrize(
    ("yields", "status", "why"),
    [
        (0, "failed(raised)", r"test_custom_resources\.py:\d+: it has to yield a handle, and ended before"),
        (2, "done(release)", r"test_custom_resources\.py:\d+: it yielded a second handle"),
    ],
)
async def test_a_maker_that_does_not_yield_once_is_told_with_its_place(yields: int, status: str, why: str) -> None:
    @resource(scope="call")
    async def thing() -> AsyncIterator[int]:
        for n in range(yields):
            yield n

    async with lab(Mind(uses()), toolboxes=[_box_of(thing)]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        ((said, text),) = await results(conversation)

    assert said == status
    assert re.search(why, text), text


async def test_an_async_function_may_return_a_handle_that_close_gives_back() -> None:
    closed: list[str] = []

    @resource(scope="turn", close=closed.append)
    async def thing() -> str:
        return "a handle"

    async with lab(Mind(uses()), toolboxes=[_box_of(thing)]) as here:
        outcome = await here.ask()
        assert outcome.completed
    assert closed == ["a handle"]


async def test_toolboxes_may_use_one_name_and_each_has_its_own() -> None:
    one, two = Counter(), Counter()
    mind = Mind(calls(call("use_one"), call("use_two")))
    boxes = [one.box("one", scope="conversation"), two.box("two", scope="conversation")]
    async with lab(mind, toolboxes=boxes) as here:
        await here.ask()
        names = sorted(row.name for row in here.kernel.resources.rows())

    assert (one.made, two.made) == (1, 1)
    assert names == ["one.thing", "two.thing"]


async def test_a_tool_of_another_toolbox_borrows_by_the_full_name() -> None:
    counter = Counter()

    async def look(context: CallContext) -> int:
        async with context.borrow("box.thing") as handle:
            return int(handle)

    mind = Mind(uses(), calls(call("look")))
    async with lab(mind, toolboxes=[counter.box(), PythonToolbox("other", [look])]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "1"), ("done", "1")]
    assert counter.made == 1


async def test_a_kind_that_a_program_registers_is_asked_for_by_its_name_and_options() -> None:
    closed: list[str] = []

    def connections(host: str) -> Factory[str]:
        async def make() -> str:
            return f"connection to {host}"

        return Factory(make, close=closed.append)

    async def use(host: str, context: CallContext) -> str:
        async with context.resource("connection", host, scope="conversation", options={"host": host}) as handle:
            return str(handle)

    mind = Mind(calls(call("use", host="a"), call("use", host="b"), call("use", host="a")))
    async with lab(mind, [use]) as here:
        here.kernel.resources.register(ResourceKind(name="connection", factory=connections, pattern=Pattern.EXCLUSIVE))
        conversation = await here.start()
        await conversation.ask("go")
        rows = [(row.kind, row.name, row.level, row.borrowed) for row in here.kernel.resources.rows()]

        assert [text for _, text in await results(conversation)] == [f"connection to {host}" for host in "aba"]
        assert rows == [("connection", "a", Level.CONVERSATION, 2), ("connection", "b", Level.CONVERSATION, 1)]
    assert closed == ["connection to b", "connection to a"]


async def test_readers_of_a_read_write_resource_share_its_one_handle() -> None:
    counter = Counter()
    inside: list[int] = []
    together = asyncio.Event()

    async def look(context: CallContext) -> int:
        async with context.borrow("thing", access=Access.READ) as handle:
            inside.append(handle)
            if len(inside) == 3:
                together.set()
            await together.wait()
            return int(handle)

    box = PythonToolbox("box", [look], resources=[counter.maker(pattern="read-write")])
    async with lab(Mind(calls(*[call("look")] * 3)), toolboxes=[box]) as here:
        assert (await here.ask()).completed

    assert (inside, counter.made) == ([1, 1, 1], 1)


FILE = """
from agentos import CallContext, resource, tool

@resource(pattern="pool", size=1)
async def visits():
    yield []

@tool
async def visit(who: str, context: CallContext) -> str:
    async with context.borrow("visits") as seen:
        seen.append(who)
        return " and ".join(seen)
"""


async def test_a_file_of_tools_declares_its_resources_beside_them(tmp_path: Path) -> None:
    (tmp_path / "visits.py").write_text(FILE)
    mind = Mind(calls(call("visit", who="ann")), calls(call("visit", who="bob")))
    async with lab(mind, toolboxes=[load_python_toolbox(tmp_path / "visits.py")]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["ann", "ann and bob"]


async def test_what_lives_goes_on_when_its_file_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "visits.py"
    path.write_text(FILE)
    box = load_python_toolbox(path)
    mind = Mind(calls(call("visit", who="ann")), "done", calls(call("visit", who="bob")))
    async with lab(mind, toolboxes=[box]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        path.write_text(FILE.replace('" and "', '" or "'))
        await here.kernel.refresh()
        await box.reload()
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["ann", "ann or bob"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("@resource\ndef thing():\n    return 1\n", r"f\.py:\d+: resource box\.thing is neither async nor an async"),
        ("@resource(close=print)\nasync def thing():\n    yield 1\n", "it closes after its yield, not by close"),
        ("@resource(name='a b')\nasync def thing():\n    yield 1\n", "'a b' is no name"),
        (
            "@resource(scope='world')\nasync def thing():\n    yield 1\n",
            "scope is 'world'; it is one of program, agent",
        ),
        (
            "@resource(pattern='queue')\nasync def thing():\n    yield 1\n",
            "'queue' is not a valid Pattern; it is one of exclusive,",
        ),
        (
            "@resource(name='a')\nasync def one():\n    yield 1\n@resource(name='a')\nasync def two():\n    yield 1\n",
            "two resources are named a",
        ),
    ],
)
def test_a_mistake_is_an_error_that_names_its_file_and_line(tmp_path: Path, source: str, why: str) -> None:
    path = tmp_path / "f.py"
    path.write_text(f"from agentos import resource, tool\n@tool\ndef f() -> int:\n    return 1\n{source}")

    with pytest.raises(ConfigurationError, match=why) as refused:
        load_python_toolbox(path, name="box")
    assert "f.py:" in str(refused.value)


def _box_of(maker: Callable[..., Any]) -> PythonToolbox:
    async def use_box(context: CallContext) -> str:
        async with context.borrow("thing") as handle:
            return str(handle)

    return PythonToolbox("box", [use_box], resources=[maker])
