"""A session as Markdown, to be read by people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from agentos.history.sessions.eliding import elided
from agentos.history.sessions.model import Call, ModelTurn, Result, Session, Tool, Turn, UserTurn
from agentos.history.sessions.parts import said
from agentos.history.sessions.statistics import Statistics, size_bytes, statistics_of, turn_bytes

BAR_PLACES = 40
STAMP = ("```", "   .-------.", "  ( o     o )", "   |  ---  |", "   '-.. ..-'", "```")
"""Stands over a report unless nobody wants it."""


class Shown(Enum):
    """How much of a text is printed: nothing, its first and last lines, or all."""

    HIDDEN = "hidden"
    ELIDED = "elided"
    SHOWN = "shown"


class PrintOptions(msgspec.Struct, frozen=True, kw_only=True):
    """last_turns is how many of the newest turns are printed, None for all. The system prompt and the tools stand where
    the first turn is printed, with repeat_... in every turn."""

    results: Shown = Shown.HIDDEN
    arguments: Shown = Shown.HIDDEN
    last_turns: int | None = None
    repeat_prompt: bool = False
    repeat_tools: bool = False
    newest_first: bool = False
    stamp: bool = True


def markdown_of(session: Session, options: PrintOptions | None = None) -> Iterator[str]:
    """The report line by line; a line may hold a text with line breaks of its own."""
    options = options or PrintOptions()
    yield from _head(session, options)
    yield "---"
    yield ""
    yield from _counts(statistics_of(session))
    steps = list(enumerate(session.turns, 1))
    if options.last_turns is not None:
        steps = steps[max(0, len(steps) - max(0, options.last_turns)) :]
    first = next((step for step, turn in steps if isinstance(turn, UserTurn)), None)
    for step, turn in reversed(steps) if options.newest_first else steps:
        yield "---"
        yield ""
        yield from _turn(step, turn, options, first=step == first)
    if options.last_turns is not None:
        yield f"_(the last {len(steps)} of {len(session.turns)} turns)_"


def _head(session: Session, options: PrintOptions) -> Iterator[str]:
    if options.stamp:
        yield from STAMP
        yield ""
    yield "# Session Report"
    yield ""
    yield f"**Session ID:** {session.id}"
    if session.forked_from is not None:
        yield f"**Forked from:** {session.forked_from}"
    yield ""


def _counts(counts: Statistics) -> Iterator[str]:
    yield "## Statistics"
    yield ""
    yield "| what | count |"
    yield "|---|---|"
    yield f"| turns | {counts.turns} |"
    yield f"| user turns | {counts.user_turns} |"
    yield f"| LLM turns | {counts.model_turns} |"
    yield f"| tool calls | {sum(counts.calls.values())} |"
    yield f"| tokens | {counts.input_tokens:,} in, {counts.output_tokens:,} out |"
    yield f"| bytes | {counts.bytes:,} |"
    yield ""
    sizes = {"input": counts.input_bytes, "output": counts.output_bytes, "thinking": counts.thinking_bytes}
    for name, bars in (("Tool calls", counts.calls), ("Bytes", sizes)):
        if any(bars.values()):
            yield f"**{name}**"
            yield ""
            yield from _bars(bars)
            yield ""


def _bars(values: Any) -> Iterator[str]:
    width, most = max(map(len, values)), max(values.values())
    for name, value in values.items():
        yield f"    {name:<{width}} {value:>9,} {'#' * (value * BAR_PLACES // most)}".rstrip()


def _turn(step: int, turn: Turn, options: PrintOptions, *, first: bool) -> Iterator[str]:
    size = f"_{_said_bytes(turn_bytes(turn))}_"
    if isinstance(turn, UserTurn):
        yield from _section(2, f"Step {step}: {'Partial ' if turn.partial else ''}User Turn", size)
        yield from _told(turn, options, first=first)
    else:
        yield from _section(2, f"Step {step}: LLM Turn", size)
        yield from _answered(turn, options)


def _told(turn: UserTurn, options: PrintOptions, *, first: bool) -> Iterator[str]:
    if turn.prompt and (first or options.repeat_prompt):
        yield from _section(3, "System Prompt", *_fenced(turn.prompt))
    if turn.query is not None or turn.media:
        yield from _section(3, "User Query", *([turn.query] if turn.query is not None else []), *map(said, turn.media))
    if turn.tools and (first or options.repeat_tools):
        yield from _section(3, "Available Tools", *(line for tool in turn.tools for line in _tool(tool)))
    if turn.results and options.results is not Shown.HIDDEN:
        yield from _section(3, "Tool Responses", *(line for one in turn.results for line in _result(one, options)))
    if turn.pending:
        yield from _section(3, "Pending Calls", *(line for call in turn.pending for line in _call(call, options)))


def _answered(turn: ModelTurn, options: PrintOptions) -> Iterator[str]:
    if turn.thinking:
        opening = ("<details>", "<summary>Click to expand reasoning</summary>", "")
        yield from _section(3, "Thinking Process", *opening, turn.thinking, "</details>")
    yield from _section(3, "Response", turn.text if turn.text is not None else "_(no text)_")
    if turn.calls:
        yield from _section(3, "Tool Calls", *(line for call in turn.calls for line in _call(call, options)))


def _section(level: int, title: str, *lines: str) -> Iterator[str]:
    yield f"{'#' * level} {title}"
    yield ""
    yield from lines
    yield ""


def _tool(tool: Tool) -> Iterator[str]:
    yield f"- **{tool.own_name or tool.name}** (`{tool.name}`)"
    if tool.description:
        yield f"  - Description: {tool.description}"


def _call(call: Call, options: PrintOptions) -> Iterator[str]:
    yield f"- **{call.name}**"
    if options.arguments is not Shown.HIDDEN:
        yield from (f"  {line}" for line in _block(_pretty(call.arguments), options.arguments))


def _result(result: Result, options: PrintOptions) -> Iterator[str]:
    yield f"**{result.call.name}** response:"
    yield from _block(result.text if result.value is None else _pretty(result.value), options.results)
    yield ""


def _block(text: str, shown: Shown) -> Iterator[str]:
    for line in _fenced(elided(text) if shown is Shown.ELIDED else text):
        yield from line.split("\n")
    yield f"_({_said_bytes(size_bytes(text))})_"


def _said_bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"


def _fenced(text: str) -> tuple[str, str, str]:
    """Within a fence that the text cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence, text.removesuffix("\n"), fence


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
