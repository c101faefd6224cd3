"""ps: conversations as processes."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.interfaces.cli.finding import find_conversation, short
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.kernel.listing import (
    COUNTED_MAX,
    PAGE_CONVERSATIONS,
    ListedConversation,
    Listing,
    Page,
    Sort,
    list_conversations,
)
from agentos.kernel.reading import reading

State = Literal["idle", "running", "parked", "paused", "closed"]

COLUMNS = ("id", "agent", "state", "depth", "parent", "turns", "calls", "tokens", "age")


async def ps(
    *,
    state: State | None = None,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    parent: str | None = None,
    roots: Flag = False,
    sort: Sort = "updated",
    limit: Annotated[int, Parameter(name=["--limit", "-n"], validator=Number(gte=1))] = PAGE_CONVERSATIONS,
    after: str | None = None,
    whole: Flag = False,
    json: Flag = False,
    here: Here,
) -> None:
    """List conversations as processes, the last one at work first.

    Counters are those of settled turns. The age counts from the start of the conversation.

    Parameters
    ----------
    state
        only those in this state
    agent
        only those of this agent
    parent
        only those that calls of this conversation began
    roots
        only those that no other conversation began
    sort
        by when they were last updated, or started; the last one first
    limit
        how many at most; how many more there are is said on stderr
    after
        go on behind this conversation: the last one of the page before
    whole
        whole ids in place of their last letters
    json
        print one JSON object; more counts those behind the page
    """
    async with reading(here.store_url()) as store:
        page = await list_conversations(
            store.store,
            Listing(
                state=state,
                agent=agent,
                parent=await find_conversation(store, parent) if parent is not None else None,
                roots=roots,
                sort=sort,
                limit=limit,
                after=await find_conversation(store, after) if after is not None else None,
            ),
        )
    if json:
        put_json({"conversations": [as_object(row) for row in page.conversations], "more": page.more})
        return
    put_table(COLUMNS, [as_row(row, whole=whole) for row in page.conversations])
    _say_rest(page)


def as_row(row: ListedConversation, *, whole: bool = False) -> list[Any]:
    """As COLUMNS has it."""
    ids = (row.id, row.parent) if whole else (short(row.id), short(row.parent))
    tokens = row.input_tokens + row.output_tokens
    return [ids[0], row.agent, row.state, row.depth, ids[1], row.turns, row.calls, tokens, age_of(row.started_at)]


def as_object(row: ListedConversation) -> dict[str, Any]:
    return {
        "id": row.id,
        "agent": row.agent,
        "state": row.state,
        "depth": row.depth,
        "parent": row.parent,
        "turns": row.turns,
        "calls": row.calls,
        "tokens": row.input_tokens + row.output_tokens,
        "started_at_us": row.started_at,
        "updated_at_us": row.updated_at,
        "age_s": round(max(0.0, time.time() - row.started_at / 1e6), 3),
    }


def age_of(started_at_us: int) -> str:
    """Since when, in its two largest units."""
    seconds = max(0, round(time.time() - started_at_us / 1e6))
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller:02}{small}"
    return f"{seconds}s"


def _say_rest(page: Page) -> None:
    if not page.conversations:
        say("no conversations")
    elif page.more:
        count = f"{'at least ' if page.more == COUNTED_MAX else ''}{page.more:,}"
        say(f"{count} more: --after {short(page.conversations[-1].id)}, or a larger --limit")
