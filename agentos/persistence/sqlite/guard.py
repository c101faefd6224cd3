"""Whether the files of an open store are still the ones at its path.

SQLite goes on in a file that was moved, deleted or replaced, and nobody would ever find what it writes there. So the
files are looked at by name again: before each COMMIT, after each read, and whenever SQLite reports an error.
"""

from __future__ import annotations

import os

from agentos.errors import StoreDamaged, StoreUnavailable

PAGE_BYTES = 4096
WAL, INDEX = "-wal", "-shm"
"""What SQLite adds to the name of a file for its write-ahead log and for the index of that."""

_AGAIN = "put it back, or close the store and open it again"


class FileGuard:
    """The file of an open store with its write-ahead log, as they were when SQLite had opened them.

    They stay the same while any process has the store open. A check is three `stat` calls, about 3 us.
    """

    def __init__(self, url: str, path: str) -> None:
        """Raises StoreUnavailable, StoreDamaged."""
        self._url, self._path = url, path
        self._size = 0
        self._wal, self._index = path + WAL, path + INDEX
        try:
            main = os.stat(path)
            self._main_is = main.st_dev, main.st_ino
            self._wal_is, self._index_is = os.stat(self._wal).st_ino, os.stat(self._index).st_ino
        except OSError as error:
            raise self._missing(error) from error

    def check(self) -> tuple[int, bool]:
        """How many bytes the write-ahead log takes, and whether the file is as large as it ever was.

        Raises StoreUnavailable when the file is gone or another one, StoreDamaged when its log is.
        """
        known = self._size  # before the look: another thread may see the file grow meanwhile
        try:
            main, wal, index = os.stat(self._path), os.stat(self._wal), os.stat(self._index)
        except OSError as error:
            raise self._missing(error) from error
        if main.st_ino != self._main_is[1] or main.st_dev != self._main_is[0]:
            raise StoreUnavailable(self._url, f"{self._path} was replaced by another file while it was open; {_AGAIN}")
        if wal.st_ino != self._wal_is or index.st_ino != self._index_is:
            raise self._unlogged(self._wal if wal.st_ino != self._wal_is else self._index, "replaced")
        if main.st_size < known:
            return wal.st_size, False
        self._size = main.st_size
        return wal.st_size, True

    def judge_smaller(self, pages: int | None) -> None:
        """Why the file became smaller, by the number of its pages that SQLite knows, None when it cannot say: another
        program may have vacuumed it. Raises StoreDamaged when it was cut off."""
        known = self._size
        size = os.stat(self._path).st_size
        if size < known and (pages is None or pages * PAGE_BYTES >= known):
            raise StoreDamaged(self._url, f"{self._path} was truncated from {known} to {size} bytes while it was open")
        self._size = size

    def is_replaced(self) -> bool:
        """Whether another file stands at the path; its log must not be touched."""
        try:
            main = os.stat(self._path)
        except OSError:
            return False
        return (main.st_dev, main.st_ino) != self._main_is

    def _missing(self, error: OSError) -> StoreUnavailable | StoreDamaged:
        if error.filename in (self._wal, self._index):
            return self._unlogged(error.filename, "removed")
        why = f"was deleted or moved away while it was open ({error.strerror})"
        return StoreUnavailable(self._url, f"{self._path} {why}; {_AGAIN}")

    def _unlogged(self, name: str, what: str) -> StoreDamaged:
        return StoreDamaged(
            self._url,
            f"{name} was {what} while the store was open; close it now, which copies what this process knows into the file",
        )


class FrozenGuard:
    """A file that is read without locks, which is right only as long as nobody writes to it."""

    def __init__(self, url: str, path: str) -> None:
        self._url, self._path = url, path
        self._was = self._look()

    def check(self) -> tuple[int, bool]:
        """As that of FileGuard. Raises StoreUnavailable."""
        if self._look() != self._was:
            raise StoreUnavailable(
                self._url,
                f"{self._path} changed while it was read without locks, since its folder cannot be written to;"
                " open it again",
            )
        return 0, True

    def judge_smaller(self, pages: int | None) -> None:
        """Nothing is left to judge."""

    def _look(self) -> tuple[int, ...] | None:
        try:
            main = os.stat(self._path)
        except OSError:
            return None
        return main.st_dev, main.st_ino, main.st_size, main.st_mtime_ns, wal_bytes(self._path)


Guard = FileGuard | FrozenGuard


def wal_bytes(path: str) -> int:
    """The size of the write-ahead log of a file, 0 when there is none."""
    try:
        return os.stat(path + WAL).st_size
    except OSError:
        return 0
