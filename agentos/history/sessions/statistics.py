"""What a session counts: turns, calls by tool, bytes, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from agentos.history.sessions.model import ModelTurn, Session, UserTurn, model_turns, user_turns


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes are those of the texts in UTF-8: input is prompts, questions and results, each as often as it stands in the
    session; calls has the number of calls by the name of the tool, the most frequent first."""

    user_turns: int
    model_turns: int
    calls: Mapping[str, int]
    input_bytes: int
    output_bytes: int
    thinking_bytes: int
    input_tokens: int
    output_tokens: int

    @property
    def turns(self) -> int:
        return self.user_turns + self.model_turns

    @property
    def bytes(self) -> int:
        return self.input_bytes + self.output_bytes + self.thinking_bytes


def statistics_of(session: Session) -> Statistics:
    told, answered = user_turns(session), model_turns(session)
    return Statistics(
        user_turns=len(told),
        model_turns=len(answered),
        calls=dict(Counter(call.name for turn in answered for call in turn.calls).most_common()),
        input_bytes=sum(input_bytes(turn) for turn in told),
        output_bytes=sum(size_bytes(turn.text) for turn in answered),
        thinking_bytes=sum(size_bytes(turn.thinking) for turn in answered),
        input_tokens=sum(turn.tokens.input for turn in answered),
        output_tokens=sum(turn.tokens.output for turn in answered),
    )


def input_bytes(turn: UserTurn) -> int:
    return sum(map(size_bytes, (turn.prompt, turn.query, *(result.text for result in turn.results))))


def turn_bytes(turn: UserTurn | ModelTurn) -> int:
    """Of all texts of one turn."""
    return input_bytes(turn) if isinstance(turn, UserTurn) else size_bytes(turn.text) + size_bytes(turn.thinking)


def size_bytes(text: str | None) -> int:
    return len((text or "").encode("utf-8", "surrogatepass"))
