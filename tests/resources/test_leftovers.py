"""What a kernel could not end when it closed: it says so, by name."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from agentos.resources import Factory
from agentos.settings import Settings
from agentos.testing.leaks import leak_meter
from tests.support import Mind, call, calls, lab, until


async def test_a_kernel_that_could_end_everything_has_nothing_left(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> str:
        return "worked"

    async with leak_meter(), lab(Mind(calls(call("work"))), [work]) as here:
        await here.ask()

    assert here.kernel.left == ()
    assert caplog.records == []


async def test_a_thread_that_nobody_can_end_is_named_with_its_tool(caplog: pytest.LogCaptureFixture) -> None:
    let_go, began = threading.Event(), threading.Event()

    def stubborn() -> None:
        began.set()
        let_go.wait()

    async with leak_meter():
        with caplog.at_level(logging.WARNING, "agentos.kernel.leftovers"):
            async with lab(Mind(calls(call("stubborn"))), [stubborn]) as here:
                asked = asyncio.ensure_future(here.ask())
                await until(began.is_set)
                await here.kernel.close(0)
        await asyncio.wait([asked])
        let_go.set()

    assert here.kernel.left == ("tool stubborn of toolbox box still runs in a thread that nobody can end",)
    assert here.kernel.left[0] in caplog.text
    assert asked.exception() is not None


async def test_a_call_that_ignores_its_cancellation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    let_go, began = asyncio.Event(), asyncio.Event()

    async def deaf() -> str:
        began.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with leak_meter():
        options = {"settings": Settings(release_s=0.01)}
        async with lab(Mind(calls(call("deaf"))), [deaf], options=options) as here:
            asked = asyncio.ensure_future(here.ask())
            await until(began.is_set)
            closing = asyncio.ensure_future(here.kernel.close(0))
            await here.moving(closing)
        await asyncio.wait([asked])
        let_go.set()

    assert len(here.kernel.left) == 1
    assert here.kernel.left[0].endswith("(deaf) still runs; it ignores its cancellation")
    assert asked.exception() is not None


async def test_a_resource_that_does_not_close_is_told_by_its_scope() -> None:
    async def make() -> str:
        return "handle"

    def close(handle: str) -> None:
        raise OSError("it does not let go")

    async def work() -> None:
        async with lab() as here:
            await here.kernel.resources.create(here.kernel.scope, "thing", "mine", Factory(make, close=close))

    with pytest.raises(Exception, match=r"thing mine: .*it does not let go"):
        await work()
