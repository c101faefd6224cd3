"""Entries as lines for people and as objects for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from agentos.events.entry import ERASED, Entry, RawComponent, RawData
from agentos.events.model import ModelDelta
from agentos.history.lineage.tree import printable
from agentos.ids import call_id, turn_id
from agentos.kernel.watch import StreamGap, Watched

_INDENT = " " * 6


def as_lines(entry: Entry, ran_with: str = "") -> Iterator[str]:
    """One line that says what happened, then the private values below it.

    ran_with, of the beginning of a turn, is the version of its agent.
    """
    turn = f"turn {entry.turn}" if entry.turn else ""
    call = f"call {entry.call}" if entry.call else ""
    facts = [f"{name}={_fact(value)}" for name, value in _data(entry).items()]
    by = [f"by={entry.by}"] if entry.by else []
    if ran_with:
        facts.append(f"with {printable(ran_with)}")
    head = [f"{entry.seq:>5}", clock_of(entry.at), f"{_kind(entry):<20}", f"{turn:<8}", f"{call:<9}", *facts, *by]
    yield "  ".join(head).rstrip()
    for name, value in entry.private:
        first, *more = body_text(value).splitlines() or [""]
        yield f"{_INDENT} {name}: {first}"
        for line in more:
            yield f"{_INDENT} {' ' * len(name)}  {line}"


def as_object(entry: Entry) -> dict[str, Any]:
    """Everything of an entry, with whole ids."""
    return {
        "conversation": entry.log,
        "seq": entry.seq,
        "unit": entry.unit,
        "kind": _kind(entry),
        "at": iso_of(entry.at),
        "at_us": entry.at,
        "turn": turn_id(entry.log, entry.turn) if entry.turn else None,
        "call": call_id(entry.log, entry.call) if entry.call else None,
        "by": entry.by or None,
        "cause": entry.cause,
        "writer": entry.writer,
        "data": _data(entry),
        "changes": [{"entity": entity, **_component(value)} for entity, value in entry.changes],
        "payloads": [{"name": name, "value": None if value is ERASED else value} for name, value in entry.private],
    }


def watched_as_object(item: Watched) -> dict[str, Any]:
    """One line of a stream: an entry, a delta, or a gap, told apart by `type`."""
    if isinstance(item, Entry):
        return {"type": "entry", **as_object(item)}
    if isinstance(item, ModelDelta):
        return {"type": "delta", **msgspec.to_builtins(item)}
    assert isinstance(item, StreamGap)
    return {"type": "gap", **msgspec.to_builtins(item)}


def body_text(value: Any) -> str:
    """A private value on one line of JSON, or the text that it is."""
    if value is ERASED:
        return "(erased)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def clock_of(at_us: int) -> str:
    """The time of day in UTC, to the millisecond."""
    return _time(at_us).strftime("%H:%M:%S.%f")[:-3]


def iso_of(at_us: int) -> str:
    return _time(at_us).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(microsecond=at_us % 1_000_000)


def _kind(entry: Entry) -> str:
    return entry.data.name if isinstance(entry.data, RawData) else entry.data.kind


def _data(entry: Entry) -> dict[str, Any]:
    if isinstance(entry.data, RawData):
        return _as_dict(msgspec.json.decode(entry.data.value))
    return _as_dict(msgspec.to_builtins(entry.data))


def _component(value: Any) -> dict[str, Any]:
    if isinstance(value, RawComponent):
        return {"component": value.name, "value": msgspec.json.decode(value.value)}
    return {"component": value.component, "value": msgspec.to_builtins(value)}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


def _fact(value: object) -> str:
    """Digests shortened, other values as JSON without quotes around words."""
    if isinstance(value, str):
        return value[:12] + "…" if len(value) == 64 else value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
