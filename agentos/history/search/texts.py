"""From the entries of a log to the texts that are searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentos import codec
from agentos.events.entry import Head, decode_head
from agentos.events.kinds import JSON_PAYLOADS
from agentos.persistence.base import StoredEntry
from agentos.persistence.search_rows import IndexedText

TEXT_CHARS_MAX = 1_000_000
"""How much of one text is searched, from its beginning."""
ROLES = {
    "input.received": "user",
    "model.finished": "assistant",
    "call.nested": "tool",
    "hook.decided": "tool",
    "call.progress": "tool",
    "call.finished": "tool",
}
"""Who wrote the texts of an entry: a tool also those arguments that its inner calls, or hooks, put in place of others."""
KINDS = frozenset({*ROLES, "call.proposed"})
"""The entries that are read: those with texts, and those that name the tool of a call."""
PARTS = frozenset({"text", "thinking", "arguments", "data", "result", "whole"})
"""Payloads that are searched. `whole` takes the place of the result that was cut from it."""

ToolOf = Callable[[int], str | None]


def texts_of(stored: StoredEntry, tool_of: ToolOf = lambda _: None) -> list[IndexedText]:
    """The texts of an entry; erased ones are left out. Raises CodecError for what is none."""
    if stored.kind not in ROLES:
        return []
    head = decode_head(stored.head)
    tools = iter(_tools_asked(head))
    given = {name for _, name, _, body in stored.payloads if body is not None}
    texts: list[IndexedText] = []
    for i, name, _, body in sorted(stored.payloads, key=lambda payload: payload[0]):
        tool = next(tools, None) if name == "arguments" and stored.kind == "model.finished" else tool_of(head.call)
        if body is not None and name in PARTS and not (name == "result" and "whole" in given):
            texts.append(_text(stored, head, i, name, tool, body))
    return texts


def introduced(stored: StoredEntry) -> tuple[int, str] | None:
    """The call that an entry introduces, and its tool."""
    if stored.kind not in ("call.proposed", "call.nested"):
        return None
    head = decode_head(stored.head)
    for entity, name, value in head.changes:
        if name == "call_config" and entity == stored.seq and isinstance(value, dict):
            return entity, str(value["tool"])
    return None


def _text(stored: StoredEntry, head: Head, i: int, name: str, tool: str | None, body: str) -> IndexedText:
    return IndexedText(
        seq=stored.seq,
        i=i,
        role=ROLES[stored.kind],
        part={"whole": "result", "data": "progress"}.get(name, name),
        tool=tool if name != "text" else None,
        turn=head.turn,
        call=head.call or (stored.seq if stored.kind == "call.nested" else 0),
        at=head.at,
        text=_plain(name, body)[:TEXT_CHARS_MAX],
    )


def _tools_asked(head: Head) -> Sequence[str]:
    calls = head.data.get("calls", ()) if isinstance(head.data, dict) else ()
    return [str(call["tool"]) for call in calls]


def _plain(name: str, body: str) -> str:
    """Text as it was written; JSON as its keys and values, so that nothing of its escapes is a word."""
    if name not in JSON_PAYLOADS:
        return codec.decode_text(body)
    return "\n".join(_lines(codec.decode_json(body)))


def _lines(value: Any) -> Iterator[str]:
    """A line `key: value` for each value inside, in order; a list's values stand by themselves."""
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        key, one = left.pop()
        if isinstance(one, dict):
            left += [(f"{name}: ", inner) for name, inner in reversed(one.items())]
        elif isinstance(one, list):
            left += [(key, inner) for inner in reversed(one)]
        else:
            yield f"{key}{one}"
