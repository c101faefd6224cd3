"""What a copy reads: a source as it was at one moment, and the units of a log once they were found to be in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agentos.errors import StoreDamaged
from agentos.events.entry import seed_digest
from agentos.history.copy.rebuilding import NOBODY
from agentos.history.reading import stored_units
from agentos.history.report import Finder
from agentos.history.verify.chain import Chain
from agentos.persistence.base import InboxRow, LogRow, Store, StoredEntry, TakenKey, WakeupRow, WriterRow
from agentos.persistence.sizes import size_of_entry

HELD_BYTES = 4 * 1024 * 1024
"""A log of so many bytes is read once, a longer one twice: to be checked, and then to be copied."""
PAGE_KEYS = 1_000
FEW_KEYS = 16
"""How many keys of a log are asked for first: most logs have none."""


class Moment(NamedTuple):
    """What a source held: logs by id, wake-ups by log, and the inbox. still: nobody wrote while it was read."""

    rows: Mapping[str, LogRow]
    wakeups: Mapping[str, Sequence[WakeupRow]]
    inbox: Sequence[InboxRow]
    still: bool


class CopySource:
    """A store that is copied. It is only read."""

    def __init__(self, store: Store) -> None:
        self.store, self.url = store, store.url

    async def look(self) -> Moment:
        """Heads are looked at before and after, so that what waits is known to belong to them."""
        rows: dict[str, LogRow] = {row.id: row for row in await self.store.logs()}
        wakeups: dict[str, list[WakeupRow]] = {}
        for wakeup in await self.store.wakeups():
            wakeups.setdefault(wakeup.log, []).append(wakeup)
        inbox = await self.store.inbox()
        after = await self.store.logs()
        still = len(after) == len(rows) and all(row.id in rows and rows[row.id].seq == row.seq for row in after)
        return Moment(rows, wakeups, inbox, still)

    async def beginning(self, row: LogRow) -> LogRow:
        """The row of a log, of nobody, before the first entry of its own: at what it shares with the log it forks from."""
        if row.forked_from is None:
            return msgspec.structs.replace(row, owner=NOBODY, seq=0, digest=seed_digest(row.id))
        last = await self.entry(row.id, row.upto)
        if last is None:
            raise self.damaged(row.id, row.upto, "the entry that it forks from is not there")
        return msgspec.structs.replace(row, owner=NOBODY, seq=row.upto, digest=last.digest)

    async def checked(self, row: LogRow, before: LogRow) -> AsyncIterator[list[StoredEntry]]:
        """The units of a log behind a head, once all of them were found to be in order. Raises StoreDamaged first."""
        finder = Finder(row.id)
        chain = Chain(before.seq, before.digest, finder)
        held: list[list[StoredEntry]] = []
        size = 0
        async for unit in stored_units(self.store, row.id, before.seq, row.seq):
            chain.add(unit, {})
            chain.messages.clear()
            self._check(finder)
            size += sum(map(size_of_entry, unit))
            if size <= HELD_BYTES:
                held.append(unit)
        chain.end(row.seq, row.digest)
        self._check(finder)
        for unit in held:
            yield unit
        after = held[-1][-1].seq if held else before.seq
        if after < row.seq:
            async for unit in stored_units(self.store, row.id, after, row.seq):
                yield unit

    def _check(self, finder: Finder) -> None:
        for difference in finder.found:
            raise StoreDamaged(self.url, str(difference))

    async def keys(self, log: str) -> dict[int, list[TakenKey]]:
        """The remembered keys of a log, by the seq of the unit that took them."""
        found: dict[int, list[TakenKey]] = {}
        after, limit = "", FEW_KEYS
        while True:
            page = [row for row in await self.store.taken((log, after), limit) if row.log == log]
            for row in page:
                found.setdefault(row.seq, []).append(row)
            if len(page) < limit:
                return found
            after, limit = page[-1].key, PAGE_KEYS

    async def entry(self, log: str, seq: int) -> StoredEntry | None:
        for stored in await self.store.entries(log, seq - 1, seq):
            return stored
        return None

    async def alive(self) -> list[WriterRow]:
        return [row for row in await self.store.writers() if row.alive]

    def damaged(self, log: str, seq: int, reason: str) -> StoreDamaged:
        return StoreDamaged(self.url, f"{log} seq {seq}: {reason}")


def parents_first(rows: Mapping[str, LogRow], url: str) -> Iterable[LogRow]:
    """The logs in their order, but each that others fork from before those. Raises StoreDamaged for one that is missing."""
    given: set[str] = set()
    for row in rows.values():
        line = [row]
        while line[-1].forked_from is not None and line[-1].id not in given:
            parent = rows.get(line[-1].forked_from)
            if parent is None or parent in line:
                raise StoreDamaged(url, f"{line[-1].id} forks from {line[-1].forked_from}, which is not there")
            line.append(parent)
        for ancestor in reversed(line):
            if ancestor.id not in given:
                given.add(ancestor.id)
                yield ancestor
