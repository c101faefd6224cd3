"""What the memory adapter keeps, for all handles on the same data: what was done in order, and where each log is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentos.persistence.base import InboxRow, LogRow, Unit, erased_at
from agentos.persistence.erasing import emptied, without_posts, without_texts
from agentos.persistence.state import HeldLog, StoreState

if TYPE_CHECKING:
    from agentos.persistence.sqlite.writing import Writing

Operation = Unit | Callable[["Writing"], object]
"""What was done: a unit, or something else, as it is done to a database."""


class MemoryLog(HeldLog):
    """One log: where its units stand among the operations, in order, and where those that posted to it."""

    __slots__ = ("units",)

    def __init__(self, row: LogRow) -> None:
        HeldLog.__init__(self, row)
        self.units: list[int] = []

    def add(self, unit: Unit, place: int) -> None:
        """A unit that is the next one."""
        row = self.row
        row.seq, row.digest = unit.seq, unit.digest
        self.units.append(place)
        for message in unit.messages:
            if message[1] == "user":
                self.last_input = message[0]
        if unit.turns or unit.conversation is not None:
            self.show(unit.conversation, unit.turns)


class MemoryState(StoreState[MemoryLog]):
    """All that was done, and what it came to."""

    def __init__(self) -> None:
        super().__init__()
        self.definitions: dict[str, tuple[str, str]] = {}
        self.operations: list[Operation] = []
        self._posted: dict[str, list[int]] = {}

    def keep(self, unit: Unit) -> None:
        """What a unit changes beside its log."""
        self.keep_waits(unit)
        for post in unit.posts:
            self.posted(post.log)
        for digest, kind, body in unit.definitions:
            self.definitions.setdefault(digest, (kind, body))

    def posted(self, log: str) -> None:
        """Notes that the next operation posts to this log."""
        self._posted.setdefault(log, []).append(len(self.operations))

    def erase(self, unit: Unit) -> None:
        """Once the unit is among the operations: takes what waits, and the texts out of what is kept."""
        self.take_all(unit)
        operations, held = self.operations, self.logs[unit.log]
        held.row.erased_at = erased_at(unit)
        for place in held.units:
            operations[place] = without_texts(self.unit_at(place), unit.erases)
        for place in self._posted.get(unit.log, ()):
            posting = operations[place]
            if isinstance(posting, Posting):
                operations[place] = Posting(emptied(posting.row))
            else:
                operations[place] = without_posts(self.unit_at(place), unit.log)

    def unit_at(self, place: int) -> Unit:
        unit = self.operations[place]
        assert isinstance(unit, Unit), "a log holds the places of units"
        return unit


class Posting:
    """An operation that a person or another process asked for, and that can be asked what it posted."""

    __slots__ = ("row",)

    def __init__(self, row: InboxRow) -> None:
        self.row = row

    def __call__(self, writing: Writing) -> object:
        return writing.post(self.row)
