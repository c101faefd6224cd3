"""Which logs a look into the past takes, and how far into each of them.

At a time, a log is taken up to its last unit that says it was written by then. Entries carry the clock of their writer,
so a time is exact within a writer; where another machine has another clock, it is as exact as the two agree.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from agentos.errors import ConfigurationError, QueryRefused
from agentos.events.entry import decode_head
from agentos.history.past.points import Point
from agentos.history.reading import conversation_row, logs_above
from agentos.ids import LogId
from agentos.persistence.base import LogRow, Store

PAGE_LOGS = 1_000

_REACH = (
    "select logs.n, logs.id, (select entries.seq from entries where entries.n = logs.n and entries.at <= ?"
    " order by entries.seq desc limit 1) from logs where {which} and logs.n > ? order by logs.n limit ?"
)
_LOG = _REACH.format(which="logs.id = ?")
_AGENT = _REACH.format(which="logs.n in (select n from conversations where agent = ?)")
_ROOT = _REACH.format(
    which="logs.n in (select n from logs where id = ?"
    " union select n from conversations where parent is not null and root = ?)"
)
_ALL = _REACH.format(which="1 = 1")


class Only(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs: all of them, or one conversation, or a root with all conversations below it, or those of an agent.

    One of the three at most; log and root are whole ids.
    """

    log: str | None = None
    root: str | None = None
    agent: str | None = None


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of logs by id in the order in which they began, and the seq up to which each is taken.

    at is the time of it, in microseconds, UTC. asked is the seq that was asked for when it lies within a unit: a unit
    counts whole, so the log is then taken up to the one before.
    """

    at: int
    rows: dict[str, LogRow]
    upto: dict[str, int]
    asked: int | None = None

    @property
    def entries(self) -> int:
        """How many are to be folded; what a fork shares stands with its parent."""
        return sum(max(0, self.upto[id_] - row.upto) for id_, row in self.rows.items())


async def reach_of(store: Store, point: Point, only: Only, entries_max: int) -> Reach:
    """How far each log is taken that is chosen, and each that a chosen fork begins in.

    Errors: ConfigurationError for a seq without a log, or one that the log has not; UnknownConversation; QueryRefused
    when more than entries_max entries would have to be folded.
    """
    if sum(name is not None for name in (only.log, only.root, only.agent)) > 1:
        raise ConfigurationError("name one log, one root or one agent")
    begins, at, asked = await _begin(store, point, only)
    rows: dict[str, LogRow] = {}
    upto = dict(begins)
    known = {row.id: row for row in await store.logs()} if only == Only() else {}
    entries = 0
    async for id_, seq in _reached(store, at, only):
        row = known.get(LogId(id_)) or await conversation_row(store, id_)
        upto[id_] = begins.get(id_, seq)
        if upto[id_] > row.upto:  # else the fork had not begun
            rows[id_] = row
            entries += upto[id_] - row.upto
        _check(entries, entries_max, only)
    for row in list(rows.values()):
        await _take_parents(store, row, rows, upto)
    reach = Reach(at=at, rows=rows, upto=upto, asked=asked)
    _check(reach.entries, entries_max, only)
    return reach


async def _begin(store: Store, point: Point, only: Only) -> tuple[dict[str, int], int, int | None]:
    """The log whose seq was named with the seq of the end of a unit, the time, and the seq if it is not that."""
    if point.at is not None:
        for id_ in (only.log, only.root):
            if id_ is not None:
                await conversation_row(store, id_)
        return {}, point.at, None
    id_ = only.log or only.root
    if id_ is None or point.seq is None:
        raise ConfigurationError(f"seq {point.seq} is one of which log? Name it with its log or root, or name a time")
    row = await conversation_row(store, id_)
    end, at = await end_of_unit(store, row, point.seq)
    return {id_: end}, at, point.seq if end != point.seq else None


async def end_of_unit(store: Store, row: LogRow, seq: int) -> tuple[int, int]:
    """The last end of a unit up to a seq of a log, and the time of that unit. Raises ConfigurationError when the log has
    no unit of its own that ends there or before."""
    first = row.upto + 1
    if not first <= seq <= row.seq:
        raise ConfigurationError(f"{row.id} has no entry {seq}; {_range(row)}")
    found = await store.entries(row.id, seq - 1, seq + 1)
    within = len(found) > 1 and found[1].unit == found[0].unit
    end = found[0].unit - 1 if within else seq
    if end < first:
        raise ConfigurationError(
            f"{row.id}: seq {seq} lies within the first unit, and a unit counts whole; {_range(row)}"
        )
    (last,) = await store.entries(row.id, end - 1, end)
    return end, decode_head(last.head).at


def _range(row: LogRow) -> str:
    own = f"it has {row.upto + 1} to {row.seq}"
    return f"{own}, and shares those before with {row.forked_from}" if row.forked_from is not None else own


async def _reached(store: Store, at: int, only: Only) -> AsyncIterator[tuple[str, int]]:
    """The logs chosen, in the order in which they began, each with the last seq that was stored by then; none that had not
    begun."""
    sql, parameters = _statement(only)
    after = -1
    while True:
        page = (await store.query(sql, (at, *parameters, after, PAGE_LOGS))).rows
        for _, id_, seq in page:
            if seq is not None:
                yield id_, int(seq)
        if len(page) < PAGE_LOGS:
            return
        after = page[-1][0]


def _statement(only: Only) -> tuple[str, tuple[Any, ...]]:
    if only.log is not None:
        return _LOG, (only.log,)
    if only.root is not None:
        return _ROOT, (only.root, only.root)
    return (_AGENT, (only.agent,)) if only.agent is not None else (_ALL, ())


async def _take_parents(store: Store, row: LogRow, rows: dict[str, LogRow], upto: dict[str, int]) -> None:
    """What a fork shares comes along, up to where it forks."""
    shared = row.upto
    async for above in logs_above(store, row, rows):
        upto[above.id] = max(upto[above.id], shared) if above.id in rows else shared
        rows[above.id] = above
        shared = min(shared, above.upto)


def _check(entries: int, entries_max: int, only: Only) -> None:
    if entries > entries_max:
        how = "name one log, a root or an agent, or" if only == Only() else "choose fewer logs or an earlier point, or"
        raise QueryRefused(
            f"more than {entries_max:,} entries (entries_max) were stored by then in the logs chosen; {how} raise it"
        )
