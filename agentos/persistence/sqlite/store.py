"""The SQLite adapter: one file, one writing connection, and reading connections beside it.

A small batch is written in place on the loop: a hop to a thread costs more than the write. What may take longer (a
large batch, a synced one, a locked file) goes to the store's own thread. Both ways run the code of `writing`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agentos.errors import StoreUnavailable
from agentos.persistence.base import InboxRow, LogRow, Rows, Unit, Verdict, WriterRow
from agentos.persistence.reading import SqlReads
from agentos.persistence.sqlite.file import (
    BUSY_TIMEOUT_MS,
    Durability,
    is_busy,
    open_for_reading,
    open_for_writing,
    open_in_memory,
    patiently,
    store_error,
)
from agentos.persistence.sqlite.querying import Querier
from agentos.persistence.sqlite.reader import Reader
from agentos.persistence.sqlite.writer import Writer
from agentos.persistence.worker import Worker
from agentos.persistence.writer_lock import is_dead
from agentos.settings import Settings

T = TypeVar("T")

IN_MEMORY = ":memory:"
INLINE_BYTES_MAX = 256 * 1024
"""Batches up to about this size are written in place."""

_WRITERS = "SELECT n, incarnation, host, pid, started_at, beat_at, ended_at FROM writers ORDER BY n"
_ENTRY_BYTES, _UNIT_BYTES = 160, 900
"""What an entry and a unit take beside their texts, about."""


class SQLiteStore(SqlReads):
    """A store in one SQLite file; `path` may be IN_MEMORY, and then all is gone with `close`.

    Reads of a file need no `open`: that registers a writer. url is `sqlite:///` and the path as it was given.
    """

    def __init__(
        self,
        path: str = IN_MEMORY,
        *,
        durability: Durability = Durability.NORMAL,
        settings: Settings | None = None,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        inline_bytes_max: int = INLINE_BYTES_MAX,
    ) -> None:
        self.url = f"sqlite:///{path}"
        self.durability = durability
        self._path = None if path == IN_MEMORY else os.path.realpath(path)
        self._settings = settings or Settings()
        self._busy_timeout_ms, self._inline_bytes_max = busy_timeout_ms, inline_bytes_max
        self._closed = False
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._querier: Querier | None = None

    async def open(self, incarnation: str) -> int:
        await self.close()
        worker = Worker(f"agentos store {self._path or IN_MEMORY}")
        opened: list[Writer] = []
        try:
            await worker.submit(lambda: opened.append(self._open(incarnation, worker)))
        except BaseException as error:  # a cancelled opening may have come to its end all the same
            worker.stop(lambda: self._end(opened))
            if isinstance(error, sqlite3.Error):
                raise store_error(self.url, error, self._busy_timeout_ms) from error
            raise
        (self._writer,) = opened
        self._closed = False
        return self._writer.number

    def _open(self, incarnation: str, worker: Worker) -> Writer:
        if self._path is None:
            db = open_in_memory()
        else:
            db = open_for_writing(self.url, self._path, self.durability, self._busy_timeout_ms)
        try:
            return patiently(lambda: Writer(db, self._path, incarnation, worker), self._busy_timeout_ms)
        except OSError as error:
            db.close()
            raise StoreUnavailable(self.url, f"cannot lock {error.filename}: {error.strerror}") from error
        except BaseException:
            db.close()
            raise

    async def close(self) -> None:
        writer, readers = self._take_all()
        try:
            for reader in readers:
                reader.interrupt()
                await reader.close()
        finally:
            if writer is not None:
                ended = writer.worker.submit(lambda: writer.end(self._busy_timeout_ms))
                writer.worker.stop()
                await ended

    def _end(self, writers: list[Writer]) -> None:
        for writer in writers:
            writer.end(self._busy_timeout_ms)

    def abandon(self) -> None:
        """Lets go of the file as a crash would: nothing is marked as ended, and the writer counts as dead."""
        writer, readers = self._take_all()
        for reader in readers:
            reader.abandon()
        if writer is not None:
            writer.abandon()

    def _take_all(self) -> tuple[Writer | None, list[Reader]]:
        """What is open; after this it counts as closed."""
        readers = [self._reader, self._querier.reader if self._querier else None]
        taken = self._writer, [reader for reader in readers if reader is not None]
        self._closed = self._closed or taken != (None, [])
        self._writer = self._reader = self._querier = None
        return taken

    def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        writer = self._opened()
        size = _size_of(units)
        if self._may_write_inline(writer, size):
            try:
                return writer.append(units, size)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise store_error(self.url, error) from error
        return self._write_elsewhere(writer, lambda: writer.append(units, size))

    async def post(self, row: InboxRow) -> bool:
        writer = self._opened()
        return await self._write(writer, lambda: writer.writing.post(row))

    async def claim(self, log: str) -> LogRow | None:
        writer = self._opened()
        return await self._write(writer, lambda: writer.writing.claim(log, writer.number, writer.is_dead))

    async def writers(self) -> list[WriterRow]:
        rows = await self._fetch(_WRITERS)
        own = self._writer.number if self._writer is not None else 0
        return [
            WriterRow(
                n=n,
                incarnation=incarnation,
                host=host,
                pid=pid,
                started_at=started_at,
                beat_at=beat_at,
                ended_at=ended_at,
                alive=n == own or (ended_at is None and self._path is not None and not is_dead(self._path, n)),
            )
            for n, incarnation, host, pid, started_at, beat_at, ended_at in rows
        ]

    async def declare_dead(self, writer: int) -> bool:
        own = self._opened()
        if writer == own.number:
            return False
        return await self._write(own, lambda: own.writing.end(writer, time.time_ns() // 1000))

    def changed(self) -> bool:
        return self._opened().changed()

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        if self._querier is None:
            rows_max, limit_s = self._settings.query_rows_max, self._settings.query_s
            if self._path is None:
                self._querier = Querier(self.url, open_in_memory, rows_max, limit_s, self._copy_into)
            else:
                self._querier = Querier(self.url, self._connect_reading, rows_max, limit_s)
        return await self._querier.run(sql, parameters)

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._path is None:
            return self._opened().db.execute(sql, tuple(parameters)).fetchall()
        if self._reader is None:
            self._reader = Reader(self.url, self._connect_reading)
        return await self._reader.fetch(sql, parameters)

    def _connect_reading(self) -> sqlite3.Connection:
        if self._closed or self._path is None:
            raise StoreUnavailable(self.url, "the store is closed")
        return open_for_reading(self.url, self._path)

    async def _copy_into(self, db: sqlite3.Connection) -> None:
        """What a query in memory looks at: beside the writer's connection there is no other to the same data."""
        self._opened().db.backup(db)

    def _opened(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable(self.url, "the store is closed")
        return self._writer

    def _may_write_inline(self, writer: Writer, size: int = 0) -> bool:
        if self._path is None:
            return True
        free = self.durability is not Durability.FULL and not writer.worker.pending and not writer.overgrown
        return free and size <= self._inline_bytes_max

    async def _write(self, writer: Writer, work: Callable[[], T]) -> T:
        if self._may_write_inline(writer):
            try:
                return work()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise store_error(self.url, error) from error
        return await self._write_elsewhere(writer, work)

    def _write_elsewhere(self, writer: Writer, work: Callable[[], T]) -> asyncio.Future[T]:
        def patient() -> T:
            try:
                return patiently(work, self._busy_timeout_ms)
            except sqlite3.Error as error:
                raise store_error(self.url, error, self._busy_timeout_ms) from error
            finally:
                writer.note_version()

        return writer.worker.submit(patient)


def _size_of(units: Sequence[Unit]) -> int:
    """About how many bytes a batch is."""
    size = _UNIT_BYTES * len(units)
    for unit in units:
        for entry in unit.entries:
            size += _ENTRY_BYTES + len(entry[6])
        for payload in unit.payloads:
            size += len(payload[4])
        for message in unit.messages:
            size += len(message[5])
        for definition in unit.definitions:
            size += len(definition[2])
    return size
