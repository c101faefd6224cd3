"""What the tests of the SQLite toolbox share."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from agentos.lineage import Lineage
from agentos.resources.kinds.sqlite_connection.link import Link, SqliteLimits
from agentos.toolboxes.sqlite import SqliteToolbox

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
"""The beginning of a statement over all numbers from 1 on."""

CALL: Any = SimpleNamespace(lineage=Lineage(), call_id=f"call_{'0' * 26}_1")
"""What the toolbox looks at of a call's context."""


def made(path: Path, script: str) -> Path:
    """A new database, as a script leaves it."""
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    return path


def three_notes(folder: Path) -> Path:
    """A database of three notes."""
    return made(
        folder / "notes.db",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
        "INSERT INTO notes (text) VALUES ('one'), ('two'), ('three');",
    )


@asynccontextmanager
async def opened(
    path: Path, access: Literal["read-only", "read-write"] = "read-only", **limits: Any
) -> AsyncIterator[SqliteToolbox]:
    """A toolbox of a database, open for the length of a block."""
    toolbox = SqliteToolbox("notes", path=path, access=access, limits=SqliteLimits(**limits))
    await toolbox.open()
    try:
        yield toolbox
    finally:
        await toolbox.close()


async def query(toolbox: SqliteToolbox, sql: str, parameters: Any = None) -> Any:
    """What one call gives."""
    arguments = {"sql": sql} if parameters is None else {"sql": sql, "parameters": parameters}
    return await toolbox.call(toolbox.tools()[0].name, arguments, CALL)


def rows(path: Path, sql: str = "SELECT text FROM notes ORDER BY id") -> list[Any]:
    """The first column of what stands in the file, past the toolbox."""
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute(sql)]


def first_link(toolbox: SqliteToolbox) -> Link:
    """The connection that the toolbox has opened, as its threads use it."""
    with toolbox.resources[-1].borrow_nowait() as connection, connection.link() as link:
        return link
