"""The SQLite adapter: one file, one writing connection, and reading connections beside it.

A small batch is written in place on the loop: a hop to a thread costs more than the write. What may take longer (a
large batch, a synced one, a locked file, a write-ahead log to be begun anew) goes to the store's own thread, and so does
all that comes while the thread has jobs. Both ways run the code of `writing`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from agentos.errors import StoreBusy, StoreError, StoreUnavailable
from agentos.persistence.base import Durability, InboxRow, LogRow, Point, Rows, Unit, Verdict, WriterRow, no_point
from agentos.persistence.mending import LogTables
from agentos.persistence.reading import SqlReads
from agentos.persistence.shape import Misfit
from agentos.persistence.sizes import size_of
from agentos.persistence.sqlite.file import (
    is_busy,
    open_for_reading,
    open_for_writing,
    open_in_memory,
    patiently,
    store_error,
)
from agentos.persistence.sqlite.guard import FileGuard, FrozenGuard, Guard, wal_bytes
from agentos.persistence.sqlite.living import WRITERS, writer_rows
from agentos.persistence.sqlite.querying import Querier
from agentos.persistence.sqlite.reader import Reader
from agentos.persistence.sqlite.shape import misfits_of
from agentos.persistence.sqlite.writer import Files, Writer
from agentos.persistence.worker import Worker
from agentos.persistence.writer_lock import has_living_writer
from agentos.settings import Settings

T = TypeVar("T")

IN_MEMORY = ":memory:"
SETTLE_AGAIN_S = 0.02
"""How soon a log that readers need is looked at again."""


class SQLiteStore(SqlReads):
    """A store in one SQLite file; `path` may be IN_MEMORY, and then all is gone with `close`.

    Reads of a file need no `open`: that registers a writer. url is `sqlite:///` and the path as it was given. The
    limits are those of `Settings`: busy_timeout_ms, inline_bytes_max, writer_queue_max, wal_copy_bytes,
    wal_warn_bytes, query_rows_max, query_bytes_max and query_s. Points are "begin", "exec", "commit", "checkpoint".
    """

    def __init__(
        self,
        path: str = IN_MEMORY,
        *,
        durability: Durability = Durability.NORMAL,
        settings: Settings | None = None,
        point: Point = no_point,
    ) -> None:
        self.url = f"sqlite:///{path}"
        self.durability = durability
        self._path = None if path == IN_MEMORY else os.path.realpath(path)
        self._settings = settings or Settings()
        self._busy_timeout_ms = self._settings.busy_timeout_ms
        self._point = point
        self._closed = False
        self._guard: Guard | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._querier: Querier | None = None

    async def open(self, incarnation: str) -> int:
        await self.close()
        worker = Worker(f"agentos store {self._path or IN_MEMORY}", self._settings.writer_queue_max)
        opened: list[Writer] = []
        try:
            await worker.submit(lambda: opened.append(self._open(incarnation, worker)))
        except BaseException as error:  # a cancelled opening may have come to its end all the same
            worker.stop(lambda: self._end(opened))
            if isinstance(error, sqlite3.Error):
                raise self._explain(error) from error
            raise
        (self._writer,) = opened
        self._guard = self._writer.files.guard if self._writer.files is not None else None
        self._closed = False
        return self._writer.number

    def _open(self, incarnation: str, worker: Worker) -> Writer:
        if self._path is None:
            return Writer(open_in_memory(), None, incarnation, worker, self._point)
        was_left = wal_bytes(self._path) > 0 and not has_living_writer(self._path)
        db = open_for_writing(self.url, self._path, self.durability, self._settings)
        try:
            files = Files(self.url, self._path, self._settings, self._point)
            return patiently(
                lambda: Writer(db, files, incarnation, worker, self._point, was_left=was_left), self._busy_timeout_ms
            )
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
        self._writer = self._reader = self._querier = self._guard = None
        return taken

    def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        """As the protocol says; StoreBusy also when writer_queue_max jobs wait for the thread: it cannot wait itself."""
        writer = self._opened()
        size = size_of(units)
        if self._may_write_inline(writer, size, units):
            try:
                return writer.append(units, size)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._explain(error) from error
        if writer.worker.full:
            limit = self._settings.writer_queue_max
            raise StoreBusy(self.url, f"{limit} jobs wait for its thread (writer_queue_max); append again later")
        return writer.worker.submit(self._patient(writer, lambda: writer.append(units, size)))

    def append_together(self, units: Sequence[Unit]) -> asyncio.Future[list[Verdict]]:
        """As `Together.append_together`, on the thread."""
        writer = self._opened()
        if writer.worker.full:
            limit = self._settings.writer_queue_max
            raise StoreBusy(self.url, f"{limit} jobs wait for its thread (writer_queue_max); append again later")
        size = size_of(units)
        return writer.worker.submit(self._patient(writer, lambda: writer.append(units, size, together=True)))

    async def post(self, row: InboxRow) -> bool:
        writer = self._opened()
        return await self._write(writer, lambda: writer.writing.post(row))

    async def claim(self, log: str) -> LogRow | None:
        writer = self._opened()
        return await self._write(writer, lambda: writer.writing.claim(log, writer.number, writer.is_dead))

    async def mend(self, log: str, seq: int, digest: bytes, tables: LogTables) -> bool:
        """As `Mendable.mend`."""
        writer = self._opened()
        return await self._write(writer, lambda: writer.writing.mend(log, seq, digest, tables))

    async def writers(self) -> list[WriterRow]:
        own = self._writer.number if self._writer is not None else 0
        return writer_rows(await self._fetch(WRITERS), own, self._path)

    async def declare_dead(self, writer: int) -> bool:
        own = self._opened()
        if writer == own.number:
            return False
        return await self._write(own, lambda: own.writing.end(writer, time.time_ns() // 1000))

    def changed(self) -> bool:
        return self._opened().changed()

    async def settle_erased(self) -> bool:
        """Waits for readers up to busy_timeout_ms. True when the write-ahead log is copied and empty: what was erased
        is zeroed in the file then."""
        writer = self._opened()
        deadline = time.monotonic() + self._busy_timeout_ms / 1000
        while not await self._elsewhere(writer, writer.settle):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(SETTLE_AGAIN_S)
        return True

    async def compact(self) -> bool:
        writer = self._opened()
        await self._elsewhere(writer, writer.compact)
        return await self.settle_erased()

    async def misfits(self, *, rows: bool = True) -> list[Misfit]:
        """As `Shaped.misfits`, on a connection of its own: to look at all pages takes longer than other reads may wait."""
        if self._path is None:
            return await misfits_of(self._fetch, rows=rows)
        reader = Reader(self.url, self._connect_reading, self._explain)
        try:
            return await misfits_of(reader.fetch, rows=rows)
        finally:
            reader.interrupt()
            await reader.close()

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        if self._querier is None:
            self._querier = self._make_querier()
        querier = self._querier
        answer = await querier.run(sql, parameters)
        await self._check_read(querier.reader)
        return answer

    def _make_querier(self) -> Querier:
        connect, before = (open_in_memory, self._copy_into) if self._path is None else (self._connect_reading, None)
        limits = self._settings.query_rows_max, self._settings.query_s
        bytes_max = self._settings.query_bytes_max
        return Querier(self.url, connect, *limits, before, bytes_max=bytes_max, explain=self._explain)

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            self._point("exec")
            if self._path is None:
                return self._opened().db.execute(sql, tuple(parameters)).fetchall()
        except sqlite3.Error as error:
            raise self._explain(error) from error
        if self._reader is None:
            self._reader = Reader(self.url, self._connect_reading, self._explain)
        reader = self._reader
        rows = await reader.fetch(sql, parameters)
        await self._check_read(reader)
        return rows

    def _connect_reading(self) -> sqlite3.Connection:
        """On a reader's thread. All connections are to be on the same file."""
        if self._closed or self._path is None:
            raise StoreUnavailable(self.url, "the store is closed")
        db, locks = open_for_reading(self.url, self._path, self._busy_timeout_ms)
        try:
            if self._guard is None:
                self._guard = FileGuard(self.url, self._path) if locks else FrozenGuard(self.url, self._path)
            self._guard.check()
        except BaseException:
            db.close()
            raise
        return db

    async def _check_read(self, reader: Reader) -> None:
        """Raises StoreError when what was read came out of a file that is no longer the store's."""
        guard = self._guard
        if guard is not None:
            _, is_whole = guard.check()
            if not is_whole:
                ((pages,),) = await reader.fetch("PRAGMA page_count")
                guard.judge_smaller(pages)

    async def _copy_into(self, db: sqlite3.Connection) -> None:
        """What a query in memory looks at: beside the writer's connection there is no other to the same data."""
        self._opened().db.backup(db)

    def _explain(self, error: sqlite3.Error) -> StoreError:
        """What SQLite's error comes from: what was done to the file, or what the error says."""
        try:
            if self._guard is not None and not self._guard.check()[1]:
                self._guard.judge_smaller(None)
        except StoreError as found:
            return found
        return store_error(self.url, error, self._busy_timeout_ms, self._path)

    def _opened(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable(self.url, "the store is closed")
        return self._writer

    def _may_write_inline(self, writer: Writer, size: int = 0, units: Sequence[Unit] = ()) -> bool:
        if self._path is None:
            return True
        if any(unit.erases for unit in units):
            return False  # it takes as long as the log is
        free = self.durability is not Durability.FULL and not writer.worker.pending and not writer.overgrown
        return free and size <= self._settings.inline_bytes_max

    async def _write(self, writer: Writer, work: Callable[[], T]) -> T:
        if self._may_write_inline(writer):
            try:
                return work()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._explain(error) from error
        return await self._elsewhere(writer, work)

    def _elsewhere(self, writer: Writer, work: Callable[[], T]) -> Awaitable[T]:
        return writer.worker.submit_in_turn(self._patient(writer, work), lambda: self._check_is(writer))

    def _patient(self, writer: Writer, work: Callable[[], T]) -> Callable[[], T]:
        """The work as the thread does it."""

        def patient() -> T:
            try:
                return patiently(work, self._busy_timeout_ms)
            except sqlite3.Error as error:
                raise self._explain(error) from error
            finally:
                writer.note_version()

        return patient

    def _check_is(self, writer: Writer) -> None:
        if self._writer is not writer:
            raise StoreUnavailable(self.url, "the store was closed")
