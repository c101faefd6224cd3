"""writers: which processes opened the store, whether they live, and the word of a person that one does not."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.interfaces.cli.ps import age_of
from agentos.kernel.reading import Reading, WriterRow, reading

COLUMNS = ("writer", "host", "pid", "since", "last sign", "state", "logs")
_LOGS = "select owner, count(*) from logs group by owner"


async def writers(
    *,
    declare_dead: Annotated[int | None, Parameter(name="--declare-dead")] = None,
    all: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """List the processes that have the store open for writing, and how many logs each owns.

    A log belongs to the process that wrote to it last, until that has ended. A store knows of a process that was killed; of
    one that hangs, or whose machine is out of reach, a person has to say that it is dead. From then on others may take
    over what it owns, and what it still wants to store there is refused. What its tools do meanwhile is not undone.

    Parameters
    ----------
    declare_dead
        the number of a writer to be taken for dead
    all
        also those that have ended and own nothing
    json
        print one JSON object, with those that have ended
    """
    async with reading(here.store_url()) as store:
        if declare_dead is not None:
            return await _declare(store, declare_dead)
        rows = await store.writers()
        owned: dict[int, int] = dict((await store.query(_LOGS)).rows)
    if json:
        put_json({"writers": [as_object(row, owned.get(row.n, 0)) for row in rows]})
        return Exit.OK
    shown = [row for row in rows if all or row.alive or row.n in owned]
    put_table(COLUMNS, [as_row(row, owned.get(row.n, 0)) for row in shown])
    if not shown:
        say("no process has the store open")
    return Exit.OK


async def _declare(store: Reading, n: int) -> int:
    known = {row.n: row for row in await store.writers()}
    if n not in known:
        raise UsageError(f"the store has no writer {n}; 'agentos writers --all' lists them")
    if not await store.declare_dead(n):
        say(f"writer {n} has ended already; 'agentos run --resume' takes up what it left")
        return Exit.OK
    say(
        f"writer {n} counts as dead: it stores nothing any more in a log that another process takes over; "
        "'agentos run --resume' takes up what it left"
    )
    return Exit.OK


def as_row(row: WriterRow, logs: int) -> list[Any]:
    """As COLUMNS has it."""
    sign = f"{age_of(row.beat_at)} ago" if row.beat_at is not None and row.alive else None
    return [row.n, row.host or None, row.pid or None, _time(row.started_at), sign, _state(row), logs]


def as_object(row: WriterRow, logs: int) -> dict[str, Any]:
    return {
        "writer": row.n,
        "host": row.host,
        "pid": row.pid,
        "incarnation": row.incarnation,
        "alive": row.alive,
        "started_at_us": row.started_at,
        "beat_at_us": row.beat_at,
        "ended_at_us": row.ended_at,
        "age_s": round(max(0.0, time.time() - row.started_at / 1e6), 3),
        "logs": logs,
    }


def _state(row: WriterRow) -> str:
    """One that was killed has told nobody when."""
    if row.alive:
        return "alive"
    return f"ended {_time(row.ended_at)}" if row.ended_at else "ended"


def _time(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
