"""The calls of a session by one index over the whole of it, from 0, oldest first."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.history.sessions.model import ModelTurn, Result, Session, Turn, UserTurn


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a session. step is the number of its turn, from 1; result is what it brought, None where nothing is
    recorded."""

    index: int
    step: int
    name: str
    arguments: Any
    id: str = ""
    result: str | None = None


def calls_of(session: Session) -> list[RecordedCall]:
    """All calls, in the order in which they were asked for."""
    found: list[RecordedCall] = []
    for place, turn in enumerate(session.turns):
        if not isinstance(turn, ModelTurn):
            continue
        results = _results_after(session.turns, place)
        for call in turn.calls:
            result = next((one for one in results if _answers(one, call.id, call.name, call.arguments)), None)
            if result is not None:
                results.remove(result)
            found.append(
                RecordedCall(
                    index=len(found),
                    step=place + 1,
                    name=call.name,
                    arguments=call.arguments,
                    id=call.id,
                    result=result.text if result is not None else None,
                )
            )
    return found


def _results_after(turns: tuple[Turn, ...], place: int) -> list[Result]:
    """Those told before the next answer."""
    found: list[Result] = []
    for turn in turns[place + 1 :]:
        if not isinstance(turn, UserTurn):
            break
        found += turn.results
    return found


def _answers(result: Result, id_: str, name: str, arguments: Any) -> bool:
    call = result.call
    return call.id == id_ if id_ and call.id else (call.name, call.arguments) == (name, arguments)
