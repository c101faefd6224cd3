"""What an open file store holds for writing, and how it writes: under the lock, on top of what others wrote meanwhile."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from agentos.errors import StoreDamaged, StoreError, StoreUnavailable
from agentos.persistence.base import InboxRow, LogRow, Unit, Verdict
from agentos.persistence.file.blanks import Blank
from agentos.persistence.file.folder import Folder, unavailable
from agentos.persistence.file.held import Torn
from agentos.persistence.file.image import Image
from agentos.persistence.file.lines import (
    LINE_BYTES_MAX,
    Begin,
    Blanked,
    Claim,
    Continued,
    End,
    Post,
    Repaired,
    Whole,
    encode_line,
)
from agentos.persistence.file.lock import FolderLock
from agentos.persistence.file.overwriting import Blanks, Overwriting, without_erased
from agentos.persistence.file.segments import Place
from agentos.persistence.file.tail import Tail
from agentos.persistence.file.units import line_of
from agentos.persistence.reading import SEQ_MAX
from agentos.persistence.state import refusal
from agentos.persistence.together import fit_together, none_of
from agentos.persistence.writer_lock import WriterLock, is_dead

_log = logging.getLogger(__name__)

T = TypeVar("T")
AnyLine = Whole | Begin | Blanked | Claim | End | Post | Repaired
Decision = tuple[Sequence[AnyLine], T]
"""What to write, and what to answer when it is written."""


class Writer:
    """One thread uses it at a time: that of the store's worker while it has jobs, else the loop's."""

    def __init__(
        self,
        folder: Folder,
        image: Image,
        lock: FolderLock,
        tail: Tail,
        overwriting: Overwriting,
        segment_bytes: int,
    ) -> None:
        self.number = 0
        self._overwriting = overwriting
        self._folder, self._image, self._lock = folder, image, lock
        self._tail, self._segment_bytes = tail, segment_bytes
        self._alive: WriterLock | None = None

    def register(self, incarnation: str, limit_ms: int) -> int:
        """The number of this writer; dead ones are marked as ended. Raises StoreError."""
        try:
            self._commit(lambda: self._begin(incarnation), limit_ms)
        except BaseException:
            self.let_go()
            raise
        return self.number

    def append(self, units: Sequence[Unit], limit_ms: int) -> list[Verdict]:
        return self._commit(lambda: self._judge(units), limit_ms)

    def append_together(self, units: Sequence[Unit], limit_ms: int) -> list[Verdict]:
        """The same in a segment of its own, which has all of them when it comes to be."""
        return self._commit(lambda: self._judge(units, together=True), limit_ms, together=True)

    def post(self, row: InboxRow, limit_ms: int) -> bool:
        """False when the key was there already."""
        line = Post(log=row.log, key=row.key, kind=row.kind, salt=row.salt, body=row.body)
        knows = self._image.state.knows
        return self._commit(lambda: ([], False) if knows(row.log, row.key) else ([line], True), limit_ms)

    def claim(self, log: str, limit_ms: int) -> LogRow | None:
        return self._commit(lambda: self._claim(log), limit_ms)

    def end(self, writer: int, limit_ms: int) -> bool:
        """False when there is no such writer, or it had ended."""
        return self._commit(lambda: self._end(writer), limit_ms)

    def settle(self, limit_ms: int) -> bool:
        """Whether what units erased is overwritten."""
        return self._commit(lambda: ([], not self._image.unfinished), limit_ms)

    def sync(self) -> None:
        """What was written lasts. Raises StoreError."""
        try:
            self._tail.sync()
        except OSError as error:
            raise unavailable(self._folder.url, error) from error

    def close(self, limit_ms: int) -> None:
        """Marks the writer as ended and lets go of its files. What fails here is told in the log."""
        try:
            self.end(self.number, limit_ms)
        except StoreError as error:
            _log.warning("writer %d was not marked as ended: %s", self.number, error)
        try:
            self.sync()
        except StoreError as error:
            _log.error("what was acknowledged last may not survive a power cut: %s", error)
        finally:
            self.let_go()

    def release(self) -> None:
        """Counts as dead from now on."""
        alive, self._alive = self._alive, None
        if alive is not None:
            alive.release()

    def let_go(self) -> None:
        """Closes what it holds open."""
        self.release()
        self._tail.close()

    def is_dead(self, writer: int) -> bool:
        return is_dead(self._folder.writers, writer)

    def _commit(self, decide: Callable[[], Decision[T]], limit_ms: int, *, together: bool = False) -> T:
        try:
            with self._lock.held(limit_ms):
                self._image.catch_up()
                self._finish_if_possible()
                is_stuck = bool(self._image.unfinished)
                lines, answer = decide()
                if together and len(lines) > 1:
                    self._write_together(lines)
                elif lines:
                    self._write(lines)
                if not is_stuck:
                    self._finish_if_possible()
                return answer
        except OSError as error:
            raise unavailable(self._folder.url, error) from error

    def _judge(self, units: Sequence[Unit], *, together: bool = False) -> Decision[list[Verdict]]:
        """The lines of the units that go on the heads, each on top of those before it."""
        logs, blanks = self._image.state.logs, Blanks(self._image)
        moved: dict[str, LogRow] = {}
        stored: list[Unit] = []
        losing: dict[int, Sequence[Blank]] = {}
        verdicts = []
        for unit in units:
            held = logs.get(unit.log)
            head = moved.get(unit.log) or (None if held is None else held.row)
            damaged = held is not None and held.damage is not None
            refused = Verdict.CONFLICT if damaged else refusal(unit, head)
            if refused is None and unit.erases:
                refused = self._find_blanks(unit, blanks, losing, len(stored))
            verdicts.append(refused or Verdict.STORED)
            if refused is None:
                stored.append(unit)
                moved[unit.log] = _head_after(unit)
        if together and not fit_together(verdicts):
            return [], none_of(verdicts)
        return [line_of(unit, losing.get(i, ())) for i, unit in enumerate(without_erased(stored))], verdicts

    def _find_blanks(
        self, unit: Unit, blanks: Blanks, losing: dict[int, Sequence[Blank]], place: int
    ) -> Verdict | None:
        """Notes what the unit that comes to this place takes from which lines; why it cannot, else None."""
        try:
            self._finish()  # else a line would have to be overwritten for two units
            losing[place] = blanks.of(unit)
        except StoreDamaged as error:
            _log.error("%s cannot be erased: %s", unit.log, error)
            return Verdict.CONFLICT
        return None

    def _finish_if_possible(self) -> None:
        """What cannot be overwritten now is tried again with the next write; what was stored stays stored."""
        try:
            self._finish()
        except (OSError, StoreError) as error:
            _log.error("erased texts still stand in the files of %s: %s", self._folder.url, error)

    def _finish(self) -> None:
        """Overwrites what units erased that are on the disk, and says so. Raises StoreError, OSError."""
        if not self._image.unfinished:
            return
        self._tail.sync()
        self._overwriting.sync(self._image.segment)  # a process that ended may have left it unsynced
        for (log, seq), blanks in self._image.unfinished.units():
            self._overwriting.overwrite(blanks)
            self._write([Blanked(log=log, seq=seq)])

    def _begin(self, incarnation: str) -> Decision[int]:
        state = self._image.state
        owners = (held.row.owner for held in state.logs.values())
        number = max([0, *state.writers, *owners]) + 1
        while not self.is_dead(number):
            number += 1
        self._alive = WriterLock(self._folder.writers, number)  # before anybody else can see the number
        self.number = number
        at = _now()
        begin = Begin(writer=number, incarnation=incarnation, host=socket.gethostname(), pid=os.getpid(), at=at)
        open_ = (n for n, row in state.writers.items() if row.ended_at is None)
        return [begin, *(End(writer=n, at=at) for n in open_ if self.is_dead(n))], number

    def _claim(self, log: str) -> Decision[LogRow | None]:
        state = self._image.state
        held = state.logs.get(log)
        if held is None or not state.may_claim(held.row, self.number, self.is_dead):
            return [], None
        self._image.line(log, SEQ_MAX)  # raises when a part is lost
        row = msgspec.structs.replace(held.row, owner=self.number, epoch=held.row.epoch + 1)
        line = Claim(log=log, owner=row.owner, epoch=row.epoch, seq=row.seq, digest=row.digest)
        return [line], row

    def _end(self, writer: int) -> Decision[bool]:
        row = self._image.state.writers.get(writer)
        if row is None or row.ended_at is not None:
            return [], False
        return [End(writer=writer, at=_now())], True

    def _write(self, lines: Sequence[AnyLine]) -> None:
        image = self._image
        if image.torn is not None:
            lines = [self._cut_off(image.torn), *lines]
        elif image.offset >= self._segment_bytes:
            self._begin_segment()
        data, places = self._encode(lines, image.segment, image.offset)
        self._tail.add(image.segment, image.offset, data)
        image.added(list(zip(lines, places, strict=True)), image.offset + len(data))

    def _encode(self, lines: Sequence[AnyLine], number: int, start: int) -> tuple[bytes, list[Place]]:
        segment, synced = max(self._image.synced, self._tail.synced)
        encoded: list[bytes] = []
        places: list[Place] = []
        size = 0
        for line in lines:
            line.synced = synced if segment == number else 0
            encoded.append(data := encode_line(line))
            if len(data) > LINE_BYTES_MAX:
                raise StoreUnavailable(
                    self._folder.url, f"a unit of {len(data)} bytes is over {LINE_BYTES_MAX} (LINE_BYTES_MAX)"
                )
            places.append(Place(number, start + size, len(data) - 1))
            size += len(data)
        return b"".join(encoded), places

    def _cut_off(self, torn: Torn) -> Repaired:
        """Cuts off what a write that was cut short has left, and says so."""
        path = self._folder.segment(torn.segment)
        self._tail.cut(torn.segment, torn.offset)
        _log.warning("%s: %d bytes at offset %d were a torn line and are cut off", path, torn.bytes, torn.offset)
        return Repaired(offset=torn.offset, bytes=torn.bytes, at=_now())

    def _begin_segment(self) -> None:
        """The next one is made first, and then the last line of this one tells of it."""
        image = self._image
        number = image.segment + 1
        first = encode_line(image.header(number))
        self._tail.begin(number, first)
        self._tail.add(image.segment, image.offset, encode_line(Continued(number=number)))
        image.enter(number)
        image.offset = len(first)

    def _write_together(self, lines: Sequence[AnyLine]) -> None:
        """Lines that are read all or not at all: they stand in the next segment, which gets its name when it is whole and
        counts from then on, also when the line that leads to it cannot be written any more."""
        image = self._image
        if image.torn is not None:
            self._write([])  # what was torn is cut off first
        number = image.segment + 1
        header = image.header(number)
        header.together = True
        first = encode_line(header)
        data, places = self._encode(lines, number, len(first))
        self._tail.begin_together(number, first + data)
        try:
            self._tail.add(image.segment, image.offset, encode_line(Continued(number=number)))
        except OSError as error:
            _log.warning("%s: the line that leads on to the next segment is missing: %s", self._folder.url, error)
        image.enter(number)
        image.added(list(zip(lines, places, strict=True)), len(first) + len(data))


def _head_after(unit: Unit) -> LogRow:
    return LogRow(id=unit.log, kind="", owner=unit.owner, epoch=unit.epoch, seq=unit.seq, digest=unit.digest)


def _now() -> int:
    return time.time_ns() // 1000
