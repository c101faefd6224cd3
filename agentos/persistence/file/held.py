"""What is known of one log of a file store, and of the places in its segments where something was lost."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from agentos.persistence.base import LogRow
from agentos.persistence.file.folder import segment_name
from agentos.persistence.file.lines import Brief, Whole
from agentos.persistence.file.segments import Place
from agentos.persistence.state import HeldLog

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class Damage(NamedTuple):
    """Bytes of a segment that are no line, or, where there are 0, an end that came too early.

    lost names what stood there, as far as the bytes still tell.
    """

    segment: int
    offset: int
    bytes: int
    lost: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        name = f"segments/{segment_name(self.segment)}"
        if not self.bytes:
            return f"{name}: it ends at offset {self.offset}, and had more lines"
        return f"{name}: {self.bytes} bytes at offset {self.offset} are not as they were"

    def __str__(self) -> str:
        return f"{self.place} ({', '.join(self.lost) or 'nothing tells what stood there'})"


class Torn(NamedTuple):
    """The end of the last segment, left by a write that was cut short."""

    segment: int
    offset: int
    bytes: int


class Places:
    """Where lines stand, in order."""

    __slots__ = ("_lengths", "_packed")

    def __init__(self) -> None:
        self._packed, self._lengths = array("q"), array("q")

    def add(self, place: Place) -> None:
        self._packed.append(place.segment << _OFFSET_BITS | place.offset)
        self._lengths.append(place.length)

    def __iter__(self) -> Iterator[Place]:
        for packed, length in zip(self._packed, self._lengths, strict=True):
            yield Place(*_place(packed), length)


class FileLog(HeldLog):
    """One log, with where its units stand, in order: the last seq of each, its place, and its length. The values of its
    own entries up to erased_upto are erased, whatever the lines still say."""

    __slots__ = ("damage", "ends", "erased_upto", "lengths", "places", "snapshots")

    def __init__(self, row: LogRow) -> None:
        HeldLog.__init__(self, row)
        self.ends, self.places, self.lengths, self.snapshots = array("q"), array("q"), array("q"), array("q")
        self.damage: Damage | None = None
        self.erased_upto = 0

    def add(self, line: Brief | Whole, place: Place) -> None:
        """A unit that is the next one, or the next that is left."""
        row = self.row
        row.seq, row.digest, row.owner, row.epoch = line.seq, line.digest, line.owner, line.epoch
        self.ends.append(line.seq)
        self.places.append(place.segment << _OFFSET_BITS | place.offset)
        self.lengths.append(place.length)
        self.snapshots.extend(line.snapshots)
        if line.erases:
            self.erased_upto, row.erased_at = max(line.erases, self.erased_upto), line.erased_at
        for message in line.messages:
            if message.role == "user":
                self.last_input = message.seq
        self.show(line.conversation, line.turns)

    def units(self, after: int, upto: int) -> Iterator[Place]:
        """Where the units stand that have entries with after < seq <= upto."""
        if after >= upto:
            return
        last = min(bisect_left(self.ends, upto) + 1, len(self.ends))
        for i in range(bisect_right(self.ends, after), last):
            yield Place(*_place(self.places[i]), self.lengths[i])

    def whole_upto(self) -> int:
        """The last seq before the damage."""
        whole = self.row.upto
        for end, packed in zip(self.ends, self.places, strict=True):
            if self.damage is not None and _place(packed) >= (self.damage.segment, self.damage.offset):
                break
            whole = end
        return whole

    def last_snapshot(self, upto: int) -> int:
        """0 when there is none."""
        i = bisect_right(self.snapshots, upto)
        return self.snapshots[i - 1] if i else 0


def _place(packed: int) -> tuple[int, int]:
    """Segment and offset."""
    return packed >> _OFFSET_BITS, packed & _OFFSET_MASK
