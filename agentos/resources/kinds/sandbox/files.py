"""The open files of a sandbox directory: they end with it, whoever has them, and grow only as far as there is room.

A thread that nobody waits for any more may use one while it is closed, and must not write to whatever has its number
by then; so each call is done under a lock.
"""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING

from agentos.resources.kinds.sandbox.ledger import Ledger

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class SandboxFile(io.FileIO):
    """A file that is read, on a descriptor of its own."""

    def __init__(self, descriptor: int, mode: str = "rb") -> None:
        self._lock = threading.RLock()
        super().__init__(descriptor, mode)

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        with self._lock:
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._lock:
            return super().readall()

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        with self._lock:
            return super().seek(position, whence)

    def tell(self) -> int:
        with self._lock:
            return super().tell()

    def close(self) -> None:
        with self._lock:
            super().close()

    def told(self) -> os.stat_result | None:
        """What it is now; None once it is closed."""
        with self._lock:
            return None if self.closed else os.fstat(self.fileno())


class GrowingFile(SandboxFile):
    """A file that is written. What it grows by is taken from the ledger first, and given back once it is written when the
    file has no name: the ledger asks those for their sizes. A write is done as a whole, or as far as the disk has room.

    lock is that of the directory.
    """

    def __init__(self, descriptor: int, ledger: Ledger, lock: threading.RLock, *, appends: bool) -> None:
        super().__init__(descriptor, "ab" if appends else "wb")
        self._ledger, self._ledger_lock, self._appends = ledger, lock, appends

    def write(self, data: ReadableBuffer, /) -> int:
        """Raises FolderLimitReached, and writes nothing then; OSError."""
        view = memoryview(data).cast("B")
        with self._ledger_lock, self._lock:
            before = os.fstat(self.fileno())
            start = before.st_size if self._appends else self.tell()
            growth = max(0, start + len(view) - before.st_size)
            self._ledger.take(growth)
            try:
                return self._written(view)
            finally:
                grown = os.fstat(self.fileno()).st_size - before.st_size
                self._ledger.give(growth - (max(0, grown) if before.st_nlink else 0))

    def truncate(self, size: int | None = None, /) -> int:
        """Raises FolderLimitReached; OSError."""
        with self._ledger_lock, self._lock:
            before, after = os.fstat(self.fileno()), self.tell() if size is None else size
            growth = after - before.st_size
            with self._ledger.taken(max(0, growth)):
                super().truncate(after)
            self._ledger.give(max(0, -growth) if before.st_nlink else max(0, growth))
            return after

    def _written(self, view: memoryview) -> int:
        done = 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done
