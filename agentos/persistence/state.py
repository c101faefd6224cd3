"""What a store without a database knows at any moment: heads, what waits, and who writes.

The memory adapter and the file adapter share it. Each keeps the bulk (the units themselves, or where they stand) in its
own kind of HeldLog.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from agentos.errors import StoreDamaged
from agentos.persistence.base import InboxRow, LogRow, TakenKey, Unit, Verdict, WakeupRow, WriterRow
from agentos.persistence.reading import SEQ_MAX
from agentos.persistence.rows import CONVERSATION, TURN

_OPEN_TURN, _STATE = CONVERSATION.index("open_turn"), CONVERSATION.index("state")
_PARENT, _TURN_SEQ = CONVERSATION.index("parent"), TURN.index("seq")
_STORED, _FENCED, _CONFLICT = Verdict.STORED, Verdict.FENCED, Verdict.CONFLICT


class Waits(Protocol):
    """The part of a unit that changes what waits: a Unit, or what was read back of one."""

    @property
    def log(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def posts(self) -> Sequence[InboxRow]: ...
    @property
    def taken(self) -> Sequence[str]: ...
    @property
    def wakeups(self) -> Sequence[WakeupRow]: ...
    @property
    def woken(self) -> Sequence[WakeupRow]: ...
    @property
    def erases(self) -> int: ...


class HeldLog:
    """One log: its row, and what tells whether it is open; the seqs of its last input and of the turn begun last. The
    inputs of a child are its parent's to take back, so they alone leave nothing open."""

    __slots__ = ("idle", "last_input", "last_turn", "open_turn", "row")

    def __init__(self, row: LogRow) -> None:
        self.row = row
        self.open_turn = self.idle = False
        self.last_input = self.last_turn = 0

    def show(self, conversation: Sequence[Any] | None, turns: Sequence[Sequence[Any]]) -> None:
        """Notes the rows that a unit brings for the tables of these names."""
        if conversation is not None:
            self.open_turn = (conversation[_OPEN_TURN] or 0) > 0
            self.idle = conversation[_STATE] == "idle" and conversation[_PARENT] is None
        for turn in turns:
            if turn[_TURN_SEQ] > self.last_turn:
                self.last_turn = turn[_TURN_SEQ]

    @property
    def is_open(self) -> bool:
        """Whether a turn is open, or an input waits for one."""
        return self.open_turn or (self.idle and self.last_input > self.last_turn)


L = TypeVar("L", bound=HeldLog)


def refusal(unit: Unit, head: LogRow | None) -> Verdict | None:
    """Why a unit cannot go on this head; None when it can."""
    if head is None:
        return _CONFLICT if unit.create is None else None
    if head.owner != unit.owner or head.epoch != unit.epoch:
        return _FENCED
    if head.seq != unit.previous_seq or head.digest != unit.previous or unit.create is not None:
        return _CONFLICT
    return None


class StoreState(Generic[L]):
    """All but the entries. Its methods change it and ask nothing: whether they may was settled before."""

    def __init__(self) -> None:
        self.logs: dict[str, L] = {}
        self.writers: dict[int, WriterRow] = {}
        self._waiting: dict[tuple[str, str], InboxRow] = {}
        self._taken: dict[tuple[str, str], TakenKey] = {}
        self._taken_in_order: list[tuple[str, str]] | None = None
        self._wakeups: dict[str, dict[tuple[str, int, int], WakeupRow]] = {}

    def keep_waits(self, unit: Waits) -> None:
        """Posts before takes and ended waits before new ones, so that one unit may do both to the same key."""
        for post in unit.posts:
            self.post(post)
        for key in unit.taken:
            row = self._waiting.pop((unit.log, key), None)
            if row is not None:
                self.remember(TakenKey(log=row.log, key=row.key, kind=row.kind, seq=unit.seq))
        for over in unit.woken:
            self._wakeups.get(over.log, {}).pop((over.reason, over.turn, over.call), None)
        for due in unit.wakeups:
            self._wakeups.setdefault(due.log, {})[due.reason, due.turn, due.call] = due
        if unit.erases:
            self.take_all(unit)

    def take_all(self, unit: Waits) -> None:
        """Whatever waits for the log of a unit that erases goes with it."""
        for row in self.waiting(unit.log):
            del self._waiting[row.log, row.key]
            self.remember(TakenKey(log=row.log, key=row.key, kind=row.kind, seq=unit.seq))

    def post(self, row: InboxRow) -> None:
        """Nothing when the key is known already."""
        if (row.log, row.key) not in self._taken:
            self._waiting.setdefault((row.log, row.key), row)

    def remember(self, key: TakenKey) -> None:
        """A key that a unit took; the first one that did counts."""
        self._taken.setdefault((key.log, key.key), key)
        self._taken_in_order = None

    def begin(self, n: int, incarnation: str, host: str, pid: int, started_at: int) -> None:
        self.writers[n] = WriterRow(
            n=n,
            incarnation=incarnation,
            host=host,
            pid=pid,
            started_at=started_at,
            beat_at=None,
            ended_at=None,
            alive=True,
        )

    def end(self, n: int, at: int) -> bool:
        """False when there is no such writer, or it had ended."""
        row = self.writers.get(n)
        if row is None or row.ended_at is not None:
            return False
        self.writers[n] = msgspec.structs.replace(row, ended_at=at, alive=False)
        return True

    def may_claim(self, row: LogRow, writer: int, is_dead: Callable[[int], bool]) -> bool:
        """Whether this writer may take the log: nobody has it, it has it itself, or its owner is gone."""
        if row.owner in (0, writer):
            return True
        owner = self.writers.get(row.owner)
        return owner is None or owner.ended_at is not None or is_dead(row.owner)

    def log_rows(self, kind: str | None) -> list[LogRow]:
        rows = (log.row for log in self.logs.values())
        return [msgspec.structs.replace(row) for row in rows if kind is None or row.kind == kind]

    def open_logs(self) -> list[str]:
        waiting = {log for log, _ in self._waiting}
        return sorted(waiting.union(name for name, log in self.logs.items() if log.is_open))

    def waiting(self, log: str | None) -> list[InboxRow]:
        return [row for row in self._waiting.values() if log is None or row.log == log]

    def knows(self, log: str, key: str) -> bool:
        """Whether something with this key waits for the log, or was taken by it."""
        return (log, key) in self._waiting or (log, key) in self._taken

    def inbox_seq(self, log: str, key: str) -> int | None:
        found = self._taken.get((log, key))
        return found.seq if found is not None else 0 if (log, key) in self._waiting else None

    def taken(self, after: tuple[str, str], limit: int) -> list[TakenKey]:
        if self._taken_in_order is None:
            self._taken_in_order = sorted(self._taken)
        first = bisect_right(self._taken_in_order, after)
        return [self._taken[key] for key in self._taken_in_order[first : first + limit]]

    def waking(self, log: str | None) -> list[WakeupRow]:
        logs = self._wakeups.values() if log is None else [self._wakeups.get(log, {})]
        rows = [row for waits in logs for row in waits.values()]
        return sorted(rows, key=lambda row: (row.due_at, row.log, row.reason, row.turn, row.call))

    def line(self, log: str, url: str) -> list[tuple[L, int]]:
        """The logs that make up a log, oldest first, each with the last seq that counts: a fork begins with what it
        shares. Empty for no log. Raises StoreDamaged when one that it came from is not there."""
        return list(self._backwards(log, url))[::-1]

    def _backwards(self, log: str, url: str) -> Iterator[tuple[L, int]]:
        names: set[str] = set()
        name: str | None = log
        end = SEQ_MAX
        while name is not None:
            if name in names:
                raise StoreDamaged(url, f"{log} is a fork of itself")
            names.add(name)
            found = self.logs.get(name)
            if found is None and name != log:
                raise StoreDamaged(url, f"{log} is a fork of {name}, which is not there")
            if found is None:
                return
            yield found, end
            name, end = found.row.forked_from, min(end, found.row.upto)
