"""Words about the past: the point that a person names, and how exact what is shown of it is."""

from __future__ import annotations

from typing import Any

from agentos.clock import SystemClock
from agentos.errors import ConfigurationError
from agentos.history import Past, Point, Processes, iso_time, parse_point
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.output import counted, say


def point_of(text: str) -> Point:
    """Raises UsageError for what is neither a seq nor a time."""
    try:
        point = parse_point(text, SystemClock().now())
    except ConfigurationError as error:
        raise UsageError(str(error)) from error
    if point.utc_assumed:
        say(f"{text.strip()} names no zone; it is taken for UTC")
    return point


def time_of(text: str) -> int:
    """A point that is a time, in microseconds, UTC. Raises UsageError."""
    point = point_of(text)
    if point.at is None:
        raise UsageError(
            f"{text.strip()} is a seq, which one log has; name a time, as 2026-11-30T10:00:00Z or '10m ago'"
        )
    return point.at


def say_past(past: Past) -> None:
    """What a query over the past rests on."""
    if past.asked is not None:
        say(f"seq {past.asked} lies within a unit, which counts whole: the log is taken up to the unit before")
    what = f"{counted(past.logs, 'log')}, {past.entries:,} entries"
    say(f"as of {iso_time(past.at)}, exact within a writer; {counted(past.writers, 'writer')}, {what}")


def say_processes(past: Processes) -> None:
    say(f"as of {iso_time(past.at)}, exact within a writer; {counted(past.writers, 'writer')}")


def as_object(past: Past) -> dict[str, Any]:
    """What programs are told of it."""
    return {
        "at": iso_time(past.at),
        "at_us": past.at,
        "writers": past.writers,
        "logs": past.logs,
        "entries": past.entries,
    }
