"""A conversation as it stood after an entry, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentos.history import Standing, iso_time
from agentos.history.past.standing import StandingCall, StandingTurn
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.output import counted, put, put_json, say

TIMES = ("at", "started_at", "deadline_at")


def put_standing(standing: Standing, *, json: bool) -> None:
    """On stderr, that the seq lies within a unit, when it does."""
    if json:
        put_json(_object(standing))
    else:
        for line in standing_lines(standing):
            put(line)
    if standing.unit_end != standing.seq:
        say(
            f"seq {standing.seq} lies within a unit, which is stored whole up to {standing.unit_end}; this is what it had"
            " come to, and nobody saw it so"
        )


def standing_lines(standing: Standing) -> Iterator[str]:
    """State and counters first, then the turn with its calls, what waited, and the messages of the window."""
    yield f"{standing.conversation} after seq {standing.seq}, {iso_time(standing.at)}"
    settled = [counted(standing.turns, "settled turn"), counted(standing.steps, "step")]
    settled += [counted(standing.calls_made, "call"), f"{standing.input_tokens}+{standing.output_tokens} tokens"]
    tenant = f" (tenant {standing.tenant})" if standing.tenant else ""
    yield f"{standing.agent or '-'}{tenant}: {standing.state or 'not begun'}; {', '.join(settled)}"
    if standing.turn is not None:
        yield _turn_line(standing.turn)
    for call in standing.calls:
        yield f"    {_call_line(call)}"
    for seq, text in standing.waiting:
        yield from block(f"input {seq}, which waited", text)
    yield f"{counted(len(standing.messages), 'message')} in the window:"
    yield from message_lines(standing.messages)


def message_lines(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Messages as plain data: who, the text below it, and the calls that are asked for."""
    for message in messages:
        name = f" {message['name']}" if message.get("name") else ""
        yield from block(f"{message['role']}{name}", message.get("text", ""))
        for call in message.get("calls", ()):
            yield f"    calls {call['name']} {body_text(call.get('arguments', {}))}"


def block(name: str, text: str) -> Iterator[str]:
    """A name, and the lines of a text below it."""
    yield f"{name}:"
    for line in text.splitlines():
        yield f"    {line}"


def _turn_line(turn: StandingTurn) -> str:
    if turn.outcome is not None:
        state = f"ended {turn.outcome}({turn.outcome_name})" if turn.outcome_name else f"ended {turn.outcome}"
    else:
        state = f"open, phase {turn.phase}"
    limit = f" of at most {turn.step_limit}" if turn.step_limit is not None else ""
    attempt = f", attempt {turn.attempt}" if turn.attempt > 1 else ""
    ran_with = f" with {turn.version}" if turn.version else ""
    return f"turn {turn.seq}{ran_with}: {state}, step {turn.step}{limit}{attempt}, {counted(turn.calls, 'call')}"


def _call_line(call: StandingCall) -> str:
    kind = f"({call.kind})" if call.kind else ""
    waits = f", waits for {call.waiting}" if call.waiting else ""
    attempt = f", attempt {call.attempt}" if call.attempt > 1 else ""
    child = f", in {call.child}" if call.child else ""
    below = f", asked for by call {call.parent}" if call.parent else ""
    return f"call {call.seq} {call.tool}: {call.status}{kind}{waits}{attempt}{child}{below}"


def _object(standing: Standing) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(standing)
    plain["waiting"] = [{"seq": seq, "text": text} for seq, text in standing.waiting]
    for part in (plain, *plain["calls"], *([plain["turn"]] if plain["turn"] else [])):
        part.update(_times(part))
    return plain


def _times(part: dict[str, Any]) -> dict[str, Any]:
    """Every time as text, and in microseconds under a name that says so."""
    times = {name: part[name] for name in TIMES if name in part}
    shown = {name: None if at is None else iso_time(at) for name, at in times.items()}
    return {**shown, **{f"{name}_us": at for name, at in times.items()}}
