"""Points of the past as people write them."""

from __future__ import annotations

import pytest

from agentos.errors import ConfigurationError
from agentos.history import Point, iso_time, parse_point

NOW = 1_900_000_000_000_001
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("12", Point(seq=12)),
        (" 12 ", Point(seq=12)),
        ("2026-11-30T10:00:00Z", Point(at=1_796_032_800_000_000)),
        ("2026-11-30T10:00:00.000001+00:00", Point(at=1_796_032_800_000_001)),
        ("2026-11-30T12:00:00+02:00", Point(at=1_796_032_800_000_000)),
        ("2026-11-30 10:00", Point(at=1_796_032_800_000_000, utc_assumed=True)),
        ("2026-11-30", Point(at=1_796_032_800_000_000 - 10 * HOUR, utc_assumed=True)),
        ("1969-12-31T23:59:59.999999Z", Point(at=-1)),
        ("10m ago", Point(at=NOW - HOUR // 6)),
        ("2 hours ago", Point(at=NOW - 2 * HOUR)),
        ("1d ago", Point(at=NOW - 24 * HOUR)),
        ("0s ago", Point(at=NOW)),
    ],
)
def test_seqs_and_times_are_read(text: str, point: Point) -> None:
    assert parse_point(text, NOW) == point


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no seq and no time"),
        ("yesterday", "write 12, 2026-11-30T10:00:00Z or '10m ago'"),
        ("-3", "is no seq and no time"),
        ("10 parsecs ago", "is no seq and no time"),
        ("2026-13-01", "is no seq and no time"),
        ("0", "before the first entry"),
        ("2999-01-01T00:00:00Z", "has not come yet"),
        ("9" * 400, "is no seq and no time"),
        ("0001-01-01T00:00:00+23:59", None),
    ],
)
def test_what_is_neither_is_refused_or_long_ago(text: str, why: str | None) -> None:
    if why is None:
        assert (parse_point(text, NOW).at or 0) < -(10**16)
        return
    with pytest.raises(ConfigurationError, match=why):
        parse_point(text, NOW)


def test_a_time_is_shown_as_it_may_be_written() -> None:
    assert iso_time(1_796_032_800_000_001) == "2026-11-30T10:00:00.000001Z"
    assert parse_point(iso_time(NOW), NOW) == Point(at=NOW)
