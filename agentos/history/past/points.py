"""A point of the past: a time, or the seq of an entry, as people write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from agentos.errors import ConfigurationError

SHOWN_CHARS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999."""
_SEQ = re.compile(r"[0-9]{1,18}")
_AGO = re.compile(r"([0-9]{1,6}) ?(s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?) ago")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A time in microseconds, UTC, or a seq from 1; one of the two. utc_assumed: the time was written without a zone."""

    at: int | None = None
    seq: int | None = None
    utc_assumed: bool = False


def parse_point(text: str, now: int) -> Point:
    """`12` is a seq; `2026-11-30T10:00:00Z`, `2026-11-30` and `10m ago` are times. now is in microseconds, UTC.

    Errors: ConfigurationError for what is neither, and for a time that has not come yet.
    """
    word = text.strip()
    if _SEQ.fullmatch(word):
        return _seq(int(word))
    ago = _AGO.fullmatch(word)
    point = _before(now, ago) if ago is not None else _iso(word)
    if point.at is not None and point.at > now:
        raise ConfigurationError(f"{word[:SHOWN_CHARS]} has not come yet: it is {iso_time(now)}")
    return point


def iso_time(at: int) -> str:
    """Microseconds as text, as in the views; a number that is no time of a calendar stays one."""
    if not _FIRST_US <= at <= _LAST_US:
        return f"{at} us"
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _seq(seq: int) -> Point:
    if seq == 0:
        raise ConfigurationError("seq 0 is before the first entry, which has seq 1")
    return Point(seq=seq)


def _before(now: int, ago: re.Match[str]) -> Point:
    return Point(at=now - int(ago[1]) * _UNITS_S[ago[2][0]] * 1_000_000)


def _iso(word: str) -> Point:
    try:
        time = datetime.fromisoformat(word)
        assumed = time.tzinfo is None
        at = (time.replace(tzinfo=UTC) if assumed else time) - _EPOCH
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{word[:SHOWN_CHARS]!r} is no seq and no time; write 12, 2026-11-30T10:00:00Z or '10m ago'"
        ) from error
    return Point(at=at // timedelta(microseconds=1), utc_assumed=assumed)
