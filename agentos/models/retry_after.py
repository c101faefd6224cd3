"""How long a provider asks to wait, read from what it says of it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from agentos.ids import Micros

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = r"\d{1,12}(?:\.\d{1,12})?(?:ms|us|µs|ns|d|h|m|s)"
_DURATION = re.compile(rf"(?:{_PART})+")
_PARTS = re.compile(r"([\d.]+)(ms|us|µs|ns|d|h|m|s)")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,12})?")
_IN_WORDS = re.compile(
    rf"(?:try again|retry|wait)[^.\d]{{0,40}}((?:{_PART})+|\d{{1,9}}(?:\.\d+)? ?seconds?)", re.IGNORECASE
)
_EPOCH_S, _EPOCH_MS = 1e9, 1e12
"""A number above the first is a time in seconds since 1970, above the second in milliseconds."""


def retry_after_s(headers: Mapping[str, str], words: str, now: Micros) -> float | None:
    """Seconds to wait, None when nothing is said.

    headers have lower-case names. The nearest to a promise counts: Retry-After, then the reset of the limit that is
    used up, then the words of the error.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    asked = _header_s(headers.get("retry-after"), now)
    if asked is not None:
        return asked
    reset = _reset_s(headers, now)
    if reset is not None:
        return reset
    found = _IN_WORDS.search(words)
    return _words_s(found[1]) if found else None


def duration_s(text: str | None) -> float | None:
    """`1d2h3m4s`, `1.376s`, `120ms`, or a bare number of seconds; None for anything else."""
    text = (text or "").strip()
    number = _number(text)
    if number is not None:
        return number
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(value) * _UNITS[unit] for value, unit in _PARTS.findall(text))


def in_words(seconds: float) -> str:
    """`3 s`, and what that is in larger units where these say more."""
    plain = f"{math.ceil(seconds)} s" if seconds >= 10 else f"{seconds:.3g} s"
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{plain} ({seconds / size:.3g} {unit})"
    return plain


def _header_s(value: str | None, now: Micros) -> float | None:
    """Seconds, or a date of HTTP; a date that is past asks for no wait."""
    plain = duration_s(value)
    if plain is not None or not value:
        return plain
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.fromtimestamp(now / 1e6, UTC)).total_seconds())


def _reset_s(headers: Mapping[str, str], now: Micros) -> float | None:
    """When the limits that are used up begin anew, the latest of them; of all limits when none says that it is."""
    resets: dict[bool, list[float]] = {True: [], False: []}
    for name, value in headers.items():
        if "ratelimit-reset" not in name:
            continue
        seconds = _since_now(duration_s(value), now)
        if seconds is not None:
            used_up = _number(headers.get(name.replace("-reset", "-remaining"))) == 0
            resets[used_up].append(seconds)
    found = resets[True] or resets[False]
    return max(found) if found else None


def _since_now(value: float | None, now: Micros) -> float | None:
    if value is None or value < _EPOCH_S:
        return value
    at_s = value / 1000 if value >= _EPOCH_MS else value
    return max(0.0, at_s - now / 1e6)


def _words_s(text: str) -> float | None:
    return duration_s(re.sub(r" ?seconds?$", "s", text, flags=re.IGNORECASE))


def _number(text: str | None) -> float | None:
    text = (text or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None
