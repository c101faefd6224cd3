"""The end of the last segment: adding there, making it last, and cutting off what was not finished.

A sync that fails may leave the system with pages that it takes for written and that are not, so that a later sync says
nothing of them. What such a sync was for is either cut off, or written again before anything else is added.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os

from agentos.persistence.base import Durability, Point
from agentos.persistence.file.folder import Folder, sync_folder, write_all, write_file
from agentos.persistence.file.segments import pieces

_log = logging.getLogger(__name__)


class Tail:
    """One thread uses it at a time. synced is the segment and offset up to which all is known to last."""

    def __init__(self, folder: Folder, durability: Durability, point: Point) -> None:
        self.synced = (0, 0)
        self._folder, self._durability, self._point = folder, durability, point
        self._number = 0
        self._descriptor: int | None = None
        self._unsynced: tuple[int, int] | None = None
        self._failed = False

    def add(self, number: int, offset: int, data: bytes) -> None:
        """Writes at the end of a segment, which is at this offset. `full` syncs at once, `normal` leaves it to `sync`.

        Raises OSError, and then the segment ends where it did.
        """
        descriptor = self._opened(number)
        if self._failed:
            self.sync()
        end = offset + len(data)
        try:
            self._point("write")
            write_all(descriptor, data, offset)
            if self._durability is Durability.FULL:
                self._sync(end)
        except BaseException:
            self._cut_back(offset, end)
            raise
        if self._durability is Durability.NORMAL:
            self._unsynced = (self._unsynced[0] if self._unsynced else offset), end
        elif self._durability is Durability.RELAXED:
            self.synced = number, end  # as if it were: a hole costs what stood there, and not all behind it

    def sync(self) -> None:
        """What was added lasts. Raises OSError."""
        if self._unsynced is None:
            self._failed = False  # what the failed one was for is cut off
            return
        start, end = self._unsynced
        if self._failed:
            self._write_again(start, end)
        self._sync(end)
        self._unsynced, self._failed = None, False

    def begin(self, number: int, first: bytes) -> None:
        """Makes a segment; what a making that was cut short has left is written over. Raises OSError."""
        write_file(self._folder.segment(number), first, self._point)
        sync_folder(self._folder.segments, self._point)

    def begin_together(self, number: int, data: bytes) -> None:
        """Makes a segment that is there with all its lines or not at all, and all before it with it. Raises OSError."""
        self.sync()
        path = self._folder.segment(number)
        write_file(path + ".new", data, self._point)
        os.rename(path + ".new", path)
        try:
            sync_folder(self._folder.segments, self._point)
        except BaseException:
            os.unlink(path)
            raise

    def cut(self, number: int, offset: int) -> None:
        """Ends a segment at this offset. Raises OSError."""
        descriptor = self._opened(number)
        self._point("write")
        os.ftruncate(descriptor, offset)

    def close(self) -> None:
        descriptor, self._descriptor, self._number = self._descriptor, None, 0
        self._unsynced, self._failed = None, False
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self, number: int) -> int:
        """The descriptor of a segment. What was added to the one before lasts by then, or this raises OSError."""
        if self._descriptor is None or self._number != number:
            self.sync()
            self.close()
            self._descriptor = os.open(self._folder.segment(number), os.O_RDWR | os.O_CLOEXEC)
            self._number = number
        return self._descriptor

    def _sync(self, end: int) -> None:
        assert self._descriptor is not None
        try:
            self._point("fsync")
            sync_data(self._descriptor)
        except BaseException:
            self._failed = True
            raise
        self.synced = self._number, end

    def _write_again(self, start: int, end: int) -> None:
        """The same bytes once more, so that the next sync is for them."""
        assert self._descriptor is not None
        path = self._folder.segment(self._number)
        again = list(pieces(self._descriptor, start, end))
        if not all(piece.whole for piece in again):
            raise OSError(errno.EIO, f"lines from offset {start} on did not reach the disk", path)
        write_all(self._descriptor, b"".join(piece.data + b"\n" for piece in again), start)

    def _cut_back(self, offset: int, end: int) -> None:
        assert self._descriptor is not None
        try:
            os.ftruncate(self._descriptor, offset)
        except OSError as error:  # the next append reads what stands there, and cuts off what is torn
            self._unsynced = (offset, end) if self._failed else self._unsynced
            _log.warning("%s was not cut back to %d bytes: %s", self._folder.segment(self._number), offset, error)


def sync_data(descriptor: int) -> None:
    """Down to the disk, past its cache where the system knows of it. Raises OSError."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with contextlib.suppress(OSError):  # a file system that does not know it
            fcntl.fcntl(descriptor, full)
            return
    getattr(os, "fdatasync", os.fsync)(descriptor)
