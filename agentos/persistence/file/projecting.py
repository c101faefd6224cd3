"""What the segments say, as a private SQLite database: for queries alone, and made anew by each process that asks."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from agentos.persistence.base import LogRow, Unit, Verdict
from agentos.persistence.file.image import Image
from agentos.persistence.file.lines import AnyWhole, Begin, Claim, End, Post, Whole, decode_whole
from agentos.persistence.file.units import unit_of
from agentos.persistence.projection import in_batches
from agentos.persistence.sqlite import statements as sql
from agentos.persistence.sqlite.writing import Writing

T = TypeVar("T")

FED_BYTES = 256 * 1024
"""About how much is read, and then stored, before other work goes on."""

_BEGIN = "INSERT OR IGNORE INTO writers (n, incarnation, host, pid, started_at) VALUES (?, ?, ?, ?, ?)"
_SET_HEAD = "UPDATE logs SET owner = ?, epoch = ?, seq = ?, digest = ? WHERE id = ? AND seq < ?"

Elsewhere = Callable[[Callable[[Image], T]], Awaitable[T]]
"""Runs something where the image may be read, after it has caught up, and while nobody writes."""


class Projection:
    """How far the segments stand in the database."""

    def __init__(self) -> None:
        self._segment, self._offset = 1, 0

    async def feed(self, db: sqlite3.Connection, elsewhere: Elsewhere[Any]) -> None:
        """Brings in what the segments say now and did not at the last call, a little at a time, so that other work goes
        on. Raises StoreError, OSError."""
        writing = Writing(db)
        goal = await elsewhere(lambda image: (image.segment, image.offset))
        while (self._segment, self._offset) < goal:
            _do_all(db, writing, await elsewhere(lambda image: self._next(image, goal)))
            await asyncio.sleep(0)

    def _next(self, image: Image, goal: tuple[int, int]) -> list[AnyWhole]:
        """Some lines on, or the beginning of the next segment."""
        number, first = self._segment, self._offset
        end = goal[1] if number == goal[0] else image.segments.size(number)
        lines: list[AnyWhole] = []
        for found in image.segments.pieces(number, first, end):
            piece = found if found.whole else image.unfinished.finished(number, found)
            with contextlib.suppress(msgspec.MsgspecError):  # a kind of line that this program does not know; told of
                lines += [decode_whole(piece.data)] if piece.whole else []
            self._offset = piece.end
            if piece.end - first > FED_BYTES:
                break
        else:
            self._segment, self._offset = (number, end) if number == goal[0] else (number + 1, 0)
        return lines


def _do_all(db: sqlite3.Connection, writing: Writing, lines: Iterable[AnyWhole]) -> None:
    for step in in_batches(unit_of(line) if isinstance(line, Whole) else line for line in lines):
        if isinstance(step, list):
            _append(db, writing, step)
        elif isinstance(step, Post):
            writing.post(step.row())
        elif isinstance(step, Claim):
            db.execute(sql.TAKE_LOG, (step.owner, step.epoch, step.log))
        elif isinstance(step, Begin):
            db.execute(_BEGIN, (step.writer, step.incarnation, step.host, step.pid, step.at))
        elif isinstance(step, End):
            writing.end(step.writer, step.at)


def _append(db: sqlite3.Connection, writing: Writing, units: Sequence[Unit]) -> None:
    """A unit that follows one that was lost goes in all the same: what is left can be looked at. One that is there already
    does not."""
    verdicts = writing.append(units)
    for unit, verdict in zip(units, verdicts, strict=True):
        if verdict is not Verdict.STORED and _make_fit(db, unit):
            writing.append([unit])


def _make_fit(db: sqlite3.Connection, unit: Unit) -> bool:
    """Whether it can be made to follow what is there."""
    found = db.execute("SELECT seq FROM logs WHERE id = ?", (unit.log,)).fetchone()
    if found is None:
        kind = unit.log.partition("_")[0]
        unit.create = LogRow(id=unit.log, kind=kind, owner=unit.owner, epoch=unit.epoch, seq=0, digest=b"")
        return True
    unit.create = None
    db.execute(_SET_HEAD, (unit.owner, unit.epoch, unit.previous_seq, unit.previous, unit.log, unit.seq))
    return bool(found[0] < unit.seq)
