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

_ALL = "select id from conversations where ? = '' or 1 order by started_at desc, id limit 20000"
_PARTS = """
select id from conversations
where id = ?1 or substr(id, 1, length(?1)) = ?1 or substr(id, 14, length(?1)) = ?1 or substr(id, -length(?1)) = ?1
order by id = ?1 desc, started_at, id limit 9
"""


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
    found = [str(row[0]) for row in (await reading.query(_PARTS, (word,))).rows]
    if found and (len(found) == 1 or found[0] == word):
        return LogId(found[0])
    if found:
        shown = ", ".join(found[:AMBIGUOUS_MAX]) + (", ..." if len(found) > AMBIGUOUS_MAX else "")
        raise UsageError(f"{word!r} is a part of {len(found)} ids or more: {shown}")
    raise await _unknown(reading, word)


async def find_place(reading: Reading, text: str) -> Place:
    """A conversation, or one of its turns or calls by their id."""
    if is_id(text, Kind.TURN) or is_id(text, Kind.CALL):
        log, seq = log_and_seq(text)
        return Place(await find_conversation(reading, log), seq)
    return Place(await find_conversation(reading, text), 0)


async def _unknown(reading: Reading, word: str) -> UnknownConversation:
    known = {str(row[0])[-len(word) :]: str(row[0]) for row in (await reading.query(_ALL, ("",))).rows}
    near = difflib.get_close_matches(word, known, 3, 0.7)
    error = UnknownConversation(word[:80])
    if near:
        error.args = (f"{error}. Did you mean {' or '.join(known[end] for end in near)}?",)
    return error
