"""Notes in a SQLite file, as Python tools: what the demo's agents write down, and read of each other.

The toolbox is exclusive: one call at a time, of all agents and conversations, which `most_at_once` goes to prove.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentos import CallContext, PythonToolbox, tool
from agentos.components import ToolboxSharing

_TABLE = "create table notes (key text primary key, topic text not null, text text not null, agent text not null)"


class Notebook:
    """The file behind the tools. most_at_once is the largest number of calls that were ever inside together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.most_at_once = 0
        self._inside = 0

    def toolbox(self) -> PythonToolbox:
        return PythonToolbox("notes", self._tools(), ToolboxSharing.EXCLUSIVE, opened=self._make)

    def count(self) -> int:
        with self._database() as db:
            ((count,),) = db.execute("select count(*) from notes").fetchall()
        return int(count)

    def _tools(self) -> list[Callable[..., Any]]:
        @tool(effect="idempotent")
        def save_note(topic: str, text: str, context: CallContext) -> str:
            """Keep a note.

            Args:
                topic: what it is about
                text: the note itself
            """
            with self._visit() as db:
                row = (context.key, topic, text, context.agent)
                db.execute("insert or ignore into notes values (?, ?, ?, ?)", row)
            return f"kept under {topic}"

        @tool(effect="pure", access="read")
        def count_notes(topic: str) -> int:
            """How many notes there are about a topic.

            Args:
                topic: what they are about
            """
            with self._visit() as db:
                ((count,),) = db.execute("select count(*) from notes where topic = ?", (topic,)).fetchall()
            return int(count)

        return [count_notes, save_note]

    def _make(self) -> None:
        with self._database() as db:
            db.execute(_TABLE)

    @contextmanager
    def _visit(self) -> Iterator[sqlite3.Connection]:
        """The database for one call; a second one inside would be counted."""
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        try:
            with self._database() as db:
                yield db
        finally:
            self._inside -= 1

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Committed when the block ends well, closed in any case."""
        db = sqlite3.connect(self.path)
        try:
            with db:
                yield db
        finally:
            db.close()
