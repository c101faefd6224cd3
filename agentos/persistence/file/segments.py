"""The files of lines, as they are read: whole at a place, or all that stands in a stretch. Nothing that is whole is left
unread, and that somebody else laid hands on a file is noticed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentos.errors import StoreDamaged, StoreUnavailable
from agentos.persistence.file.folder import Folder
from agentos.persistence.file.lines import MARK, is_whole

SEGMENT_BYTES = 64 * 1024 * 1024
"""A segment of this length is not added to; the next one begins."""
OPEN_MAX = 32
"""How many segments are held open for reading."""
CHUNK_BYTES = 1024 * 1024
"""How much of a stretch is read at once."""


class Place(NamedTuple):
    """Where a line stands; length is without its newline."""

    segment: int
    offset: int
    length: int


class Piece(NamedTuple):
    """A stretch of a segment: a whole line, or bytes that are none. end is the offset behind it, newline included.

    data has no newline; a piece that is not closed lacks one in the file as well.
    """

    offset: int
    end: int
    data: bytes
    whole: bool
    closed: bool = True

    @property
    def may_be_torn(self) -> bool:
        """Whether a write that was cut short can have left this: no end, or blocks that were never filled."""
        return not self.whole and (not self.closed or b"\0" in self.data)


class Segments:
    """One thread uses it at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._open: dict[int, _File] = {}

    def size(self, number: int) -> int:
        """Bytes of a segment. Raises StoreUnavailable when it was removed or replaced since it was opened."""
        return self._file(number).size()

    def exists(self, number: int) -> bool:
        return os.path.exists(self._folder.segment(number))

    def read(self, place: Place, mend: Callable[[bytes], bytes] | None = None) -> bytes:
        """The line at a place, as it was written; one that is not, as `mend` makes it. Raises StoreDamaged, OSError."""
        file = self._file(place.segment)
        line = os.pread(file.descriptor, place.length, place.offset)
        if mend is not None and not is_whole(line):
            line = mend(line)
        if not is_whole(line):
            raise StoreDamaged(
                self._folder.url, f"{file.path}: the line at offset {place.offset} is not as it was written"
            )
        return line

    def pieces(self, number: int, offset: int, end: int) -> Iterator[Piece]:
        """All that stands from one offset to another, in order. Raises OSError."""
        return pieces(self._file(number).descriptor, offset, end)

    def close(self) -> None:
        files, self._open = self._open, {}
        for file in files.values():
            os.close(file.descriptor)

    def _file(self, number: int) -> _File:
        file = self._open.get(number)
        if file is None:
            while len(self._open) >= OPEN_MAX:
                os.close(self._open.pop(next(iter(self._open))).descriptor)
            file = self._open[number] = _File(self._folder, number)
        return file


class _File:
    """An open segment."""

    def __init__(self, folder: Folder, number: int) -> None:
        """Raises StoreDamaged when there is none, OSError."""
        self.path, self._url = folder.segment(number), folder.url
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StoreDamaged(self._url, f"{self.path} is missing") from None
        self._identity = os.fstat(self.descriptor)

    def size(self) -> int:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise StoreUnavailable(self._url, f"{self.path} was removed while the store was open") from None
        if not os.path.samestat(found, self._identity):
            raise StoreUnavailable(self._url, f"{self.path} was replaced while the store was open")
        return found.st_size


def pieces(descriptor: int, offset: int, end: int) -> Iterator[Piece]:
    """All that stands from one offset of a file to another, in order. Raises OSError."""
    rest: list[bytes] = []
    start = at = offset
    while at < end and (data := os.pread(descriptor, min(CHUNK_BYTES, end - at), at)):
        at += len(data)
        first, newline, more = data.partition(b"\n")
        rest.append(first)
        if not newline:
            continue
        for line in (b"".join(rest), *more.split(b"\n")[:-1]):
            yield from _parts(line, start)
            start += len(line) + 1
        rest = [more.rpartition(b"\n")[2]]
    if left := b"".join(rest):
        yield Piece(start, start + len(left), left, whole=False, closed=False)


def _parts(line: bytes, offset: int) -> Iterator[Piece]:
    """One piece; or several, where whole lines stand in bytes that lost their newlines, or have others in their place."""
    if is_whole(line):
        yield Piece(offset, offset + len(line) + 1, line, whole=True)
        return
    lost = start = 0
    while start <= len(line):
        end = line.find(MARK, start + 1)
        end = len(line) + 1 if end < 0 else end
        whole = next(filter(is_whole, (line[start:end], line[start : end - 1])), None)
        if whole is not None:
            if lost < start:
                yield Piece(offset + lost, offset + start, line[lost:start], whole=False)
            yield Piece(offset + start, offset + end, whole, whole=True)
            lost = end
        start = end
    if lost <= len(line):
        yield Piece(offset + lost, offset + len(line) + 1, line[lost:], whole=False)
