"""What an erase takes away in the segments: found in the lines before its unit, overwritten once that is stored."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from agentos.persistence.base import Durability, Point, Unit
from agentos.persistence.erasing import without_posts, without_texts
from agentos.persistence.file.blanking import blank_of, blanked
from agentos.persistence.file.blanks import Blank
from agentos.persistence.file.folder import Folder, write_all
from agentos.persistence.file.image import Image
from agentos.persistence.file.lines import is_whole
from agentos.persistence.file.segments import Place
from agentos.persistence.file.tail import sync_data

_log = logging.getLogger(__name__)


class Blanks:
    """The blanks of the units of one batch. Those of a unit take in what the units before it take from the same line."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._so_far: dict[Place, Blank] = {}

    def of(self, unit: Unit) -> list[Blank]:
        """One for each line in the segments that loses something by this unit. Raises StoreDamaged, OSError."""
        found: dict[Place, Blank] = {}
        for place in sorted(_places(self._image, unit)):
            before = self._so_far.get(place)
            line = self._image.read(place)
            blank = blank_of(place, line if before is None else blanked(line, before), unit.log, unit.erases)
            if blank is not None:
                found[place] = blank if before is None else _both(before, blank)
        self._so_far |= found
        return list(found.values())


def _both(before: Blank, after: Blank) -> Blank:
    nulls, texts = before.nulls + after.nulls, before.texts + after.texts
    return Blank(after.segment, after.offset, after.length, after.crc, nulls, texts)


def _places(image: Image, unit: Unit) -> set[Place]:
    held = image.state.logs.get(unit.log)
    own = () if held is None else held.units(held.row.upto, unit.erases)
    return {*own, *image.beside.get(unit.log, ())}


def without_erased(units: Sequence[Unit]) -> Iterator[Unit]:
    """Units that are stored together, without what a later one of them erases: it never comes into a file."""
    for i, unit in enumerate(units):
        for eraser in units[i:]:
            if eraser.erases and eraser.log == unit.log:
                unit = without_texts(unit, eraser.erases)
            if eraser.erases and unit.posts:
                unit = without_posts(unit, eraser.log)
        yield unit


class Overwriting:
    """Writes in the middle of segments. One thread uses it at a time, under the lock of the folder."""

    def __init__(self, folder: Folder, durability: Durability, point: Point) -> None:
        self._folder, self._durability, self._point = folder, durability, point

    def sync(self, number: int) -> None:
        """What any process wrote to a segment lasts, but with `relaxed`. Raises OSError."""
        descriptor = os.open(self._folder.segment(number), os.O_RDWR | os.O_CLOEXEC)
        try:
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def overwrite(self, blanks: Sequence[Blank]) -> None:
        """Lasts, but with `relaxed`. A line that is done already stays. Raises OSError."""
        by_segment: dict[int, list[Blank]] = {}
        for blank in blanks:
            by_segment.setdefault(blank.segment, []).append(blank)
        for number, some in by_segment.items():
            descriptor = os.open(self._folder.segment(number), os.O_RDWR | os.O_CLOEXEC)
            try:
                for blank in some:
                    self._overwrite(descriptor, blank)
                self._sync(descriptor)
            finally:
                os.close(descriptor)

    def _sync(self, descriptor: int) -> None:
        if self._durability is not Durability.RELAXED:
            self._point("fsync")
            sync_data(descriptor)

    def _overwrite(self, descriptor: int, blank: Blank) -> None:
        line = os.pread(descriptor, blank.length, blank.offset)
        after = blanked(line, blank)
        if not is_whole(after):  # it was damaged before, and stays so: the texts go all the same
            path = self._folder.segment(blank.segment)
            _log.error(
                "%s: the line at offset %d, whose texts are erased, is not as it was written", path, blank.offset
            )
        if after != line:
            self._point("write")
            write_all(descriptor, after, blank.offset)
