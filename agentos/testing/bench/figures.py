"""What is measured, what it may come to, and the table that says whether it does."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

Sample = tuple[float, float | None]
"""Ours, and what it is compared with, in the same unit; None when the figure stands by itself."""
Samples = dict[str, list[Sample]]
"""By the name of the figure."""


class Figure(msgspec.Struct, frozen=True):
    """unit is that of ours and of what it is compared with; the bound is on their ratio where there is such a thing.

    bound: at most, or with at_least at least that; None for a figure that is told and not judged.
    """

    unit: str
    bound: float | None = None
    at_least: bool = False


class Result(msgspec.Struct, frozen=True):
    """Medians over all samples. value is the ratio, or ours where there is none; low and high bound the middle half of
    the values."""

    name: str
    figure: Figure
    value: float
    low: float
    high: float
    ours: float
    other: float | None

    @property
    def missed(self) -> bool:
        bound = self.figure.bound
        return bound is not None and (self.value < bound if self.figure.at_least else self.value > bound)


HEADINGS = ("figure", "value", "middle half", "bound", "", "ours", "other", "unit of ours and other")


def result_of(name: str, figure: Figure, samples: Sequence[Sample]) -> Result:
    values = [ours if other is None else ours / other for ours, other in samples]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    others = [other for _, other in samples if other is not None]
    return Result(
        name=name,
        figure=figure,
        value=statistics.median(values),
        low=low,
        high=high,
        ours=statistics.median(ours for ours, _ in samples),
        other=statistics.median(others) if others else None,
    )


def table(results: Sequence[Result]) -> str:
    """One line for each figure, with its verdict."""
    rows = [HEADINGS, *(_row(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(_aligned(row, widths)).rstrip() for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    ends = (0, 4, len(row) - 1)
    return [
        cell.ljust(width) if i in ends else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _row(result: Result) -> tuple[str, ...]:
    figure = result.figure
    bound = "" if figure.bound is None else f"{'>=' if figure.at_least else '<='} {_number(figure.bound)}"
    verdict = "told" if figure.bound is None else "missed" if result.missed else "ok"
    middle = f"{_number(result.low)}-{_number(result.high)}"
    other = "" if result.other is None else _number(result.other)
    return result.name, _number(result.value), middle, bound, verdict, _number(result.ours), other, figure.unit


def _number(value: float) -> str:
    """Three digits or more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def results_of(figures: Mapping[str, Figure], samples: Samples) -> list[Result]:
    """In the order in which they were measured."""
    return [result_of(name, figures[name], taken) for name, taken in samples.items()]
