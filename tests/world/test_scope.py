"""Scopes: everything comes back once, newest first, whatever else happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from agentos.errors import ReleaseFailed, ResourceScopeInvalid
from agentos.resources import Scope
from agentos.resources.scope import Level


def program(release_s: float = 10.0) -> Scope:
    return Scope(Level.PROGRAM, "program", release_s=release_s)


async def test_releases_run_newest_first_sync_and_async_alike() -> None:
    order: list[int] = []

    async def slow() -> None:
        await asyncio.sleep(0)
        order.append(2)

    scope = program()
    scope.push("one", lambda: order.append(1))
    scope.push("two", slow)
    scope.push("three", lambda: order.append(3))
    await scope.close()

    assert order == [3, 2, 1]
    assert scope.open == 0


async def test_a_child_is_closed_in_its_place_of_the_order() -> None:
    order: list[str] = []
    scope = program()
    scope.push("before", lambda: order.append("before"))
    scope.child(Level.AGENT, "ann").push("inside", lambda: order.append("inside"))
    scope.push("after", lambda: order.append("after"))
    await scope.close()

    assert order == ["after", "inside", "before"]


async def test_closing_twice_releases_once() -> None:
    order: list[int] = []
    scope = program()
    scope.push("one", lambda: order.append(1))
    await scope.close()
    await scope.close()

    assert order == [1]
    assert scope.closed


async def test_a_child_that_was_closed_is_not_closed_again_with_its_parent() -> None:
    order: list[int] = []
    scope = program()
    child = scope.child(Level.AGENT, "ann")
    child.push("one", lambda: order.append(1))
    await child.close()
    await scope.close()

    assert order == [1]
    assert scope.children == ()


async def test_one_failure_stops_nothing_and_all_failures_are_told() -> None:
    order: list[int] = []

    def broken() -> None:
        raise OSError("stuck")

    async def broken_too() -> None:
        raise ValueError("bent")

    scope = program()
    scope.push("last", lambda: order.append(1))
    scope.child(Level.AGENT, "ann").push("bent", broken_too)
    scope.push("stuck", broken)

    with pytest.raises(ReleaseFailed) as told:
        await scope.close()
    assert order == [1]
    assert [(name, str(error)) for name, error in told.value.failures] == [("stuck", "stuck"), ("bent", "bent")]


async def test_a_release_over_its_limit_is_a_failure_and_the_next_ones_run() -> None:
    order: list[int] = []

    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    scope = program(release_s=0.01)
    scope.push("last", lambda: order.append(1))
    scope.push("hangs", hang)

    with pytest.raises(ReleaseFailed, match="hangs"):
        await scope.close()
    assert order == [1]


async def test_a_release_that_cannot_be_stopped_is_given_up_after_its_limit() -> None:
    order: list[int] = []
    door = asyncio.Event()

    async def stubborn() -> None:
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue

    scope = program(release_s=0.01)
    scope.push("last", lambda: order.append(1))
    scope.push("stubborn", stubborn)

    with pytest.raises(ReleaseFailed, match="stubborn"):
        await asyncio.wait_for(scope.close(), 60)
    door.set()
    assert order == [1]


async def test_a_cancelled_closer_still_gives_everything_back_and_is_cancelled_after() -> None:
    order: list[str] = []
    door = asyncio.Event()

    async def slow() -> None:
        order.append("begun")
        await door.wait()
        order.append("ended")

    scope = program()
    scope.push("last", lambda: order.append("last"))
    scope.push("slow too", slow)
    scope.push("slow", slow)
    closing = asyncio.create_task(scope.close())
    await asyncio.sleep(0)
    for _ in range(3):
        closing.cancel()
        await asyncio.sleep(0)
    door.set()
    await asyncio.wait([closing])

    assert order == ["begun", "ended", "begun", "ended", "last"]
    assert closing.cancelled()


async def test_a_release_that_cancels_itself_is_a_failure_like_any_other() -> None:
    order: list[int] = []

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    scope = program()
    scope.push("last", lambda: order.append(1))
    scope.push("odd", cancels_itself)

    with pytest.raises(ReleaseFailed, match="odd"):
        await scope.close()
    assert order == [1]


async def test_a_scope_that_has_ended_takes_nothing_more() -> None:
    scope = program()
    child = scope.child(Level.AGENT, "ann")
    await scope.close()

    with pytest.raises(ResourceScopeInvalid, match="'late' cannot live in scope program/ann: it has ended"):
        child.push("late", lambda: None)
    with pytest.raises(ResourceScopeInvalid, match="'bob' cannot live in scope program: it has ended"):
        scope.child(Level.AGENT, "bob")


async def test_a_wider_scope_is_never_inside_a_narrower_one() -> None:
    agent = program().child(Level.AGENT, "ann")

    with pytest.raises(ValueError, match="AGENT scope cannot be inside"):
        agent.child(Level.CONVERSATION, "c").child(Level.AGENT, "bob")


async def test_scopes_and_releases_of_one_name_are_told_apart() -> None:
    order: list[str] = []
    scope = program()
    scope.push("notes", lambda: order.append("a release of that name"))
    toolbox = scope.child(Level.TOOLBOX, "notes")
    agent = scope.child(Level.AGENT, "notes")
    toolbox.push("toolbox", lambda: order.append("toolbox"))
    agent.child(Level.CONVERSATION, "c").push("call", lambda: order.append("call"))
    await toolbox.close()
    after_toolbox = list(order)
    await scope.close()

    assert after_toolbox == ["toolbox"]
    assert order == ["toolbox", "call", "a release of that name"]


@given(st.recursive(st.integers(0, 9), lambda inner: st.lists(inner, max_size=5)), st.booleans())
def test_any_tree_of_scopes_gives_back_everything_once_newest_first(tree: Any, fails: bool) -> None:
    """A number is a release, a list a scope inside; with failures in between too."""
    given_back: list[int] = []
    expected: list[int] = []

    def push(scope: Scope, what: Any, names: list[int]) -> None:
        if isinstance(what, int):
            names.append(len(names))
            scope.push(f"release {len(names)}", release(len(names), what))
            expected.append(len(names))
            return
        names.append(len(names))
        inner = scope if scope.level is Level.CALL else scope.child(Level(scope.level + 1), f"scope {len(names)}")
        for part in what:
            push(inner, part, names)

    def release(n: int, what: int) -> Callable[[], None]:
        def give_back() -> None:
            given_back.append(n)
            if fails and what < 3:
                raise OSError(n)

        return give_back

    scope = program()
    push(scope, tree, [])
    failed = fails and any(True for _ in _small(tree))
    try:
        asyncio.run(scope.close())
    except ReleaseFailed:
        assert failed
    else:
        assert not failed

    assert given_back == expected[::-1]


def _small(tree: Any) -> list[int]:
    if isinstance(tree, int):
        return [tree] if tree < 3 else []
    return [n for part in tree for n in _small(part)]


async def test_one_function_that_is_pushed_twice_runs_twice_unless_one_of_them_is_taken_back() -> None:
    ran: list[str] = []

    def release() -> None:
        ran.append("released")

    scope = Scope(Level.PROGRAM, "program")
    first, second = scope.push("one", release), scope.push("one", release)
    taken = [scope.take_back(number) for number in (first, first)]
    kept = scope.open
    await scope.close()

    assert (taken, kept, ran) == ([True, False], 1, ["released"])
    assert not scope.take_back(second)
