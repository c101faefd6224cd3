"""Conversations a page at a time: sorted, narrowed, and found by the indexes that fit. No payload is read.

The order is that of a key, which goes on where the last page ended, so that a late page costs what the first one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from agentos.errors import UnknownConversation
from agentos.persistence.base import Rows

Sort = Literal["updated", "started"]
WAITING = "waiting"
"""The state of a conversation whose turn waits for a place in a kernel, which alone knows of it."""

PAGE_CONVERSATIONS = 50
COUNTED_MAX = 10_000
"""How many of those behind a page are counted."""
IDS_AT_ONCE = 500
"""How many ids one statement is given."""

_NUMBER_MAX = 2**63 - 1
LIMIT_MAX = _NUMBER_MAX - COUNTED_MAX - 1
"""No page is larger; beyond that no engine has a number for what is looked for behind it."""
_OPEN_STATES = frozenset({"running", "parked"})
"""Those of an open turn; few conversations are in them, and an index has these alone."""
_TENANT = "(select tenant from logs where logs.n = conversations.n)"
"""Stands with the log alone, which has it from its first entry; a look by the key of the table for each row shown."""
_COLUMNS = (
    "id, agent, state, depth, parent, root, turns, steps, calls, input_tokens, output_tokens, started_at, updated_at,"
    f" {_TENANT} as tenant, n"
)
_KEY_OF = (
    "select conversations.updated_at, conversations.n from logs join conversations on conversations.n = logs.n"
    " where logs.id = ?"
)


class Queried(Protocol):
    """What answers queries: a store, or its tables as they were once."""

    async def query(self, sql: str, parameters: Sequence[object] = (), /) -> Rows: ...


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversations, and in what order: the last updated first, or the last started.

    parent narrows to those that calls of it began, roots to those that no call began. after is the id of a conversation:
    the page begins behind it.
    """

    state: str | None = None
    agent: str | None = None
    tenant: str | None = None
    parent: str | None = None
    roots: bool = False
    sort: Sort = "updated"
    limit: int = PAGE_CONVERSATIONS
    after: str | None = None


class ListedConversation(NamedTuple):
    """A row of the table `conversations`, with the tenant of its log; times in microseconds, UTC. Counters are those of
    settled turns."""

    id: str
    agent: str
    state: str
    depth: int
    parent: str | None
    root: str
    turns: int
    steps: int
    calls: int
    input_tokens: int
    output_tokens: int
    started_at: int
    updated_at: int
    tenant: str | None = None


class Page(NamedTuple):
    """more counts the conversations behind the page, up to COUNTED_MAX."""

    conversations: list[ListedConversation]
    more: int


async def list_conversations(store: Queried, listing: Listing) -> Page:
    """One page. Raises UnknownConversation when there is no conversation `after`, StoreError."""
    listing = msgspec.structs.replace(listing, limit=min(max(listing.limit, 0), LIMIT_MAX))
    key = await _key(store, listing)
    found_max = COUNTED_MAX + listing.limit
    if _looks_at_all(listing):
        sql, parameters = whole_sql(listing, key)
        rows = (await store.query(sql, (*parameters, found_max, listing.limit))).rows
        if not rows or rows[0][-1] < found_max:
            return _page(rows, rows[0][-1] - len(rows) if rows else 0)
    sql, parameters = page_sql(listing, key)
    rows = (await store.query(sql, (*parameters, listing.limit + 1))).rows
    shown = rows[: listing.limit]
    more = 0
    if len(rows) > len(shown):
        sql, parameters = count_sql(listing, _key_of_row(shown[-1]) if shown else (_NUMBER_MAX, _NUMBER_MAX))
        ((more,),) = (await store.query(sql, (*parameters, COUNTED_MAX))).rows
    return _page(shown, more)


async def list_among(store: Queried, listing: Listing, ids: Sequence[str]) -> Page:
    """One page of what is among these conversations, whatever state the store has them in. Raises as `list_conversations`."""
    listing = msgspec.structs.replace(listing, state=None, limit=min(max(listing.limit, 0), LIMIT_MAX))
    key = await _key(store, listing)
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(ids), IDS_AT_ONCE):
        sql, parameters = _among_sql(listing, key, ids[start : start + IDS_AT_ONCE])
        rows += (await store.query(sql, parameters)).rows
    rows.sort(key=_key_of_row if listing.sort == "updated" else lambda row: row[-1], reverse=True)
    return _page(rows[: listing.limit], min(max(len(rows) - listing.limit, 0), COUNTED_MAX))


def _page(rows: list[tuple[Any, ...]], more: int) -> Page:
    return Page([ListedConversation(*row[: len(ListedConversation._fields)]) for row in rows], more)


def _key_of_row(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[ListedConversation._fields.index("updated_at")], row[-1]


def _looks_at_all(listing: Listing) -> bool:
    """Whether no index has these in their order, so that a page costs a look at all that there are, or at all of an index
    that has few: then one look has to do for page and count. Where it finds many it ends early, and was in vain."""
    sorts = listing.state in (None, "idle") and listing.parent is None and listing.tenant is None
    return listing.limit > 0 and (not sorts or (listing.agent is not None and listing.sort == "started"))


def whole_sql(listing: Listing, key: tuple[int, int]) -> tuple[str, tuple[Any, ...]]:
    """The statement that finds all behind a key, up to a limit, and gives the first of them, up to another one, each with
    how many were found in its last column; and its parameters but the two limits. It is right when it finds fewer than
    the first limit."""
    by_agent = listing.state is None and listing.parent is None and not listing.roots
    where, parameters = _where(listing, key, sorts=False, by_agent=by_agent)
    order = "+n desc" if listing.sort == "started" else "+updated_at desc, +n desc"
    sql = (
        f"with found as materialized (select updated_at, n from conversations where {where} limit ?)"  # noqa: S608
        f" select {_COLUMNS}, (select count(*) from found) from conversations"
        f" where n in (select n from found order by {order} limit ?) order by {order}"
    )
    return sql, parameters


def page_sql(listing: Listing, key: tuple[int, int] = (_NUMBER_MAX, _NUMBER_MAX)) -> tuple[str, tuple[Any, ...]]:
    """The statement of a page behind a key (updated_at and n), and its parameters but the limit.

    Rows come in the order of an index, but where another one finds the few that there are: then they are sorted.
    """
    few = listing.state in _OPEN_STATES or listing.parent is not None
    sorts = not few and (listing.sort == "started" or listing.state in (None, "idle"))
    where, parameters = _where(listing, key, sorts=sorts)
    updated_at, n = _sorting(sorts=sorts)
    order = f"{n} desc" if listing.sort == "started" else f"{updated_at} desc, {n} desc"
    return f"select {_COLUMNS} from conversations where {where} order by {order} limit ?", parameters  # noqa: S608


def count_sql(listing: Listing, key: tuple[int, int]) -> tuple[str, tuple[Any, ...]]:
    """The statement that counts what is behind a key, and its parameters but the limit.

    What no index holds is counted in the order of the table, which costs less than to jump from an index to each row.
    """
    sorts = listing.state is None and listing.parent is None and not listing.roots
    where, parameters = _where(listing, key, sorts=sorts)
    return f"select count(*) from (select 1 from conversations where {where} limit ?) as behind", parameters  # noqa: S608


def _among_sql(listing: Listing, key: tuple[int, int], ids: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    where, parameters = _where(listing, key, sorts=False)
    marks = ", ".join("?" * len(ids))
    sql = f"select {_COLUMNS} from conversations where n in (select n from logs where id in ({marks})) and {where}"  # noqa: S608
    return sql, (*ids, *parameters)


def _where(
    listing: Listing, key: tuple[int, int], *, sorts: bool, by_agent: bool = False
) -> tuple[str, tuple[Any, ...]]:
    updated_at, n = _sorting(sorts=sorts)
    conditions = [
        *_conditions(listing, by_agent=by_agent or (sorts and listing.sort == "updated")),
        (f"{n} < ?", key[1:]) if listing.sort == "started" else (f"({updated_at}, {n}) < (?, ?)", key),
    ]
    return " and ".join(text for text, _ in conditions), tuple(value for _, values in conditions for value in values)


def _sorting(*, sorts: bool) -> tuple[str, str]:
    """The columns that sort. A plus sign changes no number, and keeps a column from choosing the index. n is the order in
    which conversations began."""
    return ("updated_at", "n") if sorts else ("+updated_at", "+n")


def _conditions(listing: Listing, *, by_agent: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each with its values. by_agent: the index of agents may be chosen; an empty text appended keeps it from that."""
    if listing.state in _OPEN_STATES:
        yield "open_turn > 0", ()
    if listing.state is not None:
        yield "state = ?", (listing.state,)
    if listing.agent is not None:
        yield "agent = ?" if by_agent else "agent || '' = ?", (listing.agent,)
    if listing.tenant is not None:
        yield f"{_TENANT} = ?", (listing.tenant,)
    if listing.parent is not None:
        yield "parent = ?", (listing.parent,)
    if listing.roots:
        yield "parent is null", ()


async def _key(store: Queried, listing: Listing) -> tuple[int, int]:
    if listing.after is None:
        return _NUMBER_MAX, _NUMBER_MAX
    for updated_at, n in (await store.query(_KEY_OF, (listing.after,))).rows:
        return updated_at, n
    raise UnknownConversation(listing.after[:80])
