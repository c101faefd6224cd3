"""Copying the write-ahead log back into the file, beside the writer and never in it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from queue import Empty, SimpleQueue

from agentos.errors import StoreError
from agentos.persistence.base import Point, no_point
from agentos.persistence.sqlite.guard import PAGE_BYTES, WAL, FileGuard
from agentos.settings import Settings

_log = logging.getLogger(__name__)

WAL_OVERGROWN = 4
"""At so many times wal_copy_bytes the writer has to help; a longer log is cut to that when it is begun anew."""

TRUNCATE_AGAIN_S = 1.0
"""How soon a log that holds erased bytes is tried again, while a reader keeps it from being emptied."""

_WAY_OUT = "a reader of another program keeps its view open: end it, and the log is begun anew by the next writes"


class Checkpointer:
    """A thread with a connection of its own; both come to life with the first full log.

    Beside a writer that never rests the log is never copied to its last page, and only then does SQLite begin it anew.
    So a writer whose log is overgrown copies the rest itself. While a reader keeps an old view open nobody can begin
    the log anew: it grows, and one warning says so. A log with erased bytes is emptied, again and again until it is;
    holds_erased says that it was not yet.
    """

    def __init__(self, path: str, guard: FileGuard, settings: Settings, point: Point = no_point) -> None:
        self.overgrown = self.holds_erased = False
        self._path, self._guard, self._point = path, guard, point
        self._copy_bytes, self._warn_bytes = settings.wal_copy_bytes, settings.wal_warn_bytes
        self._pages_max = max(settings.wal_copy_bytes // PAGE_BYTES, 1)
        self._help_bytes = WAL_OVERGROWN * settings.wal_copy_bytes
        self._warned = False
        self._pages = 0
        self._copying = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def wrote(self, pages: int) -> None:
        """Counts about how many pages a commit added. Called on one thread at a time."""
        self._pages += pages
        if self._pages >= self._pages_max:
            self._pages = 0
            self._start()

    def erased(self) -> None:
        """The log holds bytes that are to go, and so does the file until the log is copied."""
        self.holds_erased = True
        self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentos checkpoints", daemon=True)
            self._thread.start()
        self._wake.put(True)

    def help(self, db: sqlite3.Connection) -> None:
        """Copies all on the writer's connection and begins the log anew, unless readers need it. Waits for a copy that
        is under way."""
        self.overgrown = False
        try:
            with self._copying:
                self._point("checkpoint")
                db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error as error:
            self._tell(error)

    def empty(self, db: sqlite3.Connection) -> bool:
        """Copies all and empties the log, and says whether that is done: not while a reader needs the log. Raises
        sqlite3.Error."""
        with self._copying:
            self._point("checkpoint")
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()  # the long part, beside the writers
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not is_busy:
                self.holds_erased = False
        return not is_busy

    def saw(self, wal_bytes: int) -> None:
        """Finds a log that is overgrown, again with each wal_copy_bytes, and warns of one that has grown too large, once
        until it is small again."""
        if wal_bytes <= WAL_OVERGROWN * self._copy_bytes:
            self._help_bytes = WAL_OVERGROWN * self._copy_bytes
        elif wal_bytes > self._help_bytes:
            self._help_bytes = wal_bytes + self._copy_bytes
            self.overgrown = True
        if wal_bytes < self._warn_bytes:
            self._warned = False
        elif not self._warned:
            self._warned = True
            _log.warning(
                "the write-ahead log %s has %d bytes (wal_warn_bytes is %d): %s",
                self._path + WAL,
                wal_bytes,
                self._warn_bytes,
                _WAY_OUT,
            )

    def stop(self) -> None:
        if self._thread is not None:
            self._wake.put(False)

    def join(self, limit_s: float) -> None:
        """Waits for the thread to end after a stop."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self) -> None:
        db: sqlite3.Connection | None = None
        while self._is_wanted():
            try:
                self._guard.check()  # a log must not be copied into a file that is not its own
                db = db or self._connect()
                self.empty(db) if self.holds_erased else self._copy(db)
            except (sqlite3.Error, StoreError) as error:
                self._tell(error)
        if db is not None:
            db.close()

    def _is_wanted(self) -> bool:
        """Waits for a word, or until erased bytes are to be tried again. False to end."""
        try:
            return self._wake.get(timeout=TRUNCATE_AGAIN_S if self.holds_erased else None)
        except Empty:
            return True

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=0, isolation_level=None)

    def _copy(self, db: sqlite3.Connection) -> None:
        with self._copying:
            self._point("checkpoint")
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _tell(self, error: Exception) -> None:
        """The log stays as it is, and nothing of it is lost."""
        _log.warning("the write-ahead log of %s was not copied back: %s", self._path, error)
