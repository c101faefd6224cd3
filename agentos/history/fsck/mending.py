"""The tables beside one log made anew from its entries, and what nothing commits to removed; entries stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from agentos.events.entry import Head, Registry, decode_head, entry_of
from agentos.events.kinds import role_of
from agentos.history.reading import conversation_row, stored_units
from agentos.history.verify.rows import FoldedRows
from agentos.history.verify.waiting import times_waited_for
from agentos.ids import LogId
from agentos.persistence.base import LogRow, Store, StoredEntry, WakeupRow
from agentos.persistence.mending import LogTables, Mendable

TRIES = 3
"""How often a log that moves on meanwhile is read again."""
PAGE_ROWS = 1_000
_PAYLOADS = (
    "select payloads.seq, payloads.i from payloads join logs using (n) where logs.id = ? and not exists"
    " (select 1 from entries where entries.n = payloads.n and entries.seq = payloads.seq) limit 1000"
)
_MESSAGES = (
    "select messages.seq from messages join logs using (n) where logs.id = ? and messages.seq > ?"
    " order by messages.seq limit ?"
)


class MendableStore(Store, Mendable, Protocol):
    """A store whose tables can be made anew."""


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """What was done beside one log: rows that stand there now, and values that no entry commits to and are gone.

    done is False for a log that moved on each time.
    """

    log: str
    done: bool
    rows: int = 0
    removed: int = 0

    def __str__(self) -> str:
        if not self.done:
            return f"{self.log}: left as it is: somebody writes to it all the time; try again"
        removed = f", and removed {_values(self.removed)} that no entry commits to" if self.removed else ""
        return f"{self.log}: made {self.rows} rows anew from the log{removed}"


async def mend_log(store: MendableStore, log: str, registry: Registry) -> Mended:
    """Makes all tables beside a log anew; the store is open as a writer. Raises StoreError, CodecError."""
    for _ in range(TRIES):
        row = await conversation_row(store, log)
        tables = await tables_of(store, row, registry)
        if await store.mend(log, row.seq, row.digest, tables):
            return Mended(
                log=log, done=True, rows=_count(tables), removed=len(tables.orphans) + len(tables.orphan_messages)
            )
    return Mended(log=log, done=False)


async def tables_of(store: Store, row: LogRow, registry: Registry) -> LogTables:
    """What the entries of a log say should stand beside it, and what stands there without an entry."""
    log = LogId(row.id)
    rows, values = FoldedRows(log), _Values()
    async for unit in stored_units(store, log, upto=row.seq):
        own = row.forked_from is None or unit[0].seq > row.upto
        heads = [decode_head(stored.head) for stored in unit]
        rows.add([entry_of(log, head, {}, registry) for head in heads], own=own)
        for stored, head in zip(unit, heads, strict=True) if own else ():
            values.take(stored, head)
    payloads = [(seq, i) for seq, i in (await store.query(_PAYLOADS, (log,))).rows]
    known = {seq for seq, *_ in values.messages}
    messages = [seq for seq in await _message_seqs(store, log) if seq not in known]
    wakeups, woken = await _waits(store, log, rows)
    return LogTables(
        conversation=next(iter(rows.tables["conversations"].values()), None),
        turns=[*rows.tables["turns"].values()],
        calls=[*rows.tables["calls"].values()],
        components=[(entity, name, body) for entity, name, body in rows.tables["components"].values()],
        messages=values.messages,
        wakeups=wakeups,
        woken=woken,
        orphans=[*values.orphans, *payloads],
        orphan_messages=messages,
    )


class _Values:
    """Of the private values that stand beside entries: the columns of messages, and values that nothing commits to."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, str, int, int]] = []
        self.orphans: list[tuple[int, int]] = []

    def take(self, stored: StoredEntry, head: Head) -> None:
        role = role_of(head.kind, head.data)
        for i, *_ in stored.payloads:
            if i >= len(head.commitments):
                self.orphans.append((stored.seq, i))
            elif i == 0 and role is not None:
                self.messages.append((stored.seq, role, head.turn, head.call))


async def _message_seqs(store: Store, log: str) -> list[int]:
    found: list[int] = []
    while True:
        page = (await store.query(_MESSAGES, (log, found[-1] if found else 0, PAGE_ROWS))).rows
        found += [seq for (seq,) in page]
        if len(page) < PAGE_ROWS:
            return found


async def _waits(store: Store, log: str, rows: FoldedRows) -> tuple[Sequence[WakeupRow], Sequence[WakeupRow]]:
    """The wake-ups that the open turn cannot do without, and those that nothing waits for."""
    known = await store.wakeups(log)
    open_ = rows.folding.open_turn
    if open_ is None:
        return (), known
    turn, config, state = open_
    due = times_waited_for(state.phase, state.retry_at, config.deadline_at)
    wanted = [WakeupRow(log=log, reason=reason, turn=turn, call=0, due_at=at) for reason, at in due.items()]
    return wanted, [wait for wait in known if wait.turn != turn]


def _count(tables: LogTables) -> int:
    rows = (tables.turns, tables.calls, tables.components, tables.messages, tables.wakeups)
    return (tables.conversation is not None) + sum(map(len, rows))


def _values(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"
