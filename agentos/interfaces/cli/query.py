"""query: one reading SQL statement over the store, as it is or as it was."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table
from agentos.kernel.reading import Reading, Rows, reading


async def query(
    sql: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    as_of: str | None = None,
    root: str | None = None,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    log: str | None = None,
    entries_max: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    json: Flag = False,
    here: Here,
) -> None:
    """Ask the store in SQL: one statement that reads.

    Tables and views: conversations, conversation_turns, tool_calls, messages, events, history, entities, inbox,
    definitions, writers, and those below them.

    With --as-of: the same tables and views as they were at a time or after the entry at a seq, folded from the log into
    memory. How exact a time is, is said on stderr.

    Parameters
    ----------
    sql
        the statement, or - to read it from stdin
    as_of
        a time (2026-11-30T10:00:00Z, '10m ago'), or a seq of the log or root
    root
        with --as-of: only this conversation and those below it
    agent
        with --as-of: only conversations of this agent
    log
        with --as-of: only this conversation
    entries_max
        with --as-of: how many entries may be folded; 1,000,000 unless it is given
    json
        print one JSON object: columns, and rows as objects
    """
    statement = sys.stdin.read() if sql == "-" else sql
    if not statement.strip():
        raise UsageError("the statement is empty")
    past: dict[str, Any] = {}
    async with reading(here.store_url()) as store:
        if as_of is None:
            _check_unused(root=root, agent=agent, log=log)
            found = await store.query(statement)
        else:
            names = await _whole(store, root=root, agent=agent, log=log)
            found, past = await _ask_past(store, statement, as_of, names, entries_max)
    columns = _apart(found.columns)
    if json:
        put_json({**past, "columns": columns, "rows": [_object(columns, row) for row in found.rows]})
    else:
        put_table(found.columns, found.rows)


async def _ask_past(
    store: Reading, sql: str, as_of: str, names: dict[str, str], entries_max: int | None
) -> tuple[Rows, dict[str, Any]]:
    """history is imported here: a query of the present needs none of it."""
    from agentos.history import Only, past_of
    from agentos.history.past.asof import ENTRIES_MAX
    from agentos.interfaces.cli.past import as_object, point_of, say_past

    limit = entries_max or ENTRIES_MAX
    async with past_of(store.store, point_of(as_of), Only(**names), entries_max=limit) as past:
        say_past(past)
        return await past.query(sql), {"as_of": as_object(past)}


async def _whole(store: Reading, **names: str | None) -> dict[str, str]:
    """The name that was given, as a whole id. Raises UsageError for more than one."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        raise UsageError(f"name one of {' and '.join(f'--{name}' for name in given)}")
    return {name: value if name == "agent" else await find_conversation(store, value) for name, value in given.items()}


def _check_unused(**names: str | None) -> None:
    for name, value in names.items():
        if value is not None:
            raise UsageError(f"--{name} goes with --as-of; without it the statement says what it is about")


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
