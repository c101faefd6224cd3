"""Notes in a SQLite file, as Python tools. The toolbox is exclusive: one call at a time, and `most_at_once` proves it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentos import CallContext, tool

_TABLE = """
create table if not exists notes (
    key text primary key, topic text not null, text text not null, agent text not null, conversation text not null
)
"""


class Notebook:
    """The file behind the tools. now_inside counts the calls at work; the kernel's slot keeps it at one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_inside = 0
        self.most_at_once = 0
        path.unlink(missing_ok=True)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """The database for the length of one call: committed when the block ends well, closed in any case."""
        self.now_inside += 1
        self.most_at_once = max(self.most_at_once, self.now_inside)
        db = sqlite3.connect(self.path)
        try:
            with db:
                db.execute(_TABLE)
                yield db
        finally:
            db.close()
            self.now_inside -= 1

    def tools(self) -> list[Callable[..., Any]]:
        """The functions that agents see."""

        @tool(effect="idempotent")
        def save_note(topic: str, text: str, context: CallContext) -> str:
            """Keep a note.

            Args:
                topic: what it is about
                text: the note itself
            """
            row = (context.key, topic, text, context.agent, context.conversation)
            with self.open() as db:
                db.execute("insert or ignore into notes values (?, ?, ?, ?, ?)", row)
            return f"kept under {topic}"

        @tool(effect="pure")
        def count_notes(topic: str) -> int:
            """How many notes there are about a topic.

            Args:
                topic: what they are about
            """
            with self.open() as db:
                ((count,),) = db.execute("select count(*) from notes where topic = ?", (topic,)).fetchall()
            return int(count)

        return [count_notes, save_note]
