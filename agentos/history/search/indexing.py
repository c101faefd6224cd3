"""Brings an index up to date with the log: logs that moved are read from where they were, others not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agentos.history.reading import PAGE_ENTRIES
from agentos.history.search.moved import moved_since
from agentos.history.search.texts import KINDS, introduced, texts_of
from agentos.ids import Kind
from agentos.persistence.base import LogRow, Store, StoredEntry
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_rows import IndexedLog, IndexedText, Portion

BATCH_TEXTS = 2_000
BATCH_PORTIONS = 1_000
BATCH_CHARS = 4_000_000
"""What one transaction on the index takes, about: so long others wait, and so much is held in memory."""


class Indexing(NamedTuple):
    """How far it is: logs of those that moved, and texts."""

    logs: int
    all_logs: int
    texts: int


Tell = Callable[[Indexing], None]


async def bring_up_to_date(store: Store, index: SearchIndex, tell: Tell | None = None) -> None:
    """What is erased, gone or not what it was leaves the index; what was said since comes in. Raises StoreError."""
    moved, standing = await moved_since(store, index)
    if moved is None:
        rows: dict[str, LogRow] = {row.id: row for row in await store.logs(Kind.CONVERSATION.value)}
        await _compare(store, index, rows, await asyncio.to_thread(index.logs), tell)
    elif moved:
        await _compare(store, index, moved, await asyncio.to_thread(index.logs, moved), tell)
    if standing != await asyncio.to_thread(index.standing):
        await asyncio.to_thread(index.stand, standing)


async def _compare(
    store: Store, index: SearchIndex, rows: Mapping[str, LogRow], known: dict[str, IndexedLog], tell: Tell | None
) -> None:
    """rows are conversations as the store has them, parents before forks; known as the index has these, and others only
    when they are gone."""
    erased = [log for log, row in known.items() if not row.erased and log in rows and rows[log].erased_at is not None]
    if erased:
        await asyncio.to_thread(index.forget, erased)
    other = [log for log, row in known.items() if await _is_other(store, log, row, rows.get(log))]
    if other:
        await asyncio.to_thread(index.drop, other)
    for log in other:
        del known[log]
    moved = [row for log, row in rows.items() if row.erased_at is None and _is_behind(row, known.get(log))]
    if moved:
        await _Reader(store, index, rows, tell, len(moved)).read(moved, known)


def _is_behind(row: LogRow, known: IndexedLog | None) -> bool:
    return row.seq > _beginning(row) and (known is None or known.seq < row.seq)


def _beginning(row: LogRow) -> int:
    """The entries that a fork shares with its parent are searched as the parent's."""
    return row.upto if row.forked_from is not None else 0


async def _is_other(store: Store, log: str, known: IndexedLog, row: LogRow | None) -> bool:
    """Whether the log is gone, or is not the one that was indexed: it was put back, or made anew."""
    if row is None or row.seq < known.seq:
        return True
    if known.erased:
        return row.erased_at is None
    if row.seq == known.seq:
        return row.digest != known.digest
    last = await store.entries(log, known.seq - 1, known.seq)
    return not last or last[-1].digest != known.digest


class _Reader:
    """Reads what logs have beyond the index, and adds it in batches."""

    def __init__(
        self, store: Store, index: SearchIndex, rows: Mapping[str, LogRow], tell: Tell | None, all_logs: int
    ) -> None:
        self._store, self._index, self._rows, self._tell, self._all_logs = store, index, rows, tell, all_logs
        self._portions: list[Portion] = []
        self._tools: dict[tuple[str, int], str] = {}
        self._waiting = self._chars = self._texts = 0

    async def read(self, logs: Sequence[LogRow], known: Mapping[str, IndexedLog]) -> None:
        for done, row in enumerate(logs):
            indexed = known.get(row.id)
            await self._log(row, indexed.seq if indexed is not None else 0, done)
        await self._add(len(logs))

    async def _log(self, row: LogRow, after: int, done: int) -> None:
        last = max(after, _beginning(row))
        while last < row.seq:
            page = await self._store.entries(row.id, last, row.seq, PAGE_ENTRIES, KINDS)
            whole = len(page) < PAGE_ENTRIES
            seq, digest = (row.seq, row.digest) if whole else (page[-1].seq, page[-1].digest)
            texts = self._read(row.id, page)
            calls = [call for stored in page if (call := introduced(stored)) is not None]
            self._portions.append(Portion(log=row.id, after=after, seq=seq, digest=digest, texts=texts, calls=calls))
            after = last = seq
            if self._is_full():
                await self._add(done)

    def _read(self, log: str, page: Sequence[StoredEntry]) -> list[IndexedText]:
        texts: list[IndexedText] = []
        for stored in page:
            call = introduced(stored)
            if call is not None:
                self._tools[log, call[0]] = call[1]
            texts += texts_of(stored, lambda seq: self._tool(log, seq))
        self._waiting += len(texts)
        self._chars += sum(len(text.text) for text in texts)
        return texts

    def _tool(self, log: str | None, call: int) -> str | None:
        """The tool of a call, which in a fork may be one that the parent began."""
        while call and log is not None:
            found = self._tools.get((log, call)) or self._index.tool(log, call)
            if found is not None:
                return found
            row = self._rows.get(log)
            log = row.forked_from if row is not None and call <= row.upto else None
        return None

    def _is_full(self) -> bool:
        return self._waiting >= BATCH_TEXTS or self._chars >= BATCH_CHARS or len(self._portions) >= BATCH_PORTIONS

    async def _add(self, done: int) -> None:
        await asyncio.to_thread(self._index.add, self._portions)
        self._texts += self._waiting
        self._portions, self._tools, self._waiting, self._chars = [], {}, 0, 0
        if self._tell is not None:
            self._tell(Indexing(done, self._all_logs, self._texts))
