"""The memory adapter: logs as lists, for tests, trials and benchmarks. It is all gone with the process.

An append checks heads and keeps the units as they are. A query replays what was kept into a private SQLite database,
through the code that writes SQLite files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agentos.errors import StoreUnavailable
from agentos.persistence.base import (
    InboxRow,
    LogRow,
    Rows,
    StoredEntry,
    TakenKey,
    Unit,
    Verdict,
    WakeupRow,
    WriterRow,
)
from agentos.persistence.memory_state import MemoryLog, MemoryState, Operation, Posting
from agentos.persistence.projection import in_batches, make_querier
from agentos.persistence.rows import message_payload
from agentos.persistence.state import refusal
from agentos.persistence.together import fit_together, none_of
from agentos.settings import Settings

if TYPE_CHECKING:
    import sqlite3

    from agentos.persistence.sqlite.querying import Querier

_FED_AT_ONCE = 256


class MemoryStore:
    """A handle on data in memory; `beside` makes it a second one on the same data, as another process would have.

    `close` ends the writer and keeps the data; opening the same handle again makes a new writer.
    """

    def __init__(self, beside: MemoryStore | None = None, *, settings: Settings | None = None) -> None:
        self.url = "memory:"
        self._kept: MemoryState = MemoryState() if beside is None else beside._kept
        self._settings = settings or Settings()
        self._number = 0
        self._own_operations = 0
        self._seen_operations = 0
        self._querier: Querier | None = None
        self._fed = 0

    async def open(self, incarnation: str) -> int:
        await self.close()
        number = self._number = len(self._kept.writers) + 1
        self._kept.begin(number, incarnation, "", 0, 0)
        self._did(lambda writing: writing.register(incarnation, ("", 0, 0), _nothing, _nobody))
        self._seen_operations = self._foreign_operations()
        return self._number

    async def close(self) -> None:
        self.abandon()
        querier, self._querier, self._fed = self._querier, None, 0
        if querier is not None:
            await querier.reader.close()

    def abandon(self) -> None:
        """Ends the writer as a crash would."""
        number, self._number = self._number, 0
        self._end(number)

    def _end(self, number: int) -> bool:
        ended = self._kept.end(number, 0)
        if ended:
            self._did(lambda writing: writing.end(number, 0))
        return ended

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        self._check_open()
        return [self._append(unit) for unit in units]

    def append_together(self, units: Sequence[Unit]) -> list[Verdict]:
        """As `Together.append_together`."""
        self._check_open()
        moved: dict[str, LogRow] = {}
        verdicts = [self._verdict(unit, moved) for unit in units]
        return self.append(units) if fit_together(verdicts) else none_of(verdicts)

    def _verdict(self, unit: Unit, moved: dict[str, LogRow]) -> Verdict:
        """Of a unit behind those that were judged before it, whose heads are in moved."""
        log = self._kept.logs.get(unit.log)
        refused = refusal(unit, moved.get(unit.log) or (None if log is None else log.row))
        if refused is None:
            row = LogRow(id=unit.log, kind="", owner=unit.owner, epoch=unit.epoch, seq=unit.seq, digest=unit.digest)
            moved[unit.log] = row
        return refused or Verdict.STORED

    def _append(self, unit: Unit) -> Verdict:
        kept = self._kept
        log = kept.logs.get(unit.log)
        refused = refusal(unit, None if log is None else log.row)
        if refused is not None:
            return refused
        if log is None:
            assert unit.create is not None
            log = kept.logs[unit.log] = MemoryLog(msgspec.structs.replace(unit.create))
        log.add(unit, len(kept.operations))
        if unit.posts or unit.taken or unit.woken or unit.wakeups or unit.definitions:
            kept.keep(unit)
        kept.operations.append(unit)
        self._own_operations += 1
        if unit.erases:
            kept.erase(unit)
        return Verdict.STORED

    async def log(self, log: str) -> LogRow | None:
        found = self._kept.logs.get(log)
        return msgspec.structs.replace(found.row) if found else None

    async def logs(self, kind: str | None = None) -> list[LogRow]:
        return self._kept.log_rows(kind)

    async def claim(self, log: str) -> LogRow | None:
        self._check_open()
        found = self._kept.logs.get(log)
        if found is None:
            return None
        row, number = found.row, self._number
        if not self._kept.may_claim(row, number, _nobody):
            return None
        row.owner, row.epoch = number, row.epoch + 1
        self._did(lambda writing: writing.claim(log, number, _anybody))
        return msgspec.structs.replace(row)

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        found = [
            stored
            for unit, end in self._units(log)
            if unit.seq > after
            for stored in _stored(unit)
            if after < stored.seq <= end and (upto is None or stored.seq <= upto)
            if kinds is None or stored.kind in kinds
        ]
        return found if limit is None else found[:limit]

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        for unit, end in reversed(list(self._units(log))):
            for seq, _, kind, *_ in reversed(unit.entries):
                if kind == "snapshot" and seq <= end and (upto is None or seq <= upto):
                    return seq
        return 0

    def _units(self, log: str) -> Iterator[tuple[Unit, int]]:
        """The units of a log in order, each with the last seq that counts; a fork begins with those it shares."""
        for found, end in self._kept.line(log, self.url):
            for unit in map(self._kept.unit_at, found.units):
                if unit.previous_seq < end:
                    yield unit, end

    async def open_logs(self) -> list[str]:
        return self._kept.open_logs()

    async def definition(self, digest: str) -> tuple[str, str] | None:
        return self._kept.definitions.get(digest)

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        known = self._kept.definitions
        return [(digest, *known[digest]) for digest in sorted(digest for digest in known if digest > after)[:limit]]

    async def post(self, row: InboxRow) -> bool:
        self._check_open()
        if self._kept.knows(row.log, row.key):
            return False
        self._kept.post(row)
        self._kept.posted(row.log)
        self._did(Posting(row))
        return True

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        return self._kept.waiting(log)

    async def inbox_seq(self, log: str, key: str) -> int | None:
        return self._kept.inbox_seq(log, key)

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        return self._kept.taken(after, limit)

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        return self._kept.waking(log)

    async def writers(self) -> list[WriterRow]:
        return list(self._kept.writers.values())

    async def settle_erased(self) -> bool:
        """What was erased is in no object of the store any more."""
        self._check_open()
        return True

    async def compact(self) -> bool:
        return await self.settle_erased()

    async def damages(self) -> Sequence[object]:
        return ()

    async def declare_dead(self, writer: int) -> bool:
        self._check_open()
        return writer != self._number and self._end(writer)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        if self._querier is None:
            self._querier = make_querier(self.url, self._settings, self._feed)
        return await self._querier.run(sql, parameters)

    async def _feed(self, db: sqlite3.Connection) -> None:
        """Does to the private database what was done since the last query, a little at a time."""
        from agentos.persistence.sqlite.writing import Writing

        writing = Writing(db)
        operations = self._kept.operations
        while self._fed < len(operations):
            part = operations[self._fed : self._fed + _FED_AT_ONCE]
            for step in in_batches(part):
                writing.append(step) if isinstance(step, list) else step(writing)
            self._fed += len(part)
            await asyncio.sleep(0)

    def changed(self) -> bool:
        foreign = self._foreign_operations()
        changed, self._seen_operations = foreign != self._seen_operations, foreign
        return changed

    def _did(self, operation: Operation) -> None:
        self._kept.operations.append(operation)
        self._own_operations += 1

    def _foreign_operations(self) -> int:
        return len(self._kept.operations) - self._own_operations

    def _check_open(self) -> None:
        if not self._number:
            raise StoreUnavailable(self.url, "the store is closed")


def _stored(unit: Unit) -> Iterator[StoredEntry]:
    payloads: dict[int, list[tuple[int, str, bytes | None, str | None]]] = {}
    for seq, role, _, _, salt, text in unit.messages:
        payloads.setdefault(seq, []).append((0, message_payload(role), salt, text))
    for seq, i, name, salt, body in unit.payloads:
        payloads.setdefault(seq, []).append((i, name, salt, body))
    for seq, start, kind, _, _, _, head, digest in unit.entries:
        yield StoredEntry(seq=seq, unit=start, kind=kind, head=head, digest=digest, payloads=payloads.get(seq, []))


def _nothing(_: int) -> None:
    """No lock is needed where nobody else can come."""


def _nobody(_: int) -> bool:
    return False


def _anybody(_: int) -> bool:
    return True
