"""What came of a scenario, step by step, for programs and for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import msgspec

COLUMNS = 120


def counted(number: int, thing: str) -> str:
    """1 call, 2 calls."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


class StepResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One step, or one of the things that must hold at the end (then line is 0).

    life counts kernels, from 1; child says that it was a process of its own, process, which of several. saw is what was
    there to see; wrong says what is not as it should be.
    """

    life: int
    line: int
    word: str
    saw: list[str] = []
    wrong: list[str] = []
    child: bool = False
    process: str = ""

    @property
    def ok(self) -> bool:
        return not self.wrong


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. skipped counts the steps after the first that failed."""

    path: str
    title: str
    about: str = ""
    steps: list[StepResult]
    skipped: int = 0

    @property
    def ok(self) -> bool:
        return all(step.ok for step in self.steps)

    @property
    def failed(self) -> list[StepResult]:
        return [step for step in self.steps if not step.ok]

    def text(self) -> str:
        """The run as a person reads it."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.title
        if self.about:
            yield textwrap.indent(textwrap.fill(" ".join(self.about.split()), COLUMNS - 2), "  ")
        part = ""
        for step in self.steps:
            if (begun := _part(step)) != part:
                part = begun
                yield ""
                yield f"{part}:"
            yield from _step_lines(step)
        yield ""
        yield self._verdict()

    def _verdict(self) -> str:
        if self.ok:
            return f"passed: {len(self.steps)} steps and checks"
        failed = self.failed[0]
        place = f"{self.path}:{failed.line}: " if failed.line else ""
        skipped = f"; {counted(self.skipped, 'step')} not run" if self.skipped else ""
        return f"failed: {place}{failed.word}{skipped}"


def _part(step: StepResult) -> str:
    if not step.line:
        return "at the end"
    if step.process:
        again = f", kernel {step.life}" if step.life > 1 else ""
        return f"process {step.process}{again}"
    return f"kernel {step.life}, in a child process" if step.child else f"kernel {step.life}"


def _step_lines(step: StepResult) -> Iterator[str]:
    place = f"line {step.line:<4}" if step.line else ""
    head = f"  {'ok  ' if step.ok else 'FAIL'}  {place}{step.word:<10}  "
    told = [line for text in (*step.saw, *(f"WRONG: {what}" for what in step.wrong)) for line in _wrapped(text)]
    for n, line in enumerate(told or [""]):
        yield f"{head if n == 0 else ' ' * len(head)}{line}".rstrip()


def _wrapped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(line, COLUMNS - 28, subsequent_indent=indent, break_on_hyphens=False) or [""]
