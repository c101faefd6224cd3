"""A plugin for pytest: `no_leaks`, with which a test fails that leaves something behind.

    pytest_plugins = ["agentos.testing.plugin"]  # in the conftest.py at the top of the tests

    async def test_my_agent(no_leaks): ...

It looks at the whole process, so ask for it before other fixtures: those that come after it have to clean up too, and
what wider ones hold was there before. An async test has its tasks looked at on its own loop, as it ends. A kernel that a
fixture keeps open is looked at with `no_leaks.watch(kernel)`. A test that fails is not looked at: its traceback alone
keeps alive what it used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, cast

import pytest

from agentos.testing.leaks import LeakMeter, own_temporary_folder

TASKS = frozenset({"task"})
ON_THE_LOOP = TASKS | {"scope", "slot", "resource"}
"""The kinds that are looked at before the loop of a test goes away."""

_failed = pytest.StashKey[bool]()


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeakMeter]:
    """Fails the test with `Leaked`, naming what is left after it and was not there before. Gives the meter."""
    tmp_path_factory.getbasetemp()  # made now, and not in the folder that goes with this test
    with own_temporary_folder() as temporary:
        meter = LeakMeter(temporary)
        yield meter
        if not request.node.stash.get(_failed, False):
            meter.check_blocking()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and no_leaks.__name__ in item.fixturenames:
            _look_on_the_loop(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_failed] = True
    return report


def _look_on_the_loop(item: pytest.Function) -> None:
    """Has an async test checked where its tasks still are; one of Hypothesis after each example."""
    drawn = getattr(item.obj, "hypothesis", None)
    if drawn is not None and inspect.iscoroutinefunction(drawn.inner_test):
        drawn.inner_test = _checked(drawn.inner_test, item)
    elif inspect.iscoroutinefunction(item.obj):
        item.obj = _checked(item.obj, item)


def _checked(test: Callable[..., Awaitable[None]], item: pytest.Function) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def checked(*arguments: Any, **named: Any) -> None:
        meter = cast(LeakMeter, item.funcargs[no_leaks.__name__])
        meter.start_anew(TASKS)
        await test(*arguments, **named)
        await meter.check(ON_THE_LOOP)

    return checked
