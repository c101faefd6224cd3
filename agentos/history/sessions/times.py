"""When the turns of a session were: providers tell the second of each answer, and nobody tells more."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.history.sessions.model import ModelTurn, Turn
from agentos.ids import Micros


def times_of(turns: Sequence[Turn], now: Micros) -> list[Micros]:
    """A time for each turn, in microseconds, UTC: that of an answer is its own; what comes before has that of the answer
    to it, what comes after the last one has its time. They never go back, and none is later than now, which stands where
    no answer has a time."""
    known = [turn.created_at if isinstance(turn, ModelTurn) else None for turn in turns]
    last = next((at for at in reversed(known) if at is not None), now)
    behind: list[Micros] = []
    for at in reversed(known):
        last = at if at is not None else last
        behind.append(last)
    times: list[Micros] = []
    for at in reversed(behind):
        times.append(Micros(min(now, max(at, times[-1] if times else at))))
    return times
