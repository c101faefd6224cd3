"""The search index of a store: a file beside it that holds a second copy of what was said, and may be thrown away.

It is made of the log and never trusted: whoever searches reads each hit back from the store before showing it.

After an erase: `SearchIndex(path).forget(logs)` with `path = SearchIndex.beside(store.url)`, when path is not None and
exists. It blocks for as long as SQLite works (call it in a thread), and returns when nothing of these logs is left in any
file of the index; it has then taken their texts out, or has removed the index, which the next search makes anew.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentos.errors import IndexUnavailable, QueryRefused
from agentos.persistence.search_file import close_file, explained, has_secure_delete, open_file, remove_file
from agentos.persistence.search_place import index_beside, turn_at
from agentos.persistence.search_rows import Asked, Heads, IndexedLog, IndexHit, Portion, Standing
from agentos.persistence.search_text import indexed

FORGET_WAIT_S = 2.0
"""How long `forget` lets another process finish bringing the index up to date, before it goes between its batches."""
STEPS_BETWEEN_LOOKS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""

_LOGS = "SELECT id, seq, digest, erased FROM logs"
_ONE_LOG = "SELECT id, seq, digest, erased FROM logs WHERE id = ?"
_HEADS = "SELECT count(*), coalesce(sum(seq), 0), coalesce(sum(seq * seq % 1000003), 0) FROM logs WHERE erased = 0"
_STANDING = "SELECT erased, updated_at FROM standing"
_STAND = "INSERT OR REPLACE INTO standing (one, erased, updated_at) VALUES (1, ?, ?)"
_LOG = "SELECT n, seq, erased FROM logs WHERE id = ?"
_ADD_LOG = "INSERT INTO logs (id, seq, digest, erased) VALUES (?, ?, ?, 0)"
_MOVE_LOG = "UPDATE logs SET seq = ?, digest = ? WHERE n = ?"
_FORGETTING = (
    "INSERT INTO logs (id, seq, digest, erased) VALUES (?, 0, x'', 2)"
    " ON CONFLICT (id) DO UPDATE SET seq = 0, digest = x'', erased = 2"
)
_FORGOTTEN = "UPDATE logs SET erased = 1 WHERE id = ?"
_ADD_CALL = "INSERT OR REPLACE INTO calls (n, seq, tool) VALUES (?, ?, ?)"
_CALL = "SELECT tool FROM calls JOIN logs ON logs.n = calls.n WHERE logs.id = ? AND calls.seq = ?"
_ADD_PLACE = "INSERT INTO places (n, seq, i, role, part, tool, turn, call, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_TEXT = "INSERT INTO texts (rowid, text) VALUES (?, ?)"
_DROPS = (
    "DELETE FROM texts WHERE rowid IN (SELECT id FROM places WHERE n = ?)",
    "DELETE FROM places WHERE n = ?",
    "DELETE FROM calls WHERE n = ?",
)
_DROP_LOG = "DELETE FROM logs WHERE n = ?"
_DROP_PLACE = (
    "DELETE FROM texts WHERE rowid IN (SELECT places.id FROM places JOIN logs ON logs.n = places.n"
    " WHERE logs.id = ? AND seq = ? AND i = ?)"
)
_HITS = """
SELECT l.id, p.seq, p.i, p.role, p.part, p.tool, p.turn, p.call, p.at
FROM texts JOIN places AS p ON p.id = texts.rowid JOIN logs AS l ON l.n = p.n
WHERE texts MATCH :match AND (:role IS NULL OR p.role = :role) AND (:tool IS NULL OR p.tool = :tool)
    AND (:since IS NULL OR p.at >= :since) AND (:until IS NULL OR p.at < :until)
    AND (:thinking OR p.part <> 'thinking') AND (:all_logs OR l.id IN (SELECT id FROM temp.chosen))
"""
_BEST = _HITS + " AND (:id IS NULL OR (texts.rank, p.id) > (:rank, :id)) ORDER BY texts.rank, p.id LIMIT :limit"
_NEWEST = _HITS + " AND (:id IS NULL OR (p.at, p.id) < (:at, :id)) ORDER BY p.at DESC, p.id DESC LIMIT :limit"
_PLACE = (
    "SELECT p.id, p.at FROM places AS p JOIN logs AS l ON l.n = p.n WHERE l.id = :log AND p.seq = :seq AND p.i = :i"
)
_RANK = "SELECT texts.rank FROM texts WHERE texts MATCH :match AND texts.rowid = :id"
_COUNT = "SELECT count(*) FROM places"
_MERGE = "INSERT INTO texts (texts) VALUES ('optimize')"


class SearchIndex:
    """One index, opened at its first use; path None is one in memory. Threads take turns at it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._turn = threading.RLock()
        self._opened: sqlite3.Connection | None = None

    @staticmethod
    def beside(url: str) -> Path | None:
        """Where the index of the store at this URL lies, whether it is there or not; None for a store in memory."""
        return index_beside(url)

    @property
    def place(self) -> str:
        return "memory" if self.path is None else str(self.path)

    def open(self) -> None:
        """Makes it when it is missing, older, damaged or something else. Raises IndexUnavailable, ConfigurationError."""
        with self._used():
            pass

    def close(self) -> None:
        with self._turn:
            opened, self._opened = self._opened, None
            if opened is not None:
                close_file(opened)

    def remove(self) -> None:
        """Takes the index away; the next use makes it anew. Raises IndexUnavailable."""
        self.close()
        with explained(self.place):
            remove_file(self.path)

    def forget(self, logs: Collection[str]) -> None:
        """Nothing of these logs is left in any file of the index, and nothing of them comes in again that was read before
        now. Where that cannot be made sure of, the index is removed. Raises IndexUnavailable, naming the file, when even
        that fails."""
        if self.path is not None and not self.path.exists():
            return
        was_closed = self._opened is None
        try:
            with turn_at(
                self.path, FORGET_WAIT_S
            ):  # when the turn does not come, it is done between two batches of others
                self._forget(logs)
        except (IndexUnavailable, OSError):
            self.remove()
        finally:
            if was_closed:
                self.close()

    def logs(self, ids: Collection[str] | None = None) -> dict[str, IndexedLog]:
        """What is indexed, by log; of these, or of all."""
        with self._used() as db:
            rows = db.execute(_LOGS) if ids is None else (row for id_ in ids for row in db.execute(_ONE_LOG, (id_,)))
            return {id_: IndexedLog(seq=seq, digest=digest, erased=erased == 1) for id_, seq, digest, erased in rows}

    def heads(self) -> Heads:
        """What the heads of the indexed logs come to."""
        with self._used() as db:
            (found,) = db.execute(_HEADS)
            return Heads(*found)

    def standing(self) -> Standing | None:
        """Where the store stood at the end of the last time that the index was brought up to date; None before that."""
        with self._used() as db:
            return next((Standing(*row) for row in db.execute(_STANDING)), None)

    def stand(self, standing: Standing) -> None:
        """The index is up to date with a store that stands there."""
        with self._transaction() as db:
            db.execute(_STAND, standing)

    def tool(self, log: str, call: int) -> str | None:
        """The tool of a call that is introduced in this log."""
        with self._used() as db:
            for (tool,) in db.execute(_CALL, (log, call)):
                return str(tool)
        return None

    def add(self, portions: Sequence[Portion]) -> None:
        """In one transaction. Of a log that was forgotten, or is not where the portion begins, nothing is taken."""
        with self._transaction() as db:
            for portion in portions:
                _add(db, portion)

    def drop(self, logs: Collection[str]) -> None:
        """Takes logs out that are not what they were; they are indexed again from their beginning when they come back."""
        with self._transaction() as db:
            for log in logs:
                for n, _, _ in db.execute(_LOG, (log,)).fetchall():
                    _drop(db, n)
                    db.execute(_DROP_LOG, (n,))

    def drop_text(self, hit: IndexHit) -> None:
        """A text that the store has no longer."""
        with self._transaction() as db:
            db.execute(_DROP_PLACE, (hit.log, hit.seq, hit.i))

    def hits(self, asked: Asked, limit: int, limit_s: float) -> list[IndexHit]:
        """So many at most, in order. Errors: QueryRefused when it took longer than limit_s, or after is no hit of this."""
        with self._used() as db:
            until = time.monotonic() + limit_s
            db.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
            try:
                return self._hits(db, asked, limit)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise QueryRefused(
                    f"the search ran longer than {limit_s:g} s (query_s) and was stopped; look for rarer words"
                ) from error
            finally:
                db.set_progress_handler(None, 0)

    def count(self) -> int:
        """How many texts are indexed."""
        with self._used() as db:
            ((count,),) = db.execute(_COUNT)
            return int(count)

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._turn, explained(self.place):
            if self._opened is None:
                self._opened = open_file(self.path)
            yield self._opened

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, also beside other processes."""
        with self._used() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _forget(self, logs: Collection[str]) -> None:
        """What is cut short here stays at erased = 2, which no text is added to and the next search ends. What has come to
        its end costs nothing again."""
        known = self.logs()
        logs = [log for log in logs if log not in known or not known[log].erased]
        if not logs:
            return
        with self._transaction() as db:
            for log in logs:
                for n, _, _ in db.execute(_LOG, (log,)).fetchall():
                    _drop(db, n)
                db.execute(_FORGETTING, (log,))
            if not has_secure_delete():
                db.execute(_MERGE)  # which leaves no segment with a word that is gone
        with self._used() as db:
            db.execute("VACUUM")  # secure_delete leaves what stood in a page before its rows were moved
        with self._transaction() as db:
            db.executemany(_FORGOTTEN, ((log,) for log in logs))

    def _hits(self, db: sqlite3.Connection, asked: Asked, limit: int) -> list[IndexHit]:
        db.execute("DELETE FROM temp.chosen")
        if asked.logs is not None:
            db.executemany("INSERT OR IGNORE INTO temp.chosen VALUES (?)", ((log,) for log in asked.logs))
        bound = {
            "match": asked.match,
            "role": asked.role,
            "tool": asked.tool,
            "since": asked.since,
            "until": asked.until,
            "thinking": asked.thinking,
            "all_logs": asked.logs is None,
            "limit": limit,
            **_beginning(db, asked),
        }
        rows = db.execute(_NEWEST if asked.newest else _BEST, bound)
        return [IndexHit(*row) for row in rows]


def _add(db: sqlite3.Connection, portion: Portion) -> None:
    known = db.execute(_LOG, (portion.log,)).fetchone()
    if known is None:
        n = db.execute(_ADD_LOG, (portion.log, portion.seq, portion.digest)).lastrowid
    elif known[2] or known[1] != portion.after:
        return
    else:
        n = known[0]
        db.execute(_MOVE_LOG, (portion.seq, portion.digest, n))
    db.executemany(_ADD_CALL, ((n, seq, tool) for seq, tool in portion.calls))
    for one in portion.texts:
        place = (n, one.seq, one.i, one.role, one.part, one.tool, one.turn, one.call, one.at)
        db.execute(_ADD_TEXT, (db.execute(_ADD_PLACE, place).lastrowid, indexed(one.text)))


def _drop(db: sqlite3.Connection, n: int) -> None:
    for statement in _DROPS:
        db.execute(statement, (n,))


def _beginning(db: sqlite3.Connection, asked: Asked) -> dict[str, float | int | None]:
    """Where a page begins: behind the last hit of the one before. Raises QueryRefused."""
    if asked.after is None:
        return {"id": None, "at": None, "rank": None}
    log, seq, i = asked.after
    for id_, at in db.execute(_PLACE, {"log": log, "seq": seq, "i": i}):
        for (rank,) in db.execute(_RANK, {"match": asked.match, "id": id_}):
            return {"id": id_, "at": at, "rank": rank}
    raise QueryRefused(f"{log}:{seq}:{i} is no hit of these words any more; begin without --after")
