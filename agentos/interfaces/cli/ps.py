"""ps: conversations as processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from agentos.interfaces.cli.finding import short
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.kernel.reading import Reading, reading

State = Literal["idle", "running", "parked", "paused", "closed"]

COLUMNS = ("id", "agent", "state", "depth", "parent", "turns", "calls", "tokens", "age")

_PROCESSES = """
select id, agent, state, depth, parent, turns, calls, input_tokens + output_tokens, started_at, updated_at
from conversations where state = coalesce(?, state) and (? is null or agent = ?) order by started_at, id
"""


async def ps(
    *,
    state: State | None = None,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    whole: Flag = False,
    json: Flag = False,
    here: Here,
) -> None:
    """List conversations as processes, oldest first.

    Counters are those of settled turns. The age counts from the start of the conversation.

    Parameters
    ----------
    state
        only those in this state
    agent
        only those of this agent
    whole
        whole ids in place of their last letters
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        rows = await processes(store, state, agent)
    if json:
        put_json({"conversations": [as_object(row) for row in rows]})
        return
    put_table(COLUMNS, [as_row(row, whole=whole) for row in rows])
    if not rows:
        say("no conversations")


async def processes(store: Reading, state: str | None = None, agent: str | None = None) -> list[Sequence[Any]]:
    """Rows of conversations: those of COLUMNS but the last, then started_at and updated_at."""
    return list((await store.query(_PROCESSES, (state, agent, agent))).rows)


def as_row(row: Sequence[Any], *, whole: bool = False) -> list[Any]:
    """As COLUMNS has it."""
    id_, agent, state, depth, parent, turns, calls, tokens, started_at, _ = row
    ids = (id_, parent) if whole else (short(id_), short(parent))
    return [ids[0], agent, state, depth, ids[1], turns, calls, tokens, age_of(started_at)]


def as_object(row: Sequence[Any]) -> dict[str, Any]:
    id_, agent, state, depth, parent, turns, calls, tokens, started_at, updated_at = row
    return {
        "id": id_,
        "agent": agent,
        "state": state,
        "depth": depth,
        "parent": parent,
        "turns": turns,
        "calls": calls,
        "tokens": tokens,
        "started_at_us": started_at,
        "updated_at_us": updated_at,
        "age_s": round(max(0.0, time.time() - started_at / 1e6), 3),
    }


def age_of(started_at_us: int) -> str:
    """Since when, in its two largest units."""
    seconds = max(0, round(time.time() - started_at_us / 1e6))
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller:02}{small}"
    return f"{seconds}s"
