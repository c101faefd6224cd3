"""From a session file of agents-exe to a Session: all forms that it wrote, from the first to that of partial turns.

A file has its turns newest first; a Session has them oldest first. Keys that are not known are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentos.history.sessions.fields import Node, count, inside, word
from agentos.history.sessions.model import Call, ModelTurn, Result, Session, Tokens, Turn, UserTurn
from agentos.history.sessions.parts import call_of, pair_of, query_of, result_of, tool_of
from agentos.history.sessions.source import TURNS_MAX, parse, read_text
from agentos.ids import Micros

VERSIONS = (1, 2)
"""Forms with a number; the oldest files have none."""
SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999: a provider's time beyond it is none."""


def read_session(path: Path) -> Session:
    """Reads a file whole. Raises OSError; SessionRefused with the place, and then nothing of it is used."""
    return session_of(parse(read_text(path), str(path)), str(path))


def session_of(document: Any, place: str) -> Session:
    """A session from its decoded JSON; place names where it comes from. Raises SessionRefused."""
    node = Node(document, place)
    if not node.has("turns"):
        node.refuse("it has no turns; a session of agents-exe is an object with sessionId and turns")
    version = node.get("sessionVersion")
    if version.value is not None and version.value not in VERSIONS:
        version.refuse(f"the form {str(version.value)[:40]} of sessions is not known; known are none, 1 and 2")
    turns = [_turn(turn) for turn in node.get("turns").items()]
    if len(turns) > TURNS_MAX:
        node.get("turns").refuse(f"more than {TURNS_MAX:,} turns (TURNS_MAX)")
    return Session(
        id=node.get("sessionId").text(),
        turns=tuple(turns[::-1]),
        forked_from=node.get("forkedFromSessionId").text_or_none(),
        version=version.value,
    )


def _turn(node: Node) -> Turn:
    tag = node.get("tag")
    read = _TURNS.get(tag.text())
    if read is None:
        tag.refuse(f"a turn is one of {', '.join(_TURNS)}, not {tag.text()[:40]!r}")
    return read(node.get("contents"), node)


def _user(contents: Node, _turn: Node) -> UserTurn:
    query, media = query_of(contents.get("userQuery"))
    return UserTurn(
        prompt=contents.get("userPrompt").text_or_none() or "",
        tools=tuple(tool_of(tool) for tool in contents.get("userTools").items()),
        query=query,
        media=media,
        results=tuple(pair_of(pair) for pair in contents.get("userToolResponses").items()),
    )


def _partial(contents: Node, _turn: Node) -> UserTurn:
    """Tracked calls, or in older files the completed responses and the calls that were pending."""
    query, media = query_of(contents.get("userQuery"))
    if contents.has("trackedToolCalls"):
        results, pending = _tracked(contents.get("trackedToolCalls"))
    else:
        results = [pair_of(pair) for pair in contents.get("completedResponses").items()]
        pending = [call_of(call.value) for call in contents.get("pendingCalls").items()]
    return UserTurn(
        prompt=contents.get("userPrompt").text_or_none() or "",
        tools=tuple(tool_of(tool) for tool in contents.get("userTools").items()),
        query=query,
        media=media,
        results=tuple(results),
        partial=True,
        pending=tuple(pending),
    )


def _tracked(node: Node) -> tuple[list[Result], list[Call]]:
    """A call whose result was delivered late was still running when the model read this turn."""
    results: list[Result] = []
    pending: list[Call] = []
    for tracked in node.items():
        call = call_of(tracked.get("call").value)
        if tracked.has("result") and not tracked.object().get("deliveredLate"):
            results.append(result_of(call, tracked.get("result")))
        else:
            pending.append(call)
    return results, pending


def _model(contents: Node, turn: Node) -> ModelTurn:
    response = contents.get("llmResponse")
    raw = response.get("rawResponse").value
    return ModelTurn(
        text=response.get("responseText").text_or_none(),
        thinking=response.get("responseThinking").text_or_none(),
        calls=tuple(call_of(call.value) for call in contents.get("llmToolCalls").items()),
        tokens=_tokens(
            response.object().get("responseTokenUsage")
            or inside(turn.object(), "byteUsage", "stepTokenUsage")
            or inside(raw, "usage")
        ),
        model=word(inside(raw, "model")),
        response=word(inside(raw, "id")),
        finish=word(inside(raw, "choices", 0, "finish_reason")) or word(inside(raw, "stop_reason")),
        created_at=_time(inside(raw, "created")),
    )


_TURNS: dict[str, Callable[[Node, Node], Turn]] = {"UserTurn": _user, "LlmTurn": _model, "PartialUserTurn": _partial}


def _tokens(usage: Any) -> Tokens:
    """In the words of several providers."""
    return Tokens(
        input=count(inside(usage, "prompt_tokens")) or count(inside(usage, "input_tokens")),
        output=count(inside(usage, "completion_tokens")) or count(inside(usage, "output_tokens")),
        cached=count(inside(usage, "cached_tokens")) or count(inside(usage, "prompt_tokens_details", "cached_tokens")),
        thinking=count(inside(usage, "thinking_tokens"))
        or count(inside(usage, "completion_tokens_details", "reasoning_tokens")),
    )


def _time(seconds: Any) -> Micros | None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= SECONDS_MAX:
        return None
    return Micros(round(seconds * 1_000_000))
