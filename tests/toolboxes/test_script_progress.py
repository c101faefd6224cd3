"""The last line of a running script as its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ToolError
from agentos.ids import Name
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.script import ScriptToolbox
from agentos.toolboxes.script.progress import LINE_CHARS, LastLine
from tests.support import until
from tests.toolboxes.conftest import CallOf

Write = Callable[..., Path]
AT_ONCE = ProcessLimits(progress_s=0.0)


class Kept(CallOf):
    """A call that keeps its progress, at most progress_max times."""

    def __init__(self, progress_max: int = 100) -> None:
        super().__init__()
        self.told: list[Any] = []
        self._progress_max = progress_max

    def progress(self, data: Any) -> None:
        if len(self.told) == self._progress_max:
            raise ToolError(f"a call may report progress {self._progress_max} times (progress_max)")
        self.told.append(data)


async def run(folder: Path, context: Kept, limits: ProcessLimits = AT_ONCE) -> object:
    toolbox = ScriptToolbox("box", directories=[folder / "scripts"], cwd=folder, limits=limits)
    await toolbox.open()
    try:
        return await toolbox.call(Name("work"), {}, context)
    finally:
        await toolbox.close()


STEP_BY_STEP = """
step() { echo "$1"; until [ -e "heard_$2" ]; do sleep 0.01; done; }
step one 1
step two 2 >&2
printf 'three\\r'; until [ -e heard_3 ]; do sleep 0.01; done
echo done
"""


async def test_each_new_line_is_told_while_the_script_runs_whichever_pipe_it_takes(
    script: Write, tmp_path: Path
) -> None:
    script("work", STEP_BY_STEP, progress=True)
    context = Kept()
    call = asyncio.create_task(run(tmp_path, context))

    for number in (1, 2, 3):
        await until(lambda number=number: len(context.told) == number)
        (tmp_path / f"heard_{number}").touch()

    assert await call == "one\nthree\rdone\n"
    assert context.told[:3] == [{"line": "one"}, {"line": "two"}, {"line": "three"}]


async def test_a_script_that_does_not_ask_keeps_no_progress(script: Write, tmp_path: Path) -> None:
    script("work", "echo line")
    context = Kept()

    assert await run(tmp_path, context) == "line\n"
    assert context.told == []


async def test_more_lines_than_a_call_may_tell_are_no_fault_of_the_script(script: Write, tmp_path: Path) -> None:
    script("work", "for n in 1 2 3 4 5 6; do echo $n; sleep 0.02; done", progress=True)
    context = Kept(progress_max=1)

    assert await run(tmp_path, context) == "1\n2\n3\n4\n5\n6\n"
    assert len(context.told) == 1


async def test_a_flood_of_lines_is_told_seldom_and_whole_in_the_result(script: Write, tmp_path: Path) -> None:
    script("work", "yes line | head -n 200000", progress=True)
    context = Kept()

    assert await run(tmp_path, context, ProcessLimits(progress_s=1000.0)) == "line\n" * 200_000
    assert context.told == [{"line": "line"}]


class Clock:
    """The part of an event loop that LastLine needs, with a time that the test moves on."""

    def __init__(self) -> None:
        self.now_s, self.due_s = 0.0, float("inf")
        self.call: Callable[[], None] = self.cancel

    def time(self) -> float:
        return self.now_s

    def call_later(self, wait_s: float, call: Callable[[], None]) -> Clock:
        self.due_s, self.call = self.now_s + wait_s, call
        return self

    def cancel(self) -> None:
        self.due_s = float("inf")

    def pass_to(self, at_s: float) -> None:
        self.now_s = at_s
        if at_s >= self.due_s:
            self.due_s = float("inf")
            self.call()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def last_line(clock: Clock, told: list[str]) -> LastLine:
    """One that tells a line each half a second."""
    return LastLine(lambda data: told.append(data["line"]), 0.5)


def feed(last_line: LastLine, *chunks: bytes) -> None:
    heard = last_line.pipe()
    for chunk in chunks:
        heard(memoryview(chunk))


def test_of_the_lines_between_two_tellings_only_the_last_is_told(
    clock: Clock, told: list[str], last_line: LastLine
) -> None:
    feed(last_line, b"a\n", b"b\n", b"c\n")
    assert told == ["a"]

    clock.pass_to(0.5)
    assert told == ["a", "c"]


def test_the_same_line_is_not_told_twice(clock: Clock, told: list[str], last_line: LastLine) -> None:
    feed(last_line, b"a\n", b"b\n", b"a\n")
    clock.pass_to(0.5)
    clock.pass_to(2.0)
    feed(last_line, b"a\n")

    assert told == ["a"]


def test_a_line_is_told_once_it_is_whole(clock: Clock, told: list[str], last_line: LastLine) -> None:
    heard = last_line.pipe()
    heard(memoryview(b"half"))
    assert told == []

    heard(memoryview(b" and half\nnext"))
    assert told == ["half and half"]


def test_blank_lines_and_bytes_that_are_no_text_do_no_harm(told: list[str], last_line: LastLine) -> None:
    feed(last_line, b"\n \n\r\n", b"caf\xe9\n\n  \n")

    assert told == ["caf\N{REPLACEMENT CHARACTER}"]


def test_a_line_without_end_takes_a_bound_of_memory(told: list[str], last_line: LastLine) -> None:
    feed(last_line, *[b"x" * 60_000] * 20, b"\n")

    assert told == ["x" * LINE_CHARS]


def test_nothing_is_told_after_the_end(clock: Clock, told: list[str], last_line: LastLine) -> None:
    feed(last_line, b"a\n", b"b\n")
    last_line.close()
    clock.pass_to(1.0)
    feed(last_line, b"c\n")

    assert told == ["a"]
