"""Notes in a SQLite file, as Python tools: what the demo's agents write down, and read of each other.

The toolbox is exclusive: one call at a time, of all agents and conversations. `close` writes down how many calls were
ever inside at once, so that nobody has to believe it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from agentos import CallContext, tool

FILE_VARIABLE = "AGENTOS_DEMO_NOTES"

_TABLES = """
create table notes (key text primary key, topic text not null, text text not null, agent text not null);
create table facts (most_at_once integer not null);
"""
_inside = {"now": 0, "most": 0}


def open() -> None:
    """A new file, whatever was there."""
    with contextmanager(_database)() as db:
        db.executescript(_TABLES)


def close() -> None:
    with contextmanager(_database)() as db:
        db.execute("insert into facts values (?)", (_inside["most"],))


@tool(effect="idempotent")
def save_note(topic: str, text: str, context: CallContext) -> str:
    """Keep a note.

    Args:
        topic: what it is about
        text: the note itself
    """
    with _visit() as db:
        row = (context.key, topic, text, context.agent)
        db.execute("insert or ignore into notes values (?, ?, ?, ?)", row)
    return f"kept under {topic}"


@tool(effect="pure", access="read")
def count_notes(topic: str) -> int:
    """How many notes there are about a topic.

    Args:
        topic: what they are about
    """
    with _visit() as db:
        ((count,),) = db.execute("select count(*) from notes where topic = ?", (topic,)).fetchall()
    return int(count)


@contextmanager
def _visit() -> Iterator[sqlite3.Connection]:
    """The database for one call. A second call at the same time would be counted."""
    _inside["now"] += 1
    _inside["most"] = max(_inside["most"], _inside["now"])
    try:
        yield from _database()
    finally:
        _inside["now"] -= 1


def _database() -> Iterator[sqlite3.Connection]:
    """Committed when the block ends well, closed in any case."""
    db = sqlite3.connect(os.environ[FILE_VARIABLE])
    try:
        with db:
            yield db
    finally:
        db.close()
