"""ps: conversations as processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.finding import find_conversation, short
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.interfaces.cli.running import all_running, answers, asked_first
from agentos.kernel.listing import (
    COUNTED_MAX,
    PAGE_CONVERSATIONS,
    WAITING,
    ListedConversation,
    Listing,
    Page,
    Sort,
    list_conversations,
)
from agentos.kernel.reading import Reading, reading

State = Literal["idle", "running", "parked", "paused", "closed", "waiting"]

ASKED_MAX = 1_000
"""How many conversations a running kernel is asked for at most."""
COLUMNS = ("id", "agent", "state", "depth", "parent", "turns", "calls", "tokens", "age")


async def ps(
    *,
    state: State | None = None,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    tenant: str | None = None,
    parent: str | None = None,
    roots: Flag = False,
    sort: Sort = "updated",
    limit: Annotated[int, Parameter(name=["--limit", "-n"], validator=Number(gte=1))] = PAGE_CONVERSATIONS,
    after: str | None = None,
    as_of: str | None = None,
    whole: Flag = False,
    json: Flag = False,
    here: Here,
) -> None:
    """List conversations as processes, the last one at work first.

    Counters are those of settled turns. The age counts from the start of the conversation.

    Parameters
    ----------
    state
        only those in this state; waiting ones stand in line for a place among the turns at once, as running kernels tell
    agent
        only those of this agent
    tenant
        only those on the account of this tenant
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
    as_of
        as they were at a time: 2026-11-30T10:00:00Z, or '10m ago'; how exact it is, is said on stderr
    whole
        whole ids in place of their last letters
    json
        print one JSON object; more counts those behind the page
    """
    at = _time(as_of)
    if at is not None and state == WAITING:
        raise UsageError("who waited for a place is not stored, so '--state waiting' is of now alone, without --as-of")
    async with reading(here.store_url()) as store:
        listing = Listing(
            state=state,
            agent=agent,
            tenant=tenant,
            parent=await find_conversation(store, parent) if parent is not None else None,
            roots=roots,
            sort=sort,
            limit=limit,
            after=await find_conversation(store, after) if after is not None else None,
        )
        page = await (_page_of_now(store, listing) if at is None else _page_of_past(store, at, listing))
    if json:
        past = {} if at is None else {"as_of_us": at}
        put_json({**past, "conversations": [as_object(row, at) for row in page.conversations], "more": page.more})
        return
    rows = [(row.tenant, as_row(row, at, whole=whole)) for row in page.conversations]
    put_table(*with_tenants(COLUMNS, rows))
    _say_rest(page)


def _time(as_of: str | None) -> int | None:
    """A time in microseconds, UTC; None is now, for which nothing of history is imported."""
    if as_of is None:
        return None
    from agentos.interfaces.cli.past import time_of

    return time_of(as_of)


async def _page_of_now(store: Reading, listing: Listing) -> Page:
    """A running kernel has the store open already; the rows are those of the store, of whatever process they are. A page that
    is large is read from the store here, so that no turn has to wait for it there."""
    if listing.state == WAITING:
        return await _page_of_waiting(store.url, listing)
    if listing.limit > ASKED_MAX:
        return await list_conversations(store.store, listing)
    page = await asked_first(store.url, lambda kernel: kernel.page(listing))
    return page if page is not None else await list_conversations(store.store, listing)


async def _page_of_waiting(url: str, listing: Listing) -> Page:
    """Each kernel knows those alone that wait in it."""
    async with all_running(url) as kernels:
        pages = [page async for _, page in answers(kernels, lambda kernel: kernel.page(listing))]
    when = attrgetter("updated_at" if listing.sort == "updated" else "started_at")
    rows = sorted((row for page in pages for row in page.conversations), key=when, reverse=True)
    more = sum(page.more for page in pages) + max(len(rows) - listing.limit, 0)
    return Page(rows[: listing.limit], min(more, COUNTED_MAX))


async def _page_of_past(store: Reading, at: int, listing: Listing) -> Page:
    from agentos.history import processes_of
    from agentos.interfaces.cli.past import say_processes

    async with processes_of(store.store, at) as past:
        say_processes(past)
        return await list_conversations(past, listing)


def as_row(row: ListedConversation, at_us: int | None = None, *, whole: bool = False) -> list[Any]:
    """As COLUMNS has it; the age is that of then."""
    ids = (row.id, row.parent) if whole else (short(row.id), short(row.parent))
    tokens = row.input_tokens + row.output_tokens
    return [
        ids[0],
        row.agent,
        row.state,
        row.depth,
        ids[1],
        row.turns,
        row.calls,
        tokens,
        age_of(row.started_at, at_us),
    ]


def with_tenants(
    columns: Sequence[str], rows: Sequence[tuple[str | None, list[Any]]]
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table, with the tenant of each behind its agent, when one of them has any: who has no tenants
    need not look at a column of them."""
    if not any(tenant for tenant, _ in rows):
        return [*columns], [row for _, row in rows]
    at = columns.index("agent") + 1
    shown = [[*row[:at], tenant, *row[at:]] for tenant, row in rows]
    return [*columns[:at], "tenant", *columns[at:]], shown


def as_object(row: ListedConversation, at_us: int | None = None) -> dict[str, Any]:
    return {
        "id": row.id,
        "agent": row.agent,
        "tenant": row.tenant,
        "state": row.state,
        "depth": row.depth,
        "parent": row.parent,
        "turns": row.turns,
        "calls": row.calls,
        "tokens": row.input_tokens + row.output_tokens,
        "started_at_us": row.started_at,
        "updated_at_us": row.updated_at,
        "age_s": round(_age_s(row.started_at, at_us), 3),
    }


def age_of(started_at_us: int, at_us: int | None = None) -> str:
    """Since when, until now or then, as `span`."""
    return span(_age_s(started_at_us, at_us))


def span(length_s: float) -> str:
    """A length of time in its two largest units."""
    seconds = round(length_s)
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // smaller:02}{small}"
    return f"{seconds}s"


def _age_s(started_at_us: int, at_us: int | None) -> float:
    now_s = time.time() if at_us is None else at_us / 1e6
    return max(0.0, now_s - started_at_us / 1e6)


def _say_rest(page: Page) -> None:
    if not page.conversations:
        say("no conversations")
    elif page.more:
        count = f"{'at least ' if page.more == COUNTED_MAX else ''}{page.more:,}"
        say(f"{count} more: --after {short(page.conversations[-1].id)}, or a larger --limit")
