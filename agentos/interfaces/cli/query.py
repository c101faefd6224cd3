"""query: one reading SQL statement over the store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table
from agentos.kernel.reading import reading


async def query(
    sql: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    json: Flag = False,
    here: Here,
) -> None:
    """Ask the store in SQL: one statement that reads.

    Tables and views: conversations, conversation_turns, tool_calls, messages, events, history, entities, inbox,
    definitions, writers, and those below them.

    Parameters
    ----------
    sql
        the statement, or - to read it from stdin
    json
        print one JSON object: columns, and rows as objects
    """
    statement = sys.stdin.read() if sql == "-" else sql
    if not statement.strip():
        raise UsageError("the statement is empty")
    async with reading(here.store_url()) as store:
        found = await store.query(statement)
    columns = _apart(found.columns)
    if json:
        put_json({"columns": columns, "rows": [_object(columns, row) for row in found.rows]})
    else:
        put_table(found.columns, found.rows)


def _apart(columns: Sequence[str]) -> list[str]:
    """Every name once, so that an object can hold them all."""
    names: list[str] = []
    for column in columns:
        name, n = column, 2
        while name in names:
            name, n = f"{column}_{n}", n + 1
        names.append(name)
    return names


def _object(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """JSON has no infinity: it is written as text."""
    return {
        column: str(value) if isinstance(value, float) and not isfinite(value) else value
        for column, value in zip(columns, row, strict=True)
    }
