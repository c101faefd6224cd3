"""Erases whose lines are not known to be overwritten: what the units say of them, and what it makes of the lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from agentos.persistence.file.blanking import blanked
from agentos.persistence.file.blanks import Blank
from agentos.persistence.file.lines import Brief, decode_brief, is_whole
from agentos.persistence.file.segments import Piece, Segments

_SAYS_BLANKS = b'"blanks":['

Unit = tuple[str, int]
"""log and seq of the unit that erases."""


class Unfinished:
    """The erases of the lines that were read, from the unit that says so to the line `blanked`."""

    def __init__(self) -> None:
        self._units: dict[Unit, Sequence[Blank]] = {}
        self._by_place: dict[tuple[int, int], Blank] = {}
        self._ahead: dict[tuple[int, int], Blank] | None = None

    def __bool__(self) -> bool:
        return bool(self._units)

    def units(self) -> list[tuple[Unit, list[Blank]]]:
        """Oldest first. A line that several of them take from has the blank of the last one, which takes all."""
        return [(unit, [self._last(blank) for blank in blanks]) for unit, blanks in self._units.items()]

    def _last(self, blank: Blank) -> Blank:
        return self.blank_at(blank.segment, blank.offset) or blank

    def begin(self, log: str, seq: int, blanks: Sequence[Blank]) -> None:
        self._units[log, seq] = blanks
        self._by_place.update({(blank.segment, blank.offset): blank for blank in blanks})

    def end(self, log: str, seq: int) -> None:
        for blank in self._units.pop((log, seq), ()):
            if self.blank_at(blank.segment, blank.offset) is blank:
                del self._by_place[blank.segment, blank.offset]

    def blank_at(self, segment: int, offset: int) -> Blank | None:
        """What the line at this place is still to lose."""
        return self._by_place.get((segment, offset)) if self._by_place else None

    def look_ahead(self, segments: Segments, number: int, offset: int) -> None:
        """Reads what units from here on say, which may explain a line before them. Raises StoreError, OSError."""
        if self._ahead is None:
            self._ahead = {(blank.segment, blank.offset): blank for blank in _blanks(segments, number, offset)}

    def forget_ahead(self) -> None:
        self._ahead = None

    def finished(self, segment: int, piece: Piece) -> Piece:
        """The piece as it will be when it is a line that a unit further on explains; else as it is."""
        blank = (self._ahead or {}).get((segment, piece.offset)) or self.blank_at(segment, piece.offset)
        if blank is None or blank.length != len(piece.data):
            return piece
        line = blanked(piece.data, blank)
        return piece._replace(data=line, whole=True) if is_whole(line) else piece


def _blanks(segments: Segments, number: int, offset: int) -> Iterator[Blank]:
    while segments.exists(number):
        for piece in segments.pieces(number, offset, segments.size(number)):
            if piece.whole and _SAYS_BLANKS in piece.data:
                try:
                    line = decode_brief(piece.data)
                except msgspec.MsgspecError:
                    continue  # told of when it is read in its turn
                yield from line.blanks if isinstance(line, Brief) else ()
        number, offset = number + 1, 0
