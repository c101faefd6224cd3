"""Function tools that block, raise what nobody expects, or return nonsense (faults F13, F32; cases C04, C05, C23)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentos.ids import Name
from agentos.resources.process.threads import ToolThreads
from agentos.toolboxes.python import PythonToolbox
from agentos.toolboxes.results import ResultRefused, render
from tests.support import until

GUARD_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""


async def call(toolbox: PythonToolbox, name: str = "bad", **arguments: Any) -> object:
    return await toolbox.call(Name(name), arguments, None)  # type: ignore[arg-type]


async def test_f13_the_loop_lives_while_a_sync_tool_blocks() -> None:
    release = threading.Event()

    def bad() -> bool:
        return release.wait(GUARD_S)

    toolbox = PythonToolbox("box", [bad])
    running = asyncio.create_task(call(toolbox))
    for _ in range(10):
        await asyncio.sleep(0.005)
    went_on = not running.done()
    release.set()

    assert went_on
    assert await running is True
    await toolbox.close()


async def test_f13_a_cancelled_sync_tool_returns_at_once_and_is_listed_as_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, release = threading.Event(), threading.Event()

    def bad() -> None:
        began.set()
        release.wait(GUARD_S)

    toolbox = PythonToolbox("box", [bad])
    with caplog.at_level(logging.WARNING, "agentos"):
        running = asyncio.create_task(call(toolbox))
        await until(began.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert [abandoned.tool for abandoned in toolbox.abandoned] == ["bad"]  # it did not wait for the thread
    assert "tool bad goes on in its thread" in caplog.text
    release.set()
    await until(lambda: toolbox.abandoned == ())
    await toolbox.close()


async def test_f13_an_abandoned_thread_keeps_its_slot_until_it_ends() -> None:
    began, release = threading.Event(), threading.Event()

    def bad() -> str:
        began.set()
        release.wait(GUARD_S)
        return "free"

    toolbox = PythonToolbox("box", [bad], threads=(threads := ToolThreads(1)))
    first = asyncio.create_task(call(toolbox))
    await until(began.is_set)
    first.cancel()
    second = asyncio.create_task(call(toolbox))
    await asyncio.sleep(0.02)

    assert not second.done()
    release.set()
    assert await second == "free"
    assert threads.abandoned == ()
    await threads.close()


async def test_f13_sync_tools_run_side_by_side_up_to_the_limit() -> None:
    lock, running, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def bad() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(GUARD_S)
        with lock:
            running -= 1

    toolbox = PythonToolbox("box", [bad], threads=(threads := ToolThreads(3)))
    await asyncio.gather(*(call(toolbox) for _ in range(12)))
    await threads.close()

    assert most == 3


async def test_a_call_cancelled_while_it_waits_for_a_thread_runs_nothing() -> None:
    ran: list[int] = []
    release = threading.Event()

    def bad(n: int) -> None:
        ran.append(n)
        release.wait(GUARD_S)

    toolbox = PythonToolbox("box", [bad], threads=(threads := ToolThreads(1)))
    first = asyncio.create_task(call(toolbox, n=1))
    await until(lambda: ran == [1])
    second = asyncio.create_task(call(toolbox, n=2))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    await first
    await threads.close()

    assert ran == [1]
    assert threads.abandoned == ()


async def test_closing_ends_the_threads() -> None:
    def bad() -> None: ...

    before = set(threading.enumerate())
    toolbox = PythonToolbox("box", [bad])
    await asyncio.gather(*(call(toolbox) for _ in range(5)))

    await toolbox.close()

    assert set(threading.enumerate()) <= before


class Own(BaseException):
    """No Exception, so nothing that catches those sees it."""


def raising(error: BaseException) -> list[Callable[[], Any]]:
    def bad() -> None:
        raise error

    async def bad_async() -> None:
        raise error

    return [bad, bad_async]


@pytest.mark.parametrize(
    "error",
    [Own("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("own"), ValueError("x")],
    ids=lambda error: type(error).__name__,
)
async def test_f32_whatever_a_tool_raises_goes_up_as_it_is_and_the_next_call_works(error: BaseException) -> None:
    def good() -> str:
        return "good"

    toolbox = PythonToolbox("box", [*raising(error), good])

    for name in ("bad", "bad_async"):
        with pytest.raises(type(error)) as caught:
            await call(toolbox, name)
        assert caught.value is error
    assert await call(toolbox, "good") == "good"
    assert toolbox.abandoned == ()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await toolbox.close()


@pytest.mark.parametrize("name", ["bad", "bad_async"])
async def test_f32_a_stop_iteration_becomes_a_runtime_error_as_in_every_coroutine(name: str) -> None:
    toolbox = PythonToolbox("box", raising(StopIteration(1)))

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await call(toolbox, name)
    await toolbox.close()


def generator() -> Any:
    return (n for n in range(3))


def coroutine() -> Any:
    return asyncio.sleep(0)


def cyclic() -> Any:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize("function", [generator, coroutine, cyclic, object])
async def test_f32_a_result_without_a_text_fails_this_call_alone(function: Callable[[], Any]) -> None:
    def bad() -> Any:
        return function()

    toolbox = PythonToolbox("box", [bad])
    result = await call(toolbox)
    await toolbox.close()

    with pytest.raises(ResultRefused):
        render(result, 1_000)


@pytest.mark.parametrize(
    ("value", "text"), [(float("nan"), "NaN"), (b"x", "(1 bytes, base64) eA=="), ({2, 1}, "[1, 2]")]
)
async def test_f32_an_odd_result_has_a_text(value: object, text: str) -> None:
    def bad() -> Any:
        return value

    toolbox = PythonToolbox("box", [bad])

    assert render(await call(toolbox), 1_000).text == text
    await toolbox.close()
