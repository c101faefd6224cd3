"""What an open SQLite store holds for writing: connection, writer's number and lock, thread, checkpoints."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Sequence

from agentos.errors import StoreError
from agentos.persistence.base import Point, Unit, Verdict, no_point
from agentos.persistence.sqlite.checkpoints import Checkpointer
from agentos.persistence.sqlite.file import patiently
from agentos.persistence.sqlite.guard import PAGE_BYTES, WAL, FileGuard
from agentos.persistence.sqlite.writing import Writing
from agentos.persistence.worker import Worker
from agentos.persistence.writer_lock import WriterLock, is_dead
from agentos.settings import Settings

_log = logging.getLogger(__name__)

PAGES_PER_COMMIT = 6
PAGES_PER_UNIT = 2
CHECKPOINTER_S = 5.0
"""How long a close waits for a checkpoint that is under way."""
_ERASED_LEFT = (
    "erased texts are still there, since a reader of another program keeps its view open: end it, and the next process"
    " that writes to the store, or closes it, overwrites them"
)


class Files:
    """What belongs to the file of a store, and to none in memory: guard, checkpoints, and the lock of its writer."""

    def __init__(self, url: str, path: str, settings: Settings, point: Point) -> None:
        """Once SQLite has opened the file. Raises StoreUnavailable, StoreDamaged."""
        self.path = path
        self.guard = FileGuard(url, path)
        self.checkpoints = Checkpointer(path, self.guard, settings, point)
        self.lock: WriterLock | None = None

    def take_lock(self, number: int) -> None:
        self.lock = WriterLock(self.path, number)

    def release_lock(self) -> None:
        if self.lock is not None:
            self.lock.release()


class Writer:
    """The connection is used by one thread at a time: by that of `worker` while it has jobs, else by the loop's."""

    def __init__(
        self,
        db: sqlite3.Connection,
        files: Files | None,
        incarnation: str,
        worker: Worker,
        point: Point = no_point,
        *,
        was_left: bool = False,
    ) -> None:
        """Registers itself. was_left: a crash has left the write-ahead log, and nobody knows whether erased bytes are in
        it. Raises sqlite3.Error, OSError, StoreError."""
        self.db, self.files, self.worker = db, files, worker
        self.writing = Writing(db, None if files is None else self.check_files, point)
        self._point = point
        self._version = 0
        self.number = self._register(incarnation)
        self.note_version()
        self._seen_version = self._version
        if files is not None and was_left:
            files.checkpoints.erased()

    @property
    def overgrown(self) -> bool:
        """Whether the write-ahead log has to be begun anew before the next append, which takes a while."""
        return self.files is not None and self.files.checkpoints.overgrown

    def append(self, units: Sequence[Unit], size: int, *, together: bool = False) -> list[Verdict]:
        append = self.writing.append_together if together else self.writing.append
        if self.files is None:
            return append(units)
        checkpoints = self.files.checkpoints
        if checkpoints.overgrown:
            checkpoints.help(self.db)
        verdicts = append(units)
        if any(unit.erases and verdict is Verdict.STORED for unit, verdict in zip(units, verdicts, strict=True)):
            checkpoints.erased()
        checkpoints.wrote(PAGES_PER_COMMIT + PAGES_PER_UNIT * len(units) + size // PAGE_BYTES)
        return verdicts

    def settle(self) -> bool:
        """Whether what units erased is overwritten in the files. Raises sqlite3.Error, StoreError."""
        if self.files is None:
            return True
        self.check_files()
        return self.files.checkpoints.empty(self.db)

    def compact(self) -> None:
        """Raises sqlite3.Error, StoreError."""
        self.check_files()
        self._point("exec")
        self.db.execute("VACUUM")

    def check_files(self) -> None:
        """Raises StoreError when what is written would not be found again. On the thread that has the connection."""
        if self.files is None:
            return
        guard = self.files.guard
        wal_bytes, is_whole = guard.check()
        if not is_whole:
            guard.judge_smaller(self.db.execute("PRAGMA page_count").fetchone()[0])
        self.files.checkpoints.saw(wal_bytes)

    def is_dead(self, writer: int) -> bool:
        return self.files is None or is_dead(self.files.path, writer)

    def changed(self) -> bool:
        """Whether another connection wrote since the last call."""
        if not self.worker.pending:
            self.note_version()
        changed, self._seen_version = self._version != self._seen_version, self._version
        return changed

    def note_version(self) -> None:
        """Reads SQLite's count of the commits of other connections, on the thread that has the connection now."""
        with contextlib.suppress(sqlite3.Error):  # locked: the next time tells
            (self._version,) = self.db.execute("PRAGMA data_version").fetchone()

    def end(self, busy_timeout_ms: int) -> None:
        """Marks the writer as ended and closes all. What fails here is found by those who come later.

        The write-ahead log is copied into the file also when it was removed from its folder: SQLite has it open still.
        """
        with contextlib.suppress(sqlite3.Error, StoreError):
            patiently(lambda: self.writing.end(self.number, _now()), busy_timeout_ms)
        if self.files is not None:
            self.files.checkpoints.stop()
            self.files.checkpoints.join(CHECKPOINTER_S)
            if not self.files.guard.is_replaced():
                self._copy_all(self.files)
        self.db.close()
        if self.files is not None:
            self.files.release_lock()

    def abandon(self) -> None:
        """Gives up the lock now, and the connection once its thread is done with it."""
        if self.files is not None:
            self.files.release_lock()
            self.files.checkpoints.stop()
        self.worker.stop(self.db.close)

    def _copy_all(self, files: Files) -> None:
        with contextlib.suppress(sqlite3.Error):
            files.checkpoints.empty(self.db)
        if files.checkpoints.holds_erased:
            _log.warning("%s: %s", files.path + WAL, _ERASED_LEFT)

    def _register(self, incarnation: str) -> int:
        place = (socket.gethostname(), os.getpid(), _now())
        take_lock = _no_lock if self.files is None else self.files.take_lock
        try:
            return self.writing.register(incarnation, place, take_lock, self.is_dead)
        except BaseException:
            if self.files is not None:
                self.files.release_lock()
            raise


def _no_lock(_: int) -> None:
    """A store in memory has no second process."""


def _now() -> int:
    return time.time_ns() // 1000
