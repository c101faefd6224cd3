"""Edits of a session file: turns taken or dropped, calls and thinking left out. All else stays as it stands.

Edits work on the document, not on what we read of it, so that keys which are not known stay too. They count turns as the
file has them: newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, NamedTuple

THINKING_KEYS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"})
"""Where the raw answers of providers have thinking."""
CALL_KEYS = frozenset({"tool_calls", "function_call"})
"""Where they have calls."""
THINKING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
CALL_PARTS = frozenset({"tool_use", "function_call", "tool_result"})
"""The types of parts of an answer that are thinking, or calls."""
_CALLS_OF_TURNS = (
    "llmToolCalls",
    "userToolResponses",
    "trackedToolCalls",
    "completedResponses",
    "pendingCalls",
    "pendingContinuations",
)

Document = dict[str, Any]


class EditKind(Enum):
    """What an edit does; the first four have a number of turns."""

    TAKE = "take"
    TAKE_TAIL = "take-tail"
    DROP = "drop"
    DROP_TAIL = "drop-tail"
    CENSOR_TOOL_CALLS = "censor-tool-calls"
    CENSOR_THINKING = "censor-thinking"


COUNTED = frozenset({EditKind.TAKE, EditKind.TAKE_TAIL, EditKind.DROP, EditKind.DROP_TAIL})


class Edit(NamedTuple):
    """One edit. A number of turns below 1 takes nothing, and drops nothing."""

    kind: EditKind
    turns: int = 1


def edited(document: Document, edits: Sequence[Edit]) -> Document:
    """The document after the edits, one after the other; the one given is not changed. It has to be a session."""
    for edit in edits:
        document = {**document, "turns": _EDITS[edit.kind](document["turns"], max(edit.turns, 0))}
    return document


def _take(turns: list[Any], count: int) -> list[Any]:
    return turns[:count]


def _take_tail(turns: list[Any], count: int) -> list[Any]:
    return turns[max(0, len(turns) - count) :] if count else []


def _drop(turns: list[Any], count: int) -> list[Any]:
    return turns[count:]


def _drop_tail(turns: list[Any], count: int) -> list[Any]:
    return turns[: max(0, len(turns) - count)]


def _censor_calls(turns: list[Any], _count: int) -> list[Any]:
    return [_without_calls(turn) for turn in turns]


def _censor_thinking(turns: list[Any], _count: int) -> list[Any]:
    return [_without_thinking(turn) for turn in turns]


_EDITS: dict[EditKind, Callable[[list[Any], int], list[Any]]] = {
    EditKind.TAKE: _take,
    EditKind.TAKE_TAIL: _take_tail,
    EditKind.DROP: _drop,
    EditKind.DROP_TAIL: _drop_tail,
    EditKind.CENSOR_TOOL_CALLS: _censor_calls,
    EditKind.CENSOR_THINKING: _censor_thinking,
}


def _without_calls(turn: Document) -> Document:
    contents = {key: [] if key in _CALLS_OF_TURNS else value for key, value in turn["contents"].items()}
    return {**turn, "contents": _with_raw(contents, CALL_KEYS, CALL_PARTS)}


def _without_thinking(turn: Document) -> Document:
    contents = _with_raw(turn["contents"], THINKING_KEYS, THINKING_PARTS)
    response = contents.get("llmResponse")
    if isinstance(response, dict):
        contents = {**contents, "llmResponse": {**response, "responseThinking": None}}
    return {**turn, "contents": contents}


def _with_raw(contents: Document, keys: Collection[str], parts: Collection[str]) -> Document:
    """The raw answer of the provider says it all a second time."""
    response = contents.get("llmResponse")
    if not isinstance(response, dict):
        return contents
    return {**contents, "llmResponse": {**response, "rawResponse": _without(response.get("rawResponse"), keys, parts)}}


def _without(value: Any, keys: Collection[str], parts: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_without(one, keys, parts) for one in value if not (isinstance(one, dict) and one.get("type") in parts)]
    if not isinstance(value, dict):
        return value
    return {key: _without(one, keys, parts) for key, one in value.items() if key not in keys}
