"""Copying the write-ahead log back into the file, beside the writer and never in it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from queue import SimpleQueue

_log = logging.getLogger(__name__)

WAL_PAGES_MAX = 2_000
"""About how many pages the write-ahead log holds before it is copied back."""
WAL_OVERGROWN = 4
"""At so many times WAL_PAGES_MAX the writer has to help."""


class Checkpointer:
    """A thread with a connection of its own; both come to life with the first full log.

    Beside a writer that never rests the log is never copied to its last page, and only then does SQLite begin it anew.
    So the writer is told when the log is overgrown, and copies the rest itself.
    """

    def __init__(self, path: str, pages_max: int = WAL_PAGES_MAX) -> None:
        self.overgrown = False
        self._path, self._pages_max = path, pages_max
        self._pages = 0
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def wrote(self, pages: int) -> None:
        """Counts about how many pages a commit added. Called on one thread at a time."""
        self._pages += pages
        if self._pages >= self._pages_max:
            self._pages = 0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentos checkpoints", daemon=True)
                self._thread.start()
            self._wake.put(True)

    def stop(self) -> None:
        if self._thread is not None:
            self._wake.put(False)

    def join(self, limit_s: float) -> None:
        """Waits for the thread to end after a stop."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self) -> None:
        db: sqlite3.Connection | None = None
        while self._wake.get():
            try:
                db = db or self._connect()
                self._copy(db)
            except sqlite3.Error as error:
                _log.warning("the write-ahead log of %s was not copied back: %s", self._path, error)
        if db is not None:
            db.close()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=0, isolation_level=None)

    def _copy(self, db: sqlite3.Connection) -> None:
        _, pages, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.overgrown = pages > WAL_OVERGROWN * self._pages_max
