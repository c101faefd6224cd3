"""What the segments say, as far as they were read: the state of the store, and where in the segments each unit stands."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import partial

import msgspec

from agentos.errors import StoreDamaged
from agentos.ids import LogId
from agentos.persistence.base import LogRow, TakenKey
from agentos.persistence.file.blanking import blanked
from agentos.persistence.file.folder import Folder
from agentos.persistence.file.held import Damage, FileLog, Places, Torn
from agentos.persistence.file.lines import (
    AnyBrief,
    Begin,
    Blanked,
    Brief,
    Claim,
    Continued,
    End,
    Post,
    Segment,
    Whole,
    decode_brief,
    encode_line,
)
from agentos.persistence.file.segments import Piece, Place, Segments
from agentos.persistence.file.unfinished import Unfinished
from agentos.persistence.state import StoreState

_log = logging.getLogger(__name__)

_NAMED = re.compile(rb'"op":"(unit|post|claim)",(?:"synced":\d+,)?"log":"([!#-\[\]-~]{1,256})"')
_NO_DIGEST = b""


class Image:
    """Reads on from where it stopped, with `catch_up`. One thread uses it at a time.

    segment and offset are where it stands; synced is the segment and offset up to which the lines say that all was on the
    disk. foreign counts the bytes of other handles that it has read. beside are, by log, the lines that have something for
    it and are none of its units: what was posted to it.
    """

    def __init__(self, folder: Folder, store: str) -> None:
        self.state: StoreState[FileLog] = StoreState()
        self.definitions: dict[str, Place] = {}
        self.segments = Segments(folder)
        self.segment, self.offset, self.foreign = 1, 0, 0
        self.synced = (0, 0)
        self.damages: list[Damage] = []
        self.torn: Torn | None = None
        self.folder, self.url = folder, folder.url
        self._store = store
        self.beside: dict[str, Places] = {}
        self.unfinished = Unfinished()
        self._continued = False

    def catch_up(self) -> None:
        """Raises StoreDamaged, StoreUnavailable, OSError; what was read until then stays."""
        try:
            self._catch_up()
        finally:
            self.unfinished.forget_ahead()

    def _catch_up(self) -> None:
        while True:
            size = self.segments.size(self.segment)
            if size < (self.offset or len(encode_line(self.header(self.segment)))):
                raise StoreDamaged(self.url, self._cut_short(size))
            if size > self.offset:
                self._read(size)
            self._continued = self._continued or self._comes_together(self.segment + 1)
            if not self._continued:
                return
            self.enter(self.segment + 1)

    def bytes_ahead(self) -> int:
        """How much there is to read; below 0 when the segment was cut. Raises StoreError, OSError."""
        ahead = self.segments.size(self.segment) - self.offset
        number = self.segment + 1
        while ahead > 0 and self.segments.exists(number):
            ahead += self.segments.size(number)
            number += 1
        return ahead

    def enter(self, number: int) -> None:
        """Goes on at the beginning of a segment."""
        self.segment, self.offset, self._continued = number, 0, False

    def added(self, lines: Sequence[tuple[AnyBrief | Whole, Place]], end: int) -> None:
        """Takes up what this handle wrote itself, up to a new end."""
        for line, place in lines:
            self._apply(line, place)
        self.offset, self.torn = end, None

    def read(self, place: Place) -> bytes:
        """The line at a place, without the texts that a unit erased and nobody has overwritten yet. Raises StoreDamaged,
        OSError."""
        blank = self.unfinished.blank_at(place.segment, place.offset)
        return self.segments.read(place) if blank is None else self.segments.read(place, partial(blanked, blank=blank))

    def line(self, log: str, upto: int) -> list[tuple[FileLog, int]]:
        """The logs that make up a log, with the last seq that counts of each. Raises StoreDamaged when a unit of that
        part of it was lost."""
        line = self.state.line(log, self.url)
        for held, end in line:
            if held.damage is not None and min(upto, end) > held.whole_upto():
                raise StoreDamaged(self.url, f"{held.damage.place}, and {held.row.id} lost a part of itself with them")
        return line

    def _read(self, size: int) -> None:
        """Bytes that a power cut may have left are undecided until a line follows that was written when what stood there
        was on the disk already. Where none does, they are a torn end, and the lines behind them with them."""
        undecided: list[tuple[Piece, AnyBrief | None]] = []
        for found in self.segments.pieces(self.segment, self.offset, size):
            piece = self._finished(found)
            line = self._decode(piece)
            if piece.may_be_torn or (undecided and (line is None or line.synced <= undecided[0][0].offset)):
                undecided.append((piece, line))
                continue
            self._take_all(undecided)
            undecided = []
            self._take(piece, line)
        if not self._continued and self._goes_on_beyond():
            self._take_all(undecided)
            self._end_early()
        elif undecided:
            self.torn = Torn(self.segment, self.offset, size - self.offset)
        else:
            self.torn = None

    def _finished(self, piece: Piece) -> Piece:
        """One that an erase has overwritten in part, as it will be."""
        if piece.whole or not piece.closed:
            return piece
        self.unfinished.look_ahead(self.segments, self.segment, self.offset)
        return self.unfinished.finished(self.segment, piece)

    def _goes_on_beyond(self) -> bool:
        """Whether something was written to the next segment, though the line that leads to it is not here."""
        number = self.segment + 1
        return self.segments.exists(number) and self.segments.size(number) > len(encode_line(self.header(number)))

    def _end_early(self) -> None:
        if not self._continued and not self._comes_together(self.segment + 1):
            self._tell(Damage(self.segment, self.offset, 0))
        self.torn, self._continued = None, True

    def _comes_together(self, number: int) -> bool:
        """Whether a segment is there that counts before a line leads to it."""
        if not self.segments.exists(number):
            return False
        for piece in self.segments.pieces(number, 0, self.segments.size(number)):
            header = self._decode(piece)
            return isinstance(header, Segment) and header.together
        return False

    def _take_all(self, undecided: list[tuple[Piece, AnyBrief | None]]) -> None:
        for piece, line in undecided:
            self._take(piece, line)

    def _take(self, piece: Piece, line: AnyBrief | None) -> None:
        if line is None:
            self._lose(piece.offset, piece.end, piece.data)
        else:
            self._apply(line, Place(self.segment, piece.offset, len(piece.data)))
            self.synced = max(self.synced, (self.segment, line.synced))
        self.foreign += piece.end - self.offset
        self.offset = piece.end  # with each piece: a read that fails goes on from here

    def _decode(self, piece: Piece) -> AnyBrief | None:
        """None for what is no line that this program knows."""
        if not piece.whole:
            return None
        try:
            return decode_brief(piece.data)
        except msgspec.MsgspecError as error:
            _log.warning("store %s: a line at offset %d of %s: %s", self.url, piece.offset, self._path(), error)
            return None

    def _apply(self, line: AnyBrief | Whole, place: Place) -> None:
        state = self.state
        if isinstance(line, (Brief, Whole)):
            self._apply_unit(line, place)
        elif isinstance(line, Post):
            state.post(line.row())
            self._note_beside(place, line.log)
        elif isinstance(line, Claim):
            row = self._held(line.log, place).row
            row.owner, row.epoch = line.owner, line.epoch
        elif isinstance(line, Begin):
            state.begin(line.writer, line.incarnation, line.host, line.pid, line.at)
        elif isinstance(line, End):
            state.end(line.writer, line.at)
        elif isinstance(line, Continued):
            self._continued = True
        elif isinstance(line, Blanked):
            self.unfinished.end(line.log, line.seq)
        elif isinstance(line, Segment) and (line.store, line.number) != (self._store, place.segment):
            raise StoreDamaged(self.url, f"{self._path()} is segment {line.number} of store {line.store}")

    def _apply_unit(self, line: Brief | Whole, place: Place) -> None:
        held = self.state.logs.get(line.log)
        if held is None and line.create is not None:
            held = self.state.logs[line.log] = FileLog(msgspec.structs.replace(line.create))
        elif held is None:
            held = self._held(line.log, place)
        elif line.seq <= held.row.seq:
            self._tell(Damage(place.segment, place.offset, place.length, (f"unit {line.log}, twice",)))
            self._note_beside(place, line.log, *(post.log for post in line.posts))
            return
        elif not _fits(held.row, line):
            self._mark(held, place)
        held.add(line, place)
        self.state.keep_waits(line)
        self._note_beside(place, *(post.log for post in line.posts))
        if line.blanks:
            self.unfinished.begin(line.log, line.seq, line.blanks)
        for key in line.taken if self.damages else ():  # one whose post was lost is remembered all the same
            self.state.remember(TakenKey(log=line.log, key=key, kind="", seq=line.seq))
        for digest, *_ in line.definitions:
            self.definitions.setdefault(digest, place)

    def _note_beside(self, place: Place, *logs: str) -> None:
        for log in logs:
            places = self.beside.get(log)
            if places is None:
                places = self.beside[log] = Places()
            places.add(place)

    def _held(self, log: str, place: Place) -> FileLog:
        """The log; one whose beginning was lost counts as damaged."""
        held = self.state.logs.get(log)
        if held is None:
            kind = log.partition("_")[0]
            row = LogRow(id=LogId(log), kind=kind, owner=0, epoch=0, seq=0, digest=_NO_DIGEST)
            held = self.state.logs[log] = FileLog(row)
            self._mark(held, place)
        return held

    def _mark(self, held: FileLog, place: Place) -> None:
        if held.damage is None:
            known = self.damages[-1] if self.damages else None
            held.damage = known or Damage(self.segment, place.offset, place.length, ("what came before it",))

    def _lose(self, offset: int, end: int, data: bytes) -> None:
        """Tells of bytes that are no line, and marks the logs that lost a unit with them."""
        named = [(op.decode(), log.decode()) for op, log in _NAMED.findall(data)]
        damage = Damage(self.segment, offset, end - offset, tuple(" ".join(name) for name in named))
        self._tell(damage)
        for op, log in named:
            if op == "unit":
                held = self._held(log, Place(self.segment, offset, len(data)))
                held.damage = held.damage or damage

    def _tell(self, damage: Damage) -> None:
        self.damages.append(damage)
        _log.warning("store %s: %s; the rest is read", self.url, damage)

    def header(self, number: int) -> Segment:
        """The first line of a segment of this store."""
        return Segment(store=self._store, number=number)

    def _path(self) -> str:
        return self.folder.segment(self.segment)

    def _cut_short(self, size: int) -> str:
        if not self.offset:
            return f"{self._path()} has {size} bytes: not even its first line is there"
        return f"{self._path()} has {size} bytes and had {self.offset}: it was cut while the store was open"


def _fits(row: LogRow, line: Brief | Whole) -> bool:
    """A higher epoch tells of a claim that was lost, and of nothing more."""
    same_writer = (row.owner, row.epoch) == (line.owner, line.epoch) or line.epoch > row.epoch
    return same_writer and (row.seq, row.digest) == (line.previous_seq, line.previous) and line.create is None
