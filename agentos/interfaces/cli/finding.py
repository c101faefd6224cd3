"""From what a person types to an id: a whole one, or the beginning or end of one that no other has."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from agentos.errors import UnknownConversation
from agentos.ids import Kind, LogId, is_id, log_and_seq
from agentos.interfaces.cli.errors import UsageError
from agentos.kernel.reading import Reading

SHORT = 8
"""Letters at the end of an id that tables show; enough to tell a million conversations apart."""
AMBIGUOUS_MAX = 8

_NEAR = "select id from conversations order by n desc limit 20000"
_WHOLE = "select conversations.id from logs join conversations on conversations.n = logs.n where logs.id = ?"
_LOG = "select id from logs where id = ?"
_PARTS = (
    "select id from conversations where id like ? escape '!' or id like ? escape '!' or id like ? escape '!'"
    " order by n limit 9"
)
_ESCAPED = str.maketrans({letter: f"!{letter}" for letter in "!%_"})
WORD_MAX = 80


class Place(NamedTuple):
    """A conversation, and the seq of one of its turns or calls, 0 for all of it."""

    conversation: LogId
    seq: int


def short(id_: str | None) -> str | None:
    """The end of an id, as tables show it."""
    return id_ if id_ is None else id_[-SHORT:]


async def find_conversation(reading: Reading, text: str) -> LogId:
    """The conversation that this names. Raises UsageError for many, UnknownConversation for none, with near ids."""
    word = text.strip()
    if not word:
        raise UsageError("the id is empty; 'agentos ps' lists conversations")
    for (id_,) in (await reading.query(_WHOLE, (word,))).rows:
        return LogId(id_)
    rows = (await reading.query(_PARTS, _patterns(word))).rows if len(word) <= WORD_MAX else []
    found = [str(row[0]) for row in rows]
    if len(found) == 1:
        return LogId(found[0])
    if found:
        shown = ", ".join(found[:AMBIGUOUS_MAX]) + (", ..." if len(found) > AMBIGUOUS_MAX else "")
        raise UsageError(f"{word!r} is a part of {len(found)} ids or more: {shown}")
    raise await _unknown(reading, word)


async def find_log(reading: Reading, text: str) -> LogId:
    """Any log by its whole id, of an agent or a toolbox too; else as `find_conversation`."""
    for (id_,) in (await reading.query(_LOG, (text.strip(),))).rows:
        return LogId(id_)
    return (await find_place(reading, text)).conversation


async def find_place(reading: Reading, text: str) -> Place:
    """A conversation, or one of its turns or calls by their id."""
    if is_id(text, Kind.TURN) or is_id(text, Kind.CALL):
        log, seq = log_and_seq(text)
        return Place(await find_conversation(reading, log), seq)
    return Place(await find_conversation(reading, text), 0)


def _patterns(word: str) -> tuple[str, ...]:
    """What an id looks like that begins with the word, with or without the name of its kind, or ends with it."""
    part = word.translate(_ESCAPED)
    return f"{part}%", f"conversation!_{part}%", f"%{part}"


async def _unknown(reading: Reading, word: str) -> UnknownConversation:
    known = {str(row[0])[-len(word) :]: str(row[0]) for row in (await reading.query(_NEAR)).rows}
    near = difflib.get_close_matches(word, known, 3, 0.7)
    error = UnknownConversation(word[:WORD_MAX])
    if near:
        error.args = (f"{error}. Did you mean {' or '.join(known[end] for end in near)}?",)
    return error
