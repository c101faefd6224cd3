"""A session: what an agent and a person said, turn by turn, oldest first, in no system's own form."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.ids import Micros


class Media(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something beside text: a picture, a sound. Its bytes are not kept, only how many they are."""

    mime: str
    name: str = ""
    bytes: int = 0


class Tool(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool that the model was offered. name is what it is called by; own_name the one that its files gave it.

    schema is the JSON Schema of its arguments, None when none was kept.
    """

    name: str
    own_name: str = ""
    description: str = ""
    schema: dict[str, Any] | None = None


class Call(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A call that the model asked for. arguments is the decoded object, or the text when it was no JSON object."""

    name: str
    arguments: Any = {}
    id: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a call brought, as the model read it. value is set for one that is no plain text, with media left out."""

    call: Call
    text: str
    value: Any = None
    media: tuple[Media, ...] = ()


class UserTurn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="user"):
    """What the model was told: the system prompt, the tools, a question (None: there was none), results of its calls.

    partial: other calls were still under way; pending are those of them that the session names.
    """

    prompt: str = ""
    tools: tuple[Tool, ...] = ()
    query: str | None = None
    media: tuple[Media, ...] = ()
    results: tuple[Result, ...] = ()
    partial: bool = False
    pending: tuple[Call, ...] = ()


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """As the provider counted them; input includes cached ones, output those of thinking."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thinking: int = 0


class ModelTurn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="model"):
    """What the model answered. text and thinking are None where the session has none.

    model, response and finish are the provider's words: which model, the id of the answer, why it ended. created_at is
    its time of the answer in microseconds, UTC, None when it told none.
    """

    text: str | None = None
    thinking: str | None = None
    calls: tuple[Call, ...] = ()
    tokens: Tokens = Tokens()
    model: str = ""
    response: str = ""
    finish: str = ""
    created_at: Micros | None = None


Turn = UserTurn | ModelTurn


class Session(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A whole session. version is that of its form, None in the oldest files and for what comes from a store."""

    id: str
    turns: tuple[Turn, ...] = ()
    forked_from: str | None = None
    version: int | None = None


def user_turns(session: Session) -> list[UserTurn]:
    return [turn for turn in session.turns if isinstance(turn, UserTurn)]


def model_turns(session: Session) -> list[ModelTurn]:
    return [turn for turn in session.turns if isinstance(turn, ModelTurn)]
