"""The file adapter: a folder of JSON lines, which are the commit record, and in memory what they come to.

An append takes the lock of the folder, reads what others wrote since, checks the heads, writes its lines at once and
syncs them. Where each unit stands is kept; the units themselves are read from the files when they are asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentos.errors import StoreBusy, StoreError, StoreUnavailable
from agentos.persistence.base import Durability, InboxRow, LogRow, Point, Unit, Verdict, no_point
from agentos.persistence.file.folder import Folder
from agentos.persistence.file.image import Image
from agentos.persistence.file.lock import FolderLock
from agentos.persistence.file.overwriting import Overwriting
from agentos.persistence.file.reading import FileReads
from agentos.persistence.file.segments import SEGMENT_BYTES
from agentos.persistence.file.tail import Tail
from agentos.persistence.file.writer import Writer
from agentos.persistence.sizes import size_of
from agentos.persistence.worker import Worker
from agentos.settings import Settings

_log = logging.getLogger(__name__)

T = TypeVar("T")

SYNC_S = 1.0
"""With `normal`, how long what was acknowledged may wait until it is synced."""


class FileStore(FileReads):
    """A store in one folder. url is `file:` and the folder as it was given.

    Reads need no `open`, which registers a writer. durability says what an acknowledged unit survives: `full` syncs
    before the verdict; `normal` has handed it to the system by then, and syncs within SYNC_S and at `close`; `relaxed`
    never syncs.
    """

    def __init__(
        self,
        folder: str,
        *,
        durability: Durability = Durability.FULL,
        settings: Settings | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        point: Point = no_point,
    ) -> None:
        self.url = f"file:{folder}"
        self.durability = durability
        super().__init__(Folder(self.url, os.path.realpath(folder)), settings or Settings())
        self._segment_bytes, self._point = segment_bytes, point
        self._writer: Writer | None = None
        self._syncing: asyncio.TimerHandle | None = None
        self._seen = 0

    async def open(self, incarnation: str) -> int:
        await self.close()
        self._closed = False
        worker = self._own_worker()
        opened: list[tuple[Image, FolderLock, Writer]] = []
        try:
            await worker.submit(lambda: opened.append(self._open(incarnation)))
        except BaseException:  # a cancelled opening may have come to its end all the same
            self._worker = None
            worker.stop(lambda: self._end_all(opened))
            raise
        ((self._image, self._lock, self._writer),) = opened
        self._number = self._writer.number
        self._seen = self._foreign()
        return self._number

    def _open(self, incarnation: str) -> tuple[Image, FolderLock, Writer]:
        limit_ms = self._settings.busy_timeout_ms
        identity = self._folder.make(limit_ms, self._point)
        image, lock = Image(self._folder, identity.id), FolderLock(self.url, self._folder.lock)
        tail = Tail(self._folder, self.durability, self._point)
        overwriting = Overwriting(self._folder, self.durability, self._point)
        writer = Writer(self._folder, image, lock, tail, overwriting, self._segment_bytes)
        try:
            writer.register(incarnation, limit_ms)
        except BaseException:
            _let_go(image, lock, writer)
            raise
        return image, lock, writer

    def _end_all(self, opened: Sequence[tuple[Image, FolderLock, Writer]]) -> None:
        for parts in opened:
            self._end(*parts)

    async def close(self) -> None:
        querier, self._querier, self._projection = self._querier, None, None
        worker, writer = self._take_all()
        try:
            if querier is not None:
                querier.reader.interrupt()
                await querier.reader.close()
        finally:
            if worker is not None:
                ended = worker.submit(lambda: self._end(self._image, self._lock, writer))
                worker.stop()
                await ended
                self._image = None

    def abandon(self) -> None:
        """Lets go of the folder as a crash would: nothing is marked as ended, and the writer counts as dead."""
        querier, self._querier, self._projection = self._querier, None, None
        if querier is not None:
            querier.reader.abandon()
        worker, writer = self._take_all()
        image, lock, self._image = self._image, self._lock, None
        self._lock = FolderLock(self.url, self._folder.lock)
        if writer is not None:
            writer.release()
        if worker is not None:
            worker.stop(lambda: _let_go(image, lock, writer))

    def _take_all(self) -> tuple[Worker | None, Writer | None]:
        """What is open; after this it counts as closed."""
        taken = self._worker, self._writer
        self._closed = self._closed or self._worker is not None
        self._worker = self._writer = None
        self._number = 0
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.cancel()
        return taken

    def _end(self, image: Image | None, lock: FolderLock, writer: Writer | None) -> None:
        if writer is not None:
            writer.close(self._settings.busy_timeout_ms)
        _let_go(image, lock, writer)

    def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        writer, worker = self._opened(), self._own_worker()
        if self._may_write_inline(units):
            try:
                verdicts = writer.append(units, 0)
                self._sync_soon()
                return verdicts
            except StoreBusy:
                pass  # another process is at it: the thread waits
        if worker.full:
            raise StoreBusy(self.url, f"{worker.pending} jobs wait for its thread (writer_queue_max)")
        appended = worker.submit(lambda: writer.append(units, self._settings.busy_timeout_ms))
        self._sync_soon()
        return appended

    def append_together(self, units: Sequence[Unit]) -> asyncio.Future[list[Verdict]]:
        """As `Together.append_together`."""
        writer, worker = self._opened(), self._own_worker()
        if worker.full:
            raise StoreBusy(self.url, f"{worker.pending} jobs wait for its thread (writer_queue_max)")
        appended = worker.submit(lambda: writer.append_together(units, self._settings.busy_timeout_ms))
        self._sync_soon()
        return appended

    async def post(self, row: InboxRow) -> bool:
        return await self._write(lambda writer, limit_ms: writer.post(row, limit_ms))

    async def claim(self, log: str) -> LogRow | None:
        return await self._write(lambda writer, limit_ms: writer.claim(log, limit_ms))

    async def declare_dead(self, writer: int) -> bool:
        if writer == self._opened().number:
            return False
        return await self._write(lambda own, limit_ms: own.end(writer, limit_ms))

    async def settle_erased(self) -> bool:
        """As the protocol says; an erasing append tries to overwrite what it erased before it answers."""
        return await self._write(lambda writer, limit_ms: writer.settle(limit_ms))

    async def compact(self) -> bool:
        """Nothing is left in the files that they no longer say."""
        return await self.settle_erased()

    def changed(self) -> bool:
        self._opened()
        foreign = self._foreign()
        changed, self._seen = foreign != self._seen, foreign
        return changed

    def _foreign(self) -> int:
        """How many bytes others have written, as far as this is known; while the thread is at work, it reads them."""
        image = self._image
        assert image is not None
        if not self._is_idle():
            return max(self._seen, image.foreign)
        try:
            return image.foreign + image.bytes_ahead()
        except (StoreError, OSError):
            return -1  # the next read tells what became of the file

    async def _write(self, work: Callable[[Writer, int], T]) -> T:
        writer, worker = self._opened(), self._own_worker()
        if self._may_write_inline():
            try:
                done = work(writer, 0)
                self._sync_soon()
                return done
            except StoreBusy:
                pass  # as above
        limit_ms = self._settings.busy_timeout_ms
        done = await worker.submit_in_turn(lambda: work(writer, limit_ms), self._check_open)
        self._sync_soon()
        return done

    def _may_write_inline(self, units: Sequence[Unit] = ()) -> bool:
        """Whether what is to be done is short: nothing to sync, little to read and to write."""
        if self.durability is Durability.FULL or not self._is_idle() or self._image is None:
            return False
        if self._image.unfinished or any(unit.erases for unit in units):
            return False  # what is erased is synced
        try:
            size = self._image.bytes_ahead() + size_of(units)
        except (StoreError, OSError):
            return False  # the thread finds the same, and its answer tells
        return size <= self._settings.inline_bytes_max

    def _sync_soon(self) -> None:
        if self.durability is Durability.NORMAL and self._syncing is None and self._writer is not None:
            self._syncing = asyncio.get_running_loop().call_later(SYNC_S, self._sync)

    def _sync(self) -> None:
        self._syncing = None
        if self._writer is not None and self._worker is not None:
            self._worker.submit(self._writer.sync).add_done_callback(self._tell_sync)

    def _tell_sync(self, synced: asyncio.Future[None]) -> None:
        error = None if synced.cancelled() else synced.exception()
        if error is not None:
            _log.error("what was acknowledged since may not survive a power cut: %s", error)

    def _opened(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable(self.url, "the store is closed")
        return self._writer

    def _check_open(self) -> None:
        self._opened()


def _let_go(image: Image | None, lock: FolderLock, writer: Writer | None) -> None:
    if writer is not None:
        writer.let_go()
    if image is not None:
        image.segments.close()
    lock.close()
