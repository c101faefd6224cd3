"""The reading half of a file store: it reads on what others wrote, and changes nothing in the folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from agentos.errors import StoreDamaged, StoreUnavailable
from agentos.persistence.base import InboxRow, LogRow, Rows, StoredEntry, TakenKey, WakeupRow, WriterRow
from agentos.persistence.file import looking
from agentos.persistence.file.folder import Folder, unavailable
from agentos.persistence.file.held import Damage, Torn
from agentos.persistence.file.image import Image
from agentos.persistence.file.lock import FolderLock
from agentos.persistence.projection import make_querier
from agentos.persistence.reading import SEQ_MAX
from agentos.persistence.worker import Worker
from agentos.persistence.writer_lock import is_dead
from agentos.settings import Settings

if TYPE_CHECKING:
    import sqlite3

    from agentos.persistence.file.projecting import Projection
    from agentos.persistence.sqlite.querying import Querier

T = TypeVar("T")


class FileReads:
    """The image belongs to the loop while the worker has no job, else to the worker."""

    url: str

    def __init__(self, folder: Folder, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self._closed = False
        self._number = 0
        self._worker: Worker | None = None
        self._image: Image | None = None
        self._lock = FolderLock(folder.url, folder.lock)
        self._querier: Querier | None = None
        self._projection: Projection | None = None

    async def log(self, log: str) -> LogRow | None:
        return await self._read(lambda image: looking.find_log(image, log))

    async def logs(self, kind: str | None = None) -> list[LogRow]:
        return await self._read(lambda image: image.state.log_rows(kind))

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        last, units = SEQ_MAX if upto is None else upto, limit if kinds is None else None
        parts = await self._read(lambda image: looking.find_parts(image, log, after, last, units))
        size = sum(place.length for place, _ in parts)
        return await self._read(lambda image: looking.read_entries(image, parts, after, limit, kinds), size)

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        return await self._read(lambda image: looking.last_snapshot(image, log, SEQ_MAX if upto is None else upto))

    async def open_logs(self) -> list[str]:
        return await self._read(lambda image: image.state.open_logs())

    async def definition(self, digest: str) -> tuple[str, str] | None:
        for _, kind, body in await self._read(lambda image: looking.read_definitions(image, [digest])):
            return kind, body
        return None

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        digests = await self._read(lambda image: looking.find_digests(image, after, limit))
        return await self._read_elsewhere(lambda image: looking.read_definitions(image, digests))

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        return await self._read(lambda image: image.state.waiting(log))

    async def inbox_seq(self, log: str, key: str) -> int | None:
        return await self._read(lambda image: image.state.inbox_seq(log, key))

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        return await self._read(lambda image: image.state.taken(after, limit))

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        return await self._read(lambda image: image.state.waking(log))

    async def writers(self) -> list[WriterRow]:
        rows = await self._read(lambda image: list(image.state.writers.values()))
        return [msgspec.structs.replace(row, alive=self._is_alive(row)) for row in rows]

    async def damages(self) -> list[Damage]:
        return await self._read(lambda image: list(image.damages))

    async def torn(self) -> Torn | None:
        """An end that a write which was cut short has left, and the next append cuts off."""
        return await self._read(lambda image: image.torn)

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        if self._querier is None:
            self._querier = make_querier(self.url, self._settings, self._feed)
        return await self._querier.run(sql, parameters)

    async def _feed(self, db: sqlite3.Connection) -> None:
        from agentos.persistence.file.projecting import Projection

        if self._projection is None:
            self._projection = Projection()
        await self._projection.feed(db, self._read_undisturbed)

    async def _read(self, look: Callable[[Image], T], size: int = 0) -> T:
        """What the image says after it has caught up; `look` reads about size bytes of the segments."""
        image = self._image
        if image is not None and self._is_idle() and size <= self._settings.inline_bytes_max:
            try:
                if image.bytes_ahead() == 0:
                    return look(image)
            except StoreDamaged:
                pass  # it may be in the middle of an erase: looked at again with the lock
            except OSError as error:
                raise unavailable(self.url, error) from error
        return await self._read_elsewhere(look)

    def _read_elsewhere(self, look: Callable[[Image], T]) -> Awaitable[T]:
        return self._own_worker().submit(lambda: self._look(look))

    def _read_undisturbed(self, look: Callable[[Image], T]) -> Awaitable[T]:
        return self._own_worker().submit(lambda: self._look(look, undisturbed=True))

    def _look(self, look: Callable[[Image], T], *, undisturbed: bool = False) -> T:
        try:
            if self._image is None:
                self._check_not_closed()
                self._image = Image(self._folder, self._folder.identify().id)
            image = self._image
            if not image.offset or image.bytes_ahead():
                with self._lock.shared(self._settings.busy_timeout_ms):
                    image.catch_up()
            if not undisturbed:
                try:
                    return look(image)
                except StoreDamaged:
                    pass  # a line that an erase is just overwriting is none; nobody does while the lock is held
            with self._lock.shared(self._settings.busy_timeout_ms):
                image.catch_up()
                return look(image)
        except OSError as error:
            raise unavailable(self.url, error) from error

    def _is_idle(self) -> bool:
        return self._worker is None or not self._worker.pending

    def _is_alive(self, row: WriterRow) -> bool:
        return row.n == self._number or (row.alive and not is_dead(self._folder.writers, row.n, clear=False))

    def _own_worker(self) -> Worker:
        self._check_not_closed()
        if self._worker is None:
            self._worker = Worker(f"agentos store {self._folder.path}", self._settings.writer_queue_max)
        return self._worker

    def _check_not_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(self.url, "the store is closed")
