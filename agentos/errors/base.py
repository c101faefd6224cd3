"""The root of all errors, and how their sentences name many things."""

from __future__ import annotations

from datetime import UTC, datetime


class AgentosError(Exception):
    """The root of all errors of this package."""


NAMED_MAX = 10
"""How many ids a sentence names."""


def utc(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
