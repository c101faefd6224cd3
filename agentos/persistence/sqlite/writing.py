"""What one transaction writes, over one sqlite3 connection: the same code for SQLite files and for queries in memory.

Heads move first, and a unit whose head does not match is left out; then the rows of all other units go in, table by
table. No statement here is built from text that came from outside.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agentos.persistence.base import InboxRow, LogRow, Point, Unit, Verdict, erased_at, no_point
from agentos.persistence.erasing import parts_by_erasing
from agentos.persistence.mending import HEAD, LogTables, statements_of
from agentos.persistence.reading import LOG_BY_ID, log_row
from agentos.persistence.sqlite import statements as sql
from agentos.persistence.together import fit_together, none_of

T = TypeVar("T")
Placed = tuple[int, Unit]
"""A unit with the number of its log."""

NUMBERS_MAX = 65_536
"""How many numbers of logs are remembered between transactions."""

_ABSENT = 0


class _ApartError(Exception):
    """Of units that belong together not all match."""

    def __init__(self, verdicts: list[Verdict]) -> None:
        super().__init__()
        self.verdicts = verdicts


class Writing:
    """Writes through a connection that begins no transactions of its own (isolation_level None).

    `before_commit` is called when all is written; what it raises undoes the transaction. Each transaction takes the
    write lock first: one that began by reading could never get it once another process wrote (SQLITE_BUSY_SNAPSHOT).
    """

    def __init__(
        self, db: sqlite3.Connection, before_commit: Callable[[], None] | None = None, point: Point = no_point
    ) -> None:
        self._cursor = db.cursor()
        self._db = db
        self._before_commit, self._point = before_commit, point
        self._numbers: dict[str, int] = {}
        self._fresh: dict[str, int] = {}

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        """One transaction. Raises sqlite3.Error, and then nothing is stored."""
        if not units:
            return []
        return self._transaction(self._append, units)

    def append_together(self, units: Sequence[Unit]) -> list[Verdict]:
        """All of them or none. Raises sqlite3.Error, and then nothing is stored."""
        try:
            return self._transaction(self._append_all, units)
        except _ApartError as apart:
            return none_of(apart.verdicts)

    def post(self, row: InboxRow) -> bool:
        """False when the key was there already."""
        return self._transaction(self._post, row)

    def claim(self, log: str, writer: int, is_dead: Callable[[int], bool]) -> LogRow | None:
        """The log under its new epoch; None when there is none, or when its owner lives and is another."""
        return self._transaction(self._claim, log, writer, is_dead)

    def register(
        self, incarnation: str, place: tuple[str, int, int], lock: Callable[[int], None], is_dead: Callable[[int], bool]
    ) -> int:
        """The number of a new writer at this place (host, process id, time); dead ones are marked as ended.

        The number is shown to `lock` before anybody else can see it.
        """
        return self._transaction(self._register, incarnation, place, lock, is_dead)

    def mend(self, log: str, seq: int, digest: bytes, tables: LogTables) -> bool:
        """As `Mendable.mend`."""
        return self._transaction(self._mend, log, seq, digest, tables)

    def end(self, writer: int, at: int) -> bool:
        """False when there is no such writer, or it had ended."""
        return self._transaction(lambda: self._execute(sql.END_WRITER, (at, writer)).rowcount == 1)

    def _transaction(self, work: Callable[..., T], *arguments: Any) -> T:
        if self._db.in_transaction:  # even its ROLLBACK failed
            self._cursor.execute("ROLLBACK")
        self._point("begin")
        self._cursor.execute("BEGIN IMMEDIATE")
        try:
            result = work(*arguments)
            if self._before_commit is not None:
                self._before_commit()
            self._point("commit")
            self._cursor.execute("COMMIT")
        except BaseException:
            self._fresh.clear()
            if self._db.in_transaction:  # a full disk has rolled back already
                self._cursor.execute("ROLLBACK")
            raise
        if self._fresh:
            self._remember_fresh()
        return result

    def _append(self, units: Sequence[Unit]) -> list[Verdict]:
        """What an erasing unit takes away is what stands there by then, so a part of the batch ends with each."""
        if not any(unit.erases for unit in units):
            return self._append_part(units)
        return [verdict for part in parts_by_erasing(units) for verdict in self._append_part(part)]

    def _append_all(self, units: Sequence[Unit]) -> list[Verdict]:
        """Raises _ApartError, with which the transaction ends, when one does not match."""
        verdicts = self._append(units)
        if not fit_together(verdicts):
            raise _ApartError(verdicts)
        return verdicts

    def _append_part(self, units: Sequence[Unit]) -> list[Verdict]:
        numbers = self._move_heads(units)
        placed = [(n, unit) for n, unit in zip(numbers, units, strict=True) if n]
        if placed:
            self._insert_entries(placed)
            self._set_projections(placed)
            self._set_waiting(placed)
            if placed[-1][1].erases:
                self._erase(*placed[-1])
        return [Verdict.STORED if n else self._refusal(unit) for n, unit in zip(numbers, units, strict=True)]

    def _move_heads(self, units: Sequence[Unit]) -> list[int]:
        """The number of each unit's log, _ABSENT for a unit that does not match."""
        numbers = [self._number(unit) for unit in units]
        moves = [(n, unit) for n, unit in zip(numbers, units, strict=True) if n and unit.create is None]
        if len(moves) > 1 and self._move_all(moves):
            return numbers
        return [
            n if unit.create is not None or (n and self._move(n, unit)) else _ABSENT
            for n, unit in zip(numbers, units, strict=True)
        ]

    def _move_all(self, moves: list[Placed]) -> bool:
        """Moves all heads at once, or none and says False."""
        self._execute("SAVEPOINT heads")
        self._many(sql.MOVE_HEAD, [_move_of(n, unit) for n, unit in moves])
        moved = self._cursor.rowcount == len(moves)
        if not moved:
            self._execute("ROLLBACK TO heads")
        self._execute("RELEASE heads")
        return moved

    def _move(self, n: int, unit: Unit) -> bool:
        return self._execute(sql.MOVE_HEAD, _move_of(n, unit)).rowcount == 1

    def _number(self, unit: Unit) -> int:
        if unit.create is not None:
            return self._create(unit.create, unit)
        n = self._numbers.get(unit.log) or self._fresh.get(unit.log)
        return n or self._find_number(unit.log)

    def _create(self, row: LogRow, unit: Unit) -> int:
        """Makes the row of a log with the head that its first unit leaves; _ABSENT when the log is there already."""
        values = (row.id, row.tenant, row.kind, row.owner, row.epoch, unit.seq, unit.digest)
        origin = (row.parent_call, row.root, row.forked_from, row.upto)
        if self._execute(sql.INSERT_LOG, values + origin).rowcount != 1:
            return _ABSENT
        n = self._cursor.lastrowid
        assert n is not None
        self._fresh[row.id] = n
        return n

    def _find_number(self, log: str) -> int:
        found = self._execute("SELECT n FROM logs WHERE id = ?", (log,)).fetchone()
        if found is None:
            return _ABSENT
        self._fresh[log] = found[0]
        return int(found[0])

    def _remember_fresh(self) -> None:
        if len(self._numbers) + len(self._fresh) > NUMBERS_MAX:
            self._numbers.clear()
        self._numbers.update(self._fresh)
        self._fresh.clear()

    def _refusal(self, unit: Unit) -> Verdict:
        found = self._execute("SELECT owner, epoch FROM logs WHERE id = ?", (unit.log,)).fetchone()
        fenced = found is not None and found != (unit.owner, unit.epoch)
        return Verdict.FENCED if fenced else Verdict.CONFLICT

    def _insert_entries(self, placed: list[Placed]) -> None:
        many = self._many
        many(sql.INSERT_ENTRY, [(n, *row) for n, unit in placed for row in unit.entries])
        many(sql.INSERT_PAYLOAD, [(n, *row) for n, unit in placed for row in unit.payloads])
        many(sql.INSERT_MESSAGE, [(n, *row) for n, unit in placed for row in unit.messages])
        many(sql.INSERT_DEFINITION, [row for _, unit in placed for row in unit.definitions])

    def _set_projections(self, placed: list[Placed]) -> None:
        many = self._many
        many(sql.SET_CONVERSATION, [(n, *unit.conversation) for n, unit in placed if unit.conversation is not None])
        many(sql.SET_TURN, [(n, *row) for n, unit in placed for row in unit.turns])
        many(sql.SET_CALL, [(n, *row) for n, unit in placed for row in unit.calls])
        many(sql.RESOLVE_CALL, [(what, n, call) for n, unit in placed for call, what in unit.resolved])
        many(sql.SET_COMPONENT, [(n, *row) for n, unit in placed for row in unit.components])

    def _set_waiting(self, placed: list[Placed]) -> None:
        """Posts before takes and ended waits before new ones, so that one unit may do both to the same key."""
        many = self._many
        many(sql.INSERT_POST, [_post_of(row) for _, unit in placed for row in unit.posts])
        many(sql.TAKE_POST, [(unit.seq, unit.log, key) for _, unit in placed for key in unit.taken])
        many(
            sql.DELETE_WAKEUP,
            [(row.log, row.reason, row.turn, row.call) for _, unit in placed for row in unit.woken],
        )
        many(
            sql.SET_WAKEUP,
            [(row.log, row.reason, row.turn, row.call, row.due_at) for _, unit in placed for row in unit.wakeups],
        )

    def _erase(self, n: int, unit: Unit) -> None:
        self._execute(sql.ERASE_PAYLOADS, (n, unit.erases))
        self._execute(sql.ERASE_MESSAGES, (n, unit.erases))
        self._execute(sql.ERASE_POSTS, (unit.seq, unit.log))
        self._execute(sql.MARK_ERASED, (erased_at(unit), n))

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        self._point("exec")
        return self._cursor.execute(statement, values)

    def _many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._point("exec")
            self._cursor.executemany(statement, rows)

    def _post(self, row: InboxRow) -> bool:
        return self._execute(sql.INSERT_POST, _post_of(row)).rowcount == 1

    def _register(
        self, incarnation: str, place: tuple[str, int, int], lock: Callable[[int], None], is_dead: Callable[[int], bool]
    ) -> int:
        n = self._execute(sql.INSERT_WRITER, (incarnation, *place)).lastrowid
        assert n is not None
        lock(n)
        others = self._execute("SELECT n FROM writers WHERE ended_at IS NULL AND n <> ?", (n,)).fetchall()
        self._many(sql.END_WRITER, [(place[2], other) for (other,) in others if is_dead(other)])
        return n

    def _claim(self, log: str, writer: int, is_dead: Callable[[int], bool]) -> LogRow | None:
        found = self._execute(LOG_BY_ID, (log,)).fetchone()
        if found is None:
            return None
        row = log_row(found)
        if row.owner not in (0, writer) and not (self._has_ended(row.owner) or is_dead(row.owner)):
            return None
        row.owner, row.epoch = writer, row.epoch + 1
        self._execute(sql.TAKE_LOG, (row.owner, row.epoch, log))
        return row

    def _mend(self, log: str, seq: int, digest: bytes, tables: LogTables) -> bool:
        found = self._execute(HEAD, (log, seq, digest)).fetchone()
        if found is None:
            return False
        for statement, rows in statements_of(found[0], log, tables):
            self._many(statement, rows)
        return True

    def _has_ended(self, writer: int) -> bool:
        found = self._execute("SELECT ended_at IS NOT NULL FROM writers WHERE n = ?", (writer,)).fetchone()
        return found is not None and bool(found[0])


def _move_of(n: int, unit: Unit) -> tuple[Any, ...]:
    return unit.seq, unit.digest, n, unit.previous_seq, unit.previous, unit.owner, unit.epoch


def _post_of(row: InboxRow) -> tuple[Any, ...]:
    return row.log, row.key, row.kind, row.salt, row.body
