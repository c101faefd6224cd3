"""About how many bytes units are."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.persistence.sizes import size_of
from agentos.testing.log_units import SALT, LogUnits, post_of

TEXT = "x" * 10_000


@pytest.mark.parametrize(
    "given",
    [
        {"entries": [(1, 1, "a", 0, 0, 0, TEXT, b"")]},
        {"payloads": [(1, 1, "text", SALT, TEXT)]},
        {"messages": [(1, "user", 0, 0, SALT, TEXT)]},
        {"definitions": [("d", "agent", TEXT)]},
        {"components": [("e", "type", TEXT)]},
        {"posts": [post_of("log", "k", TEXT)]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_every_text_counts(given: dict[str, Any]) -> None:
    plain, unit = LogUnits("a", 1).unit(), LogUnits("a", 1).unit(**given)

    assert 0 < size_of([plain]) < 2_000
    assert 9_000 < size_of([unit]) - size_of([plain]) <= 10_000
    assert size_of([plain, unit, unit]) == size_of([plain]) + 2 * size_of([unit])


def test_what_was_erased_counts_for_nothing() -> None:
    erased = LogUnits("a", 1).unit(payloads=[(1, 1, "text", None, None)], messages=[(1, "user", 0, 0, None, None)])

    assert size_of([erased]) == size_of([LogUnits("a", 1).unit()])
