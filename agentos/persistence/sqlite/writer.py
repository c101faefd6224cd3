"""What an open SQLite store holds for writing: connection, writer's number and lock, thread, checkpoints."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import time
from collections.abc import Sequence

from agentos.persistence.base import Unit, Verdict
from agentos.persistence.sqlite.checkpoints import Checkpointer
from agentos.persistence.sqlite.file import patiently
from agentos.persistence.sqlite.writing import Writing
from agentos.persistence.worker import Worker
from agentos.persistence.writer_lock import WriterLock, is_dead

PAGE_BYTES = 4096
PAGES_PER_COMMIT = 6
PAGES_PER_UNIT = 2
CHECKPOINTER_S = 5.0
"""How long a close waits for a checkpoint that is under way."""


class Writer:
    """The connection is used by one thread at a time: by that of `worker` while it has jobs, else by the loop's."""

    def __init__(self, db: sqlite3.Connection, path: str | None, incarnation: str, worker: Worker) -> None:
        """Registers itself. Raises sqlite3.Error, OSError."""
        self.db, self.worker = db, worker
        self.writing = Writing(db)
        self._path = path
        self._lock: WriterLock | None = None
        self._checkpoints = None if path is None else Checkpointer(path)
        self._version = 0
        self.number = self._register(incarnation)
        self.note_version()
        self._seen_version = self._version

    @property
    def overgrown(self) -> bool:
        """Whether the write-ahead log has to be begun anew before the next append, which takes a while."""
        return self._checkpoints is not None and self._checkpoints.overgrown

    def append(self, units: Sequence[Unit], size: int) -> list[Verdict]:
        if self._checkpoints is not None and self._checkpoints.overgrown:
            self._checkpoints.overgrown = False
            self.db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()  # does nothing while readers need the log
        verdicts = self.writing.append(units)
        if self._checkpoints is not None:
            self._checkpoints.wrote(PAGES_PER_COMMIT + PAGES_PER_UNIT * len(units) + size // PAGE_BYTES)
        return verdicts

    def is_dead(self, writer: int) -> bool:
        return self._path is None or is_dead(self._path, writer)

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
        """Marks the writer as ended and closes all. What fails here is found by those who come later."""
        with contextlib.suppress(sqlite3.Error):
            patiently(lambda: self.writing.end(self.number, _now()), busy_timeout_ms)
        if self._checkpoints is not None:
            self._checkpoints.stop()
            self._checkpoints.join(CHECKPOINTER_S)
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.db.close()
        if self._lock is not None:
            self._lock.release()

    def abandon(self) -> None:
        """Gives up the lock now, and the connection once its thread is done with it."""
        if self._lock is not None:
            self._lock.release()
        if self._checkpoints is not None:
            self._checkpoints.stop()
        self.worker.stop(self.db.close)

    def _register(self, incarnation: str) -> int:
        place = (socket.gethostname(), os.getpid(), _now())
        try:
            return self.writing.register(incarnation, place, self._take_lock, self.is_dead)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _take_lock(self, number: int) -> None:
        if self._path is not None:
            self._lock = WriterLock(self._path, number)


def _now() -> int:
    return time.time_ns() // 1000
