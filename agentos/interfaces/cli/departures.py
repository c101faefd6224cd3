"""What would be otherwise with another configuration, as people read it and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.history import Change, Compared, Departed, Followed, Unchanged
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.output import counted, put, say

CALLS_SHOWN = 50


def put_departures(name: str, results: Sequence[Compared]) -> None:
    """Each conversation with what departs in it, and what follows."""
    put(f"against {name}")
    for result in results:
        put(f"{result.log}: {result}")
        if isinstance(result, Departed):
            for change in result.changes:
                _put_change(change)
            _put_followed(result)
        if result.uncompared:
            say(_uncompared(result))


def departure_object(result: Compared) -> dict[str, Any]:
    found = msgspec.to_builtins(result)
    return {"conversation": found.pop("log"), "unchanged": isinstance(result, Unchanged), **found}


def _put_change(change: Change) -> None:
    if change.lines:
        put(f"  {change.path}:")
        for line in change.lines:
            put(f"    {line}")
        return
    put(f"  {change.path}:")
    for name, value in (("recorded", change.recorded), ("other", change.other)):
        put(f"    {name}: {'nothing' if value is None else body_text(value)}")


def _put_followed(result: Departed) -> None:
    """The calls that come of it, those of children indented below the call that began them."""
    if not result.followed and not result.requests:
        put("  nothing follows from it")
    else:
        calls = counted(len(result.followed), "call")
        below = f", {counted(result.conversations, 'child conversation')}" if result.conversations else ""
        more = " and more" if result.cut else ""
        put(f"  what follows: {counted(result.requests, 'later request')}, {calls}{more}{below}")
    for one in result.followed[:CALLS_SHOWN]:
        put(_call_line(one))
    if len(result.followed) > CALLS_SHOWN:
        put(f"    ... and {counted(len(result.followed) - CALLS_SHOWN, 'call')} more; --json has all")
    if result.answered is not None:
        put(f"  its result went to {result.answered}")


def _call_line(one: Followed) -> str:
    child = f" -> {one.child}" if one.child is not None else ""
    return f"    {'  ' * one.depth}{one.call} {one.tool} {one.status}{child}"


def _uncompared(result: Compared) -> str:
    units = counted(result.uncompared, "unit")
    if result.other_rules:
        rules = ", ".join(rules[:12] for rules in result.other_rules)
        return f"{units} of {result.log} were decided by other rules ({rules}): only their requests are compared"
    return f"{units} of {result.log} rest on what is not as it was decided: only their requests are compared"
