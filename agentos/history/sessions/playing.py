"""A session played as intake: what was asked, answered, called and brought, in its order, through the systems.

A question begins a turn, and an answer without calls ends it. Where the session leaves out what our rules need, what is
known is said: a call without a result ends as unknown, a turn that was left open is cancelled, and an answer to nothing
gets an input that says so. So every call has its one result, and no turn is open at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.components import CallStatus, ConversationState, TurnState
from agentos.events.intake import CallReport, Cancel, Input, ModelReport, Start
from agentos.events.model import Finish, ModelReply, ToolCall, Usage
from agentos.history.sessions.contexts import Contexts, as_object
from agentos.history.sessions.deciding import Deciding
from agentos.history.sessions.model import Call, ModelTurn, Result, Session, Turn, UserTurn
from agentos.history.sessions.parts import said
from agentos.history.sessions.times import times_of
from agentos.ids import CONVERSATION, ConversationId, Micros, Name, agent_id, name_of

IMPORT = Name("import")
"""Who gave the inputs and ended the turns of an imported conversation."""
LEFT_OPEN = Name("imported")
"""Why a turn was cancelled that the session left open."""
NO_RESULT = "the session has no result of this call"
NO_QUESTION = "(the session has no question here)"
LATE = "Results that came late:"


class Playing:
    """Plays one session into one log."""

    def __init__(self, session: Session, deciding: Deciding, contexts: Contexts, now: Micros) -> None:
        self._session, self._deciding, self._contexts = session, deciding, contexts
        self._times = times_of(session.turns, now)
        self._at = now
        self._open: list[tuple[int, Call]] = []
        self._late: list[Result] = []
        self.notes: list[str] = []

    def play(self, conversation: ConversationId, slug: str, children_budget: int) -> None:
        """From conversation.started to the end of the last turn."""
        turns = self._session.turns
        self._at = self._times[0] if turns else self._at
        self._feed(_start(conversation, Name(slug), self._session.id, children_budget))
        for place, turn in enumerate(turns):
            self._at = self._times[place]
            if isinstance(turn, UserTurn):
                self._told(turn, place)
            else:
                self._answered(turn, place)
        self._end_turn()
        if self._late:
            calls = ", ".join(result.call.name for result in self._late)
            self.notes.append(f"left out, since no call before them waits for them: results of {calls}")

    def _told(self, turn: UserTurn, place: int) -> None:
        """Results first. A question ends the turn that is open, since a turn answers what it began with."""
        asks = turn.query is not None or bool(turn.media)
        if asks and self._turn and self._state.requested:
            self._end_turn()
        if asks and self._turn:
            self._feed(_cancel())
        self._take(turn.results)
        if asks:
            self._end_turn()
            self._ask(_question(turn), place)

    def _answered(self, turn: ModelTurn, place: int) -> None:
        self._finish_open()
        if not self._turn:
            self._ask(None, place)
        state = self._state
        self._feed(ModelReport(turn=self._turn, base_seq=state.requested, reply=_reply(turn)))
        if turn.calls:
            self._open = list(zip(self._state.calls, turn.calls, strict=True))

    def _ask(self, text: str | None, place: int) -> None:
        """Begins a turn; results that no open call waits for are told in its question."""
        late, self._late = self._late, []
        told = [LATE, *(f"{result.call.name}: {result.text}" for result in late)] if late else []
        parts = [part for part in (text, "\n".join(told)) if part] or [text if text is not None else NO_QUESTION]
        self._deciding.pin(self._contexts.of(_of_one_turn(self._session.turns, place)))
        self._feed(Input(text="\n\n".join(parts), by=IMPORT))

    def _take(self, results: Sequence[Result]) -> None:
        for result in results:
            place = _place_of(result.call, [call for _, call in self._open])
            if place is None:
                self._late.append(result)
            else:
                self._end_call(self._open.pop(place)[0], CallStatus.DONE, result.text)

    def _finish_open(self) -> None:
        for seq, _ in self._open:
            self._end_call(seq, CallStatus.UNKNOWN, NO_RESULT)
        self._open = []

    def _end_call(self, seq: int, status: CallStatus, text: str) -> None:
        self._feed(CallReport(call=seq, attempt=1, status=status, text=text))

    def _end_turn(self) -> None:
        """What is open ends as cancelled, with a result for each call and an end of the request."""
        if not self._turn:
            return
        if self._state.outcome is None:
            self._feed(_cancel())
        self._finish_open()
        if self._turn:
            state = self._state
            self._feed(
                ModelReport(turn=self._turn, base_seq=state.requested, reply=ModelReply(finish=Finish.CANCELLED))
            )

    def _feed(self, item: Any) -> None:
        self._deciding.feed(self._at, item)

    @property
    def _turn(self) -> int:
        """The open turn, 0 when there is none."""
        state = self._deciding.rows(CONVERSATION).get(ConversationState)
        return state.open_turn if isinstance(state, ConversationState) else 0

    @property
    def _state(self) -> TurnState:
        state = self._deciding.rows(self._turn)[TurnState]
        assert isinstance(state, TurnState)
        return state


def _start(conversation: ConversationId, slug: Name, session: str, children_budget: int) -> Start:
    key = name_of(f"agents-exe:{session}")
    return Start(
        agent=agent_id(slug), slug=slug, root=conversation, key=key, by=IMPORT, children_budget=children_budget
    )


def _cancel() -> Cancel:
    return Cancel(by=IMPORT, reason=LEFT_OPEN)


def _question(turn: UserTurn) -> str:
    """The text, with a line for each attachment."""
    return "\n".join([*([turn.query] if turn.query is not None else []), *map(said, turn.media)])


def _reply(turn: ModelTurn) -> ModelReply:
    tokens = turn.tokens
    return ModelReply(
        text=turn.text or "",
        thinking=turn.thinking or "",
        calls=tuple(ToolCall(call.name, as_object(call.arguments), call.id) for call in turn.calls),
        finish=Finish.TOOL_USE if turn.calls else _FINISH.get(turn.finish, Finish.STOP),
        usage=Usage(tokens.input, tokens.output, tokens.cached, 0, tokens.thinking),
        model=turn.model,
        response=turn.response,
    )


_FINISH = {
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
    "refusal": Finish.REFUSAL,
}
"""Words of providers for the end of an answer without calls; all others are plain ends."""


def _of_one_turn(turns: Sequence[Turn], place: int) -> list[Turn]:
    """The turn at that place and those that belong to it: up to an answer without calls, or to the next question."""
    found: list[Turn] = []
    for n in range(place, len(turns)):
        turn = turns[n]
        if found and isinstance(turn, UserTurn) and (turn.query is not None or turn.media):
            break
        found.append(turn)
        if isinstance(turn, ModelTurn) and not turn.calls:
            break
    return found


def _place_of(call: Call, open_: Sequence[Call]) -> int | None:
    """Where the call stands among the open ones: by its id, else, where ids say nothing, by what it asks for."""
    for place, other in enumerate(open_):
        if call.id and call.id == other.id:
            return place
    for place, other in enumerate(open_):
        if not (call.id and other.id) and (call.name, call.arguments) == (other.name, other.arguments):
            return place
    return None
