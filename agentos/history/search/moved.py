"""Which conversations moved since the index was brought up to date, without the head of every one being read.

The store sums up its heads, and so does the index. Where both come to the same, nothing moved. Where they differ by exactly
what moved of late, those are all; in every other case, as for a store that was put back, all heads are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from agentos.persistence.base import LogRow, Store
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_rows import Heads, Standing

HEADS_AT_HAND = ("file:", "memory:")
"""Stores that have all heads in memory, where reading them costs less than a query, which would bring in all entries."""
MOVED_MAX = 1_000
"""How many conversations are looked at one by one before all are compared at once."""
CLOCKS_APART_US = 60_000_000
"""By how much clocks of kernels of one store differ, at most, for what moved to be found by its time."""

_STANDS = """
select '' as id, count(*) as seq, cast(coalesce(sum(seq), 0) as bigint) as seqs,
    cast(coalesce(sum(seq * seq % 1000003), 0) as bigint) as squares,
    (select count(erased_at) from logs where kind = 'conversation') as erased,
    (select coalesce(max(updated_at), 0) from conversations) as updated_at, 0 as n
from logs where kind = 'conversation' and erased_at is null and (forked_from is null or seq > upto)
union all
select id, seq, 0, 0, 0, updated_at, n from (
    select logs.id, logs.seq, conversations.updated_at, logs.n from conversations join logs on logs.n = conversations.n
    where conversations.updated_at >= ? and logs.kind = 'conversation' and logs.erased_at is null
        and (logs.forked_from is null or logs.seq > logs.upto)
    limit ?
) as late
order by n
"""
"""One statement, and so of one moment: the sums, and the conversations that moved since a time."""


class Moved(NamedTuple):
    """logs are those that moved, with what they fork from, parents first; None when all have to be compared. standing is
    where the store stands, for when they are in the index."""

    logs: Mapping[str, LogRow] | None
    standing: Standing


async def moved_since(store: Store, index: SearchIndex) -> Moved:
    """Raises StoreError."""
    if store.url.startswith(HEADS_AT_HAND):
        return Moved(None, Standing(0, 0))
    stood = await asyncio.to_thread(index.standing)
    since = stood.updated_at - CLOCKS_APART_US if stood is not None else 2**62
    (_, *sums, erased, updated_at, _), *late = (await store.query(_STANDS, (since, MOVED_MAX + 1))).rows
    standing = Standing(erased, updated_at)
    if stood is None or erased != stood.erased or updated_at < stood.updated_at:
        return Moved(None, standing)
    found = await asyncio.to_thread(index.heads)
    if standing == stood and found == Heads(*sums):
        return Moved({}, standing)
    if len(late) > MOVED_MAX:
        return Moved(None, standing)
    known = await asyncio.to_thread(index.logs, [str(id_) for id_, *_ in late])
    ahead: list[str] = []
    for id_, seq, *_, moved_at, _ in late:
        before = known.get(id_)
        if before is None or before.erased or before.seq != seq or moved_at > stood.updated_at:
            ahead.append(str(id_))
            found = found.moved(before.seq if before is not None and not before.erased else None, seq)
    return Moved(await _rows(store, ahead) if found == Heads(*sums) else None, standing)


async def _rows(store: Store, logs: list[str]) -> dict[str, LogRow]:
    """With the logs that they fork from, whose calls they may have ended."""
    found: dict[str, LogRow] = {}
    for log in logs:
        above: list[LogRow] = []
        row = await store.log(log)
        while row is not None and row.id not in found and row not in above:
            above.append(row)
            row = await store.log(row.forked_from) if row.forked_from is not None else None
        found |= {row.id: row for row in reversed(above)}
    return found
