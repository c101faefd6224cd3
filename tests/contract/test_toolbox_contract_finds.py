"""The contract of toolboxes finds what breaks it: each broken toolbox here fails the test that is about its fault."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from agentos.components import ToolSpec
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.testing.toolbox_contract import Sample, ToolboxCase, ToolboxContract
from agentos.toolboxes.python import PythonToolbox


async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def wait() -> None:
    """Waits for nothing."""
    await asyncio.Event().wait()


class Good(PythonToolbox):
    """Keeps the contract; the others break it in one place each."""

    def __init__(self) -> None:
        super().__init__("box", [add, wait])


class Unsorted(Good):
    def tools(self) -> Sequence[ToolSpec]:
        return tuple(reversed(super().tools()))


class Foreign(Good):
    def tools(self) -> Sequence[ToolSpec]:
        return [msgspec.structs.replace(spec, toolbox=Name("other")) for spec in super().tools()]


class Raising(Good):
    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        if tool not in ("add", "wait"):
            raise KeyError(tool)
        return await super().call(tool, arguments, context)


class Changing(Good):
    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        result = await super().call(tool, dict(arguments), context)
        arguments.clear()
        return result


class Deaf(Good):
    """Takes a cancellation for an answer."""

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        try:
            return await super().call(tool, arguments, context)
        except asyncio.CancelledError:
            return "never mind"


class Blocking(Good):
    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        if tool == "wait":
            time.sleep(0.02)  # noqa: ASYNC251
            return None
        return await super().call(tool, arguments, context)


class LeavesThreads(Good):
    async def open(self) -> None:
        threading.Thread(target=RELEASE.wait, daemon=True).start()


class LeavesProcesses(Good):
    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        if tool == "wait":
            PROCESSES.append(subprocess.Popen(["sleep", "1000"]))  # noqa: ASYNC220
        return await super().call(tool, arguments, context)


class ClosesOnce(Good):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True


RELEASE = threading.Event()
PROCESSES: list[subprocess.Popen[bytes]] = []
CONTRACT = ToolboxContract()
Test = Callable[[ToolboxCase], Awaitable[None]]


async def soon_cancelled(case: ToolboxCase) -> None:
    await CONTRACT.test_a_cancelled_call_lets_go_and_the_next_one_works(case, 0.01)


BROKEN: list[tuple[type[Good], Test]] = [
    (Unsorted, CONTRACT.test_its_tools_are_sorted_and_each_names_the_toolbox),
    (Foreign, CONTRACT.test_its_tools_are_sorted_and_each_names_the_toolbox),
    (Raising, CONTRACT.test_a_tool_that_it_lacks_is_a_failed_call_that_names_both),
    (Changing, CONTRACT.test_a_call_changes_neither_the_tools_nor_its_arguments),
    (Deaf, soon_cancelled),
    (Deaf, CONTRACT.test_the_loop_goes_on_while_a_call_runs),
    (Blocking, CONTRACT.test_the_loop_goes_on_while_a_call_runs),
    (LeavesThreads, CONTRACT.test_nothing_is_left_of_a_closed_toolbox),
    (LeavesProcesses, soon_cancelled),
    (ClosesOnce, CONTRACT.test_closing_twice_is_closing_once),
]


def case_of(toolbox: type[Good]) -> ToolboxCase:
    return ToolboxCase(toolbox, Sample("add", {"a": 1, "b": 2}, "3"), Sample("wait", {}))


@pytest.mark.parametrize(("toolbox", "test"), BROKEN, ids=[f"{n}-{box.__name__}" for n, (box, _) in enumerate(BROKEN)])
async def test_a_broken_toolbox_fails_where_a_good_one_passes(toolbox: type[Good], test: Test) -> None:
    RELEASE.clear()
    await test(case_of(Good))

    try:
        with pytest.raises((AssertionError, KeyError, RuntimeError)):
            await test(case_of(toolbox))
    finally:
        RELEASE.set()
        while PROCESSES:
            process = PROCESSES.pop()
            process.kill()
            process.wait()


async def test_a_result_with_other_words_is_no_good_result() -> None:
    case = case_of(Good)._replace(good=Sample("add", {"a": 1, "b": 3}, "3"))

    with pytest.raises(AssertionError):
        await CONTRACT.test_a_good_call_gives_a_result_that_has_a_text_each_time(case)
