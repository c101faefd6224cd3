"""The memory adapter: logs as lists, for tests, trials and benchmarks. It is all gone with the process.

An append checks heads and keeps the units as they are. A query replays what was kept into a private SQLite database,
through the code that writes SQLite files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
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
from agentos.persistence.rows import CONVERSATION, message_payload
from agentos.settings import Settings

if TYPE_CHECKING:
    import sqlite3

    from agentos.persistence.sqlite.querying import Querier
    from agentos.persistence.sqlite.writing import Writing

Operation = Unit | Callable[["Writing"], object]
"""What was done: a unit, or something else, as it is done to a database."""

_OPEN_TURN = CONVERSATION.index("open_turn")
_FED_AT_ONCE = 256


class _Log:
    """One log: its row, and its units in order."""

    __slots__ = ("open_turn", "row", "units")

    def __init__(self, row: LogRow) -> None:
        self.row = row
        self.units: list[Unit] = []
        self.open_turn = False


class _Kept:
    """What all handles on the same data share."""

    def __init__(self) -> None:
        self.logs: dict[str, _Log] = {}
        self.inbox: dict[tuple[str, str], InboxRow | TakenKey] = {}
        self.wakeups: dict[tuple[str, str, int, int], WakeupRow] = {}
        self.definitions: dict[str, tuple[str, str]] = {}
        self.writers: dict[int, WriterRow] = {}
        self.operations: list[Operation] = []


class MemoryStore:
    """A handle on data in memory; `beside` makes it a second one on the same data, as another process would have.

    `close` ends the writer and keeps the data; opening the same handle again makes a new writer.
    """

    def __init__(self, beside: MemoryStore | None = None, *, settings: Settings | None = None) -> None:
        self.url = "memory:"
        self._kept: _Kept = _Kept() if beside is None else beside._kept
        self._settings = settings or Settings()
        self._number = 0
        self._own_operations = 0
        self._seen_operations = 0
        self._querier: Querier | None = None
        self._fed = 0

    async def open(self, incarnation: str) -> int:
        await self.close()
        writers = self._kept.writers
        number = self._number = len(writers) + 1
        writers[number] = WriterRow(
            n=number,
            incarnation=incarnation,
            host="",
            pid=0,
            started_at=0,
            beat_at=None,
            ended_at=None,
            alive=True,
        )
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
        row = self._kept.writers.get(number)
        if row is None or not row.alive:
            return False
        self._kept.writers[number] = msgspec.structs.replace(row, ended_at=0, alive=False)
        self._did(lambda writing: writing.end(number, 0))
        return True

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        self._check_open()
        return [self._append(unit) for unit in units]

    def _append(self, unit: Unit) -> Verdict:
        log = self._kept.logs.get(unit.log)
        if unit.create is not None and log is None:
            log = self._kept.logs[unit.log] = _Log(msgspec.structs.replace(unit.create))
        elif log is None:
            return Verdict.CONFLICT
        else:
            row = log.row
            if row.owner != unit.owner or row.epoch != unit.epoch:
                return Verdict.FENCED
            if row.seq != unit.previous_seq or row.digest != unit.previous or unit.create is not None:
                return Verdict.CONFLICT
        log.row.seq, log.row.digest = unit.seq, unit.digest
        log.units.append(unit)
        if unit.conversation is not None:
            log.open_turn = (unit.conversation[_OPEN_TURN] or 0) > 0
        if unit.posts or unit.taken or unit.woken or unit.wakeups or unit.definitions:
            self._keep_others(unit)
        self._did(unit)
        return Verdict.STORED

    def _keep_others(self, unit: Unit) -> None:
        kept = self._kept
        for digest, kind, body in unit.definitions:
            kept.definitions.setdefault(digest, (kind, body))
        for post in unit.posts:
            kept.inbox.setdefault((post.log, post.key), post)
        for key in unit.taken:
            if isinstance(row := kept.inbox.get((unit.log, key)), InboxRow):
                kept.inbox[unit.log, key] = TakenKey(log=row.log, key=row.key, kind=row.kind, seq=unit.seq)
        for over in unit.woken:
            kept.wakeups.pop((over.log, over.reason, over.turn, over.call), None)
        for due in unit.wakeups:
            kept.wakeups[due.log, due.reason, due.turn, due.call] = due

    async def log(self, log: str) -> LogRow | None:
        found = self._kept.logs.get(log)
        return msgspec.structs.replace(found.row) if found else None

    async def logs(self, kind: str | None = None) -> list[LogRow]:
        rows = (log.row for log in self._kept.logs.values())
        return [msgspec.structs.replace(row) for row in rows if kind is None or row.kind == kind]

    async def claim(self, log: str) -> LogRow | None:
        self._check_open()
        found = self._kept.logs.get(log)
        if found is None:
            return None
        row, number = found.row, self._number
        if row.owner != number and row.owner in self._kept.writers and self._kept.writers[row.owner].alive:
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
        line: list[tuple[_Log, int]] = []
        name: str | None = log
        end = 2**63 - 1
        while name is not None and name in self._kept.logs:
            found = self._kept.logs[name]
            line.append((found, end))
            name, end = found.row.forked_from, min(end, found.row.upto)
        for found, end in reversed(line):
            for unit in found.units:
                if unit.previous_seq < end:
                    yield unit, end

    async def open_logs(self) -> list[str]:
        waiting = {key[0] for key, row in self._kept.inbox.items() if isinstance(row, InboxRow)}
        return sorted(waiting.union(name for name, log in self._kept.logs.items() if log.open_turn))

    async def definition(self, digest: str) -> tuple[str, str] | None:
        return self._kept.definitions.get(digest)

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        known = self._kept.definitions
        return [(digest, *known[digest]) for digest in sorted(digest for digest in known if digest > after)[:limit]]

    async def post(self, row: InboxRow) -> bool:
        self._check_open()
        if (row.log, row.key) in self._kept.inbox:
            return False
        self._kept.inbox[row.log, row.key] = row
        self._did(lambda writing: writing.post(row))
        return True

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        rows = [row for row in self._kept.inbox.values() if isinstance(row, InboxRow)]
        return rows if log is None else [row for row in rows if row.log == log]

    async def inbox_seq(self, log: str, key: str) -> int | None:
        found = self._kept.inbox.get((log, key))
        return found.seq if isinstance(found, TakenKey) else None if found is None else 0

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        known = self._kept.inbox
        rows = (known[key] for key in sorted(key for key in known if key > after))
        return [row for row in rows if isinstance(row, TakenKey)][:limit]

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        rows = (row for row in self._kept.wakeups.values() if log is None or row.log == log)
        return sorted(rows, key=lambda row: (row.due_at, row.log, row.reason, row.turn, row.call))

    async def writers(self) -> list[WriterRow]:
        return list(self._kept.writers.values())

    async def declare_dead(self, writer: int) -> bool:
        self._check_open()
        return writer != self._number and self._end(writer)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        if self._querier is None:
            self._querier = self._make_querier()
        return await self._querier.run(sql, parameters)

    def _make_querier(self) -> Querier:
        from agentos.persistence.sqlite.file import open_in_memory
        from agentos.persistence.sqlite.querying import Querier

        settings = self._settings
        return Querier(self.url, open_in_memory, settings.query_rows_max, settings.query_s, self._feed)

    async def _feed(self, db: sqlite3.Connection) -> None:
        """Does to the private database what was done since the last query, a little at a time."""
        from agentos.persistence.sqlite.writing import Writing

        writing = Writing(db)
        operations = self._kept.operations
        while self._fed < len(operations):
            part = operations[self._fed : self._fed + _FED_AT_ONCE]
            _do_all(writing, part)
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


def _do_all(writing: Writing, operations: Sequence[Operation]) -> None:
    """Neighbouring units go in as one batch."""
    batch: list[Unit] = []
    for operation in operations:
        if isinstance(operation, Unit):
            batch.append(operation)
            continue
        writing.append(batch)
        batch = []
        operation(writing)
    writing.append(batch)


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
