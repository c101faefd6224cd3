"""One thing that is wrong, or odd, in a file: where it stands, and what it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from agentos.errors import ConfigurationError

Severity = Literal["error", "warning"]
"""An error keeps what it is about from being used; a warning does not."""


class Problem(msgspec.Struct, frozen=True):
    """line and column count from 1, the column in characters; both are 0 when the file as a whole is meant."""

    path: Path
    line: int
    column: int
    text: str
    severity: Severity = "error"

    def __str__(self) -> str:
        """file:line:column: text"""
        return f"{self.where}: {self.text}"

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else str(self.path)

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once, by file, then by place."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (str(one.path), one.line, one.column)))


def and_more(last: Problem, more: int) -> Problem:
    """Says behind the last problem that is told how many are not."""
    return Problem(last.path, last.line, last.column, f"and {more:,} more problems of this file (file_problems_max)")


def raise_errors(problems: Iterable[Problem]) -> None:
    """Raises one ConfigurationError that tells all errors, one a line; warnings are not looked at."""
    errors = [str(problem) for problem in problems if problem.is_error]
    if errors:
        raise ConfigurationError("\n".join(errors))
