"""A conversation of a store as a session, so that what reads sessions reads ours too."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import AgentContext, CallStatus, TurnConfig
from agentos.events.entry import ERASED, Entry, Registry
from agentos.events.kinds import (
    CallFinished,
    CallProposed,
    InputReceived,
    ModelFinished,
    TurnStarted,
)
from agentos.history.reading import Contexts, conversation_row, decoded, stored_units
from agentos.history.sessions.contexts import UNPARSED
from agentos.history.sessions.model import Call, ModelTurn, Result, Session, Tokens, Tool, Turn, UserTurn
from agentos.ids import call_id
from agentos.persistence.base import Store
from agentos.world.transcript import ANSWERS, ERASED_TEXT


async def session_of_conversation(store: Store, conversation: str, *, registry: Registry | None = None) -> Session:
    """Questions with the prompt and tools of their turn, answers, and results in the order of their calls; in a fork with
    what it shares. A model request that brought no answer is left out, and so are calls within calls.

    Errors: UnknownConversation; StoreDamaged, CodecError when the log cannot be read; StoreUnavailable.
    """
    row = await conversation_row(store, conversation)
    registry, contexts, retelling = registry or Registry(), Contexts(store), _Retelling()
    async for stored in stored_units(store, row.id):
        for entry in decoded(row.id, stored, registry):
            for config in (value for _, value in entry.changes if isinstance(value, TurnConfig)):
                retelling.context = await contexts.learn(config.context)
            retelling.take(entry)
    return Session(id=row.id, turns=tuple(retelling.told()), forked_from=row.forked_from)


class _Retelling:
    """Takes the entries of one conversation in order. results are those that no later answer has read yet."""

    def __init__(self) -> None:
        self.context: AgentContext | None = None
        self._turns: list[Turn] = []
        self._inputs: dict[int, str] = {}
        self._asked: dict[int, Call] = {}
        self._replied: list[Call] = []
        self._results: dict[int, Result] = {}

    def take(self, entry: Entry) -> None:
        data = entry.data
        if isinstance(data, InputReceived):
            self._inputs[entry.seq] = _text(entry.private[0][1])
        elif isinstance(data, TurnStarted):
            self._ask(entry)
        elif isinstance(data, ModelFinished) and data.finish in ANSWERS:
            self._answer(entry, data)
        elif isinstance(data, CallProposed):
            self._propose(entry)
        elif isinstance(data, CallFinished) and data.parent is None and data.status is not CallStatus.LOST:
            self._finish(entry)

    def told(self) -> list[Turn]:
        self._flush()
        return self._turns

    def _ask(self, entry: Entry) -> None:
        self._flush()
        config = next(value for _, value in entry.changes if isinstance(value, TurnConfig))
        inputs = [self._inputs.pop(seq) for seq in config.inputs if seq in self._inputs]
        self._turns.append(self._told_turn(query="\n\n".join(inputs)))

    def _answer(self, entry: Entry, data: ModelFinished) -> None:
        self._flush()
        private = dict(entry.private)
        arguments = [value for name, value in entry.private if name == "arguments"]
        calls = [
            Call(name=asked.tool, arguments=_arguments(value), id=asked.id or "")
            for asked, value in zip(data.calls, arguments, strict=True)
        ]
        usage = data.usage
        self._replied = list(calls)
        self._turns.append(
            ModelTurn(
                text=_text(private["text"]),
                thinking=_text(private["thinking"]) if "thinking" in private else None,
                calls=tuple(calls),
                tokens=Tokens(
                    input=usage.input_tokens,
                    output=usage.output_tokens,
                    cached=usage.cached_tokens,
                    thinking=usage.thinking_tokens,
                ),
                model=data.model or "",
                response=data.response or "",
                finish=data.finish.value,
                created_at=entry.at,
            )
        )

    def _propose(self, entry: Entry) -> None:
        """The calls of a reply are proposed in one go and in their order."""
        if not self._replied:
            return
        call = self._replied.pop(0)
        self._asked[entry.call] = call if call.id else msgspec.structs.replace(call, id=call_id(entry.log, entry.call))

    def _finish(self, entry: Entry) -> None:
        call = self._asked.pop(entry.call, None)
        if call is not None:
            self._results[entry.call] = Result(call=call, text=_text(entry.private[0][1]))

    def _flush(self) -> None:
        """The results that came since the last answer, as what the next request told."""
        results = [self._results[seq] for seq in sorted(self._results)]
        self._results = {}
        if results:
            self._turns.append(self._told_turn(results=tuple(results)))

    def _told_turn(self, query: str | None = None, results: tuple[Result, ...] = ()) -> UserTurn:
        context = self.context
        assert context is not None, "a turn pins a context"
        tools = tuple(Tool(name=tool.name, description=tool.description, schema=tool.schema) for tool in context.tools)
        return UserTurn(prompt="\n".join(context.prompt), tools=tools, query=query, results=results)


def _text(value: Any) -> str:
    return ERASED_TEXT if value is ERASED else value


def _arguments(value: Any) -> Any:
    """As they were asked for: what an import put into an object comes out of it again."""
    if value is ERASED:
        return ERASED_TEXT
    return value[UNPARSED] if isinstance(value, dict) and value.keys() == {UNPARSED} else value
