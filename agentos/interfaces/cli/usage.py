"""usage: what turns and calls took, counted from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from agentos.codec import decode_json
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.kernel.reading import Reading, reading

By = Literal["agent", "model", "toolbox", "root", "day"]

TURN_COLUMNS = ("turns", "steps", "calls", "input_tokens", "output_tokens")
CALL_COLUMNS = ("calls", "done", "failed", "other", "ms")

_TURNS = """
select {key}, count(*), sum(turns.steps), sum(turns.calls), sum(turns.input_tokens), sum(turns.output_tokens)
from turns join conversations on conversations.n = turns.n
group by 1 order by sum(turns.input_tokens) + sum(turns.output_tokens) desc, 1
"""
_CALLS = """
select coalesce(toolbox, case when child is null then '-' else 'subagents' end), count(*),
    sum(case when status = 'done' then 1 else 0 end), sum(case when status = 'failed' then 1 else 0 end),
    sum(case when status in ('done', 'failed') then 0 else 1 end),
    coalesce(sum(finished_at - started_at), 0) / 1000
from calls group by 1 order by 2 desc, 1
"""
_STATEMENTS = {
    "agent": _TURNS.format(key="conversations.agent"),
    "model": _TURNS.format(key="turns.context"),
    "root": _TURNS.format(key="conversations.root"),
    "day": _TURNS.format(key="turns.started_at / 86400000000"),
    "toolbox": _CALLS,
}
_MODELS = "select digest, body from definitions where kind = 'context'"

Row = tuple[Any, ...]


async def usage(*, by: By = "agent", json: Flag = False, here: Here) -> None:
    """Count turns, steps, calls and tokens, by agent, model, root conversation or day; or calls by toolbox.

    Open turns count with what they have taken so far. Days are those of UTC. Tokens are as the providers counted them.

    Parameters
    ----------
    by
        what each line is about
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        rows = await rows_by(store, by)
    columns = (by, *(CALL_COLUMNS if by == "toolbox" else TURN_COLUMNS))
    if json:
        put_json({"by": by, "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    put_table(columns, [*rows, ("total", *_sums(rows))] if len(rows) > 1 else rows)
    if not rows:
        say("no turns yet" if by != "toolbox" else "no calls yet")


async def rows_by(store: Reading, by: By) -> list[Row]:
    """Rows of the columns, the largest first; days in their order."""
    rows = [tuple(row) for row in (await store.query(_STATEMENTS[by])).rows]
    if by == "model":
        models = {str(digest): _model(str(body)) for digest, body in (await store.query(_MODELS)).rows}
        return _merged(rows, lambda digest: models.get(str(digest), "unknown"))
    if by == "day":
        return sorted(_merged(rows, _day))
    return rows


def _merged(rows: Sequence[Row], name: Callable[[Any], str]) -> list[Row]:
    """Rows whose keys have one name become one."""
    found: dict[str, Row] = {}
    for key, *counts in rows:
        before = found.get(name(key), (0,) * len(counts))
        found[name(key)] = tuple(a + b for a, b in zip(before, counts, strict=True))
    return [(key, *counts) for key, counts in found.items()]


def _sums(rows: Sequence[Row]) -> list[int]:
    return [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]


def _model(body: str) -> str:
    """kind:name of the model that a context pins."""
    ref = decode_json(body)["model"]
    return f"{ref['kind']}:{ref['name']}" if ref.get("name") else str(ref["kind"])


def _day(days: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)).date().isoformat()
