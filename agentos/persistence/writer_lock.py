"""How other processes know that a writer lives: it holds a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os


class WriterLock:
    """The lock of writer n of a store file: an flock on a small file beside it, which goes away at the release. A
    name that ends with a slash is a folder for these files.

    Numbers of writers are never used again, so a lock that can be had belongs to a dead writer.
    """

    def __init__(self, file: str, n: int) -> None:
        """Takes the lock. Raises OSError."""
        self.path = _path(file, n)
        self._descriptor: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        if self._descriptor is None:
            return
        _remove(self.path)
        os.close(self._descriptor)
        self._descriptor = None


def is_dead(file: str, n: int, *, clear: bool = True) -> bool:
    """Whether writer n of this store file is gone. What it left behind is removed when `clear` says so."""
    try:
        descriptor = _open(_path(file, n))
    except FileNotFoundError:
        return True
    except OSError:
        return False  # not ours to judge
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may be asking at the same moment
        if clear:
            _remove(_path(file, n))
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def has_living_writer(file: str) -> bool:
    """Whether any writer has this store file open, or may have it."""
    numbers = (name.removeprefix(f"{file}-writer-") for name in glob.glob(f"{glob.escape(file)}-writer-*"))
    return any(not is_dead(file, int(number)) for number in numbers if number.isdecimal())


def _path(file: str, n: int) -> str:
    return f"{file}{n}.lock" if file.endswith("/") else f"{file}-writer-{n}"


def _open(path: str) -> int:
    """For a lock, which a descriptor that only reads may have too. Raises OSError."""
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        raise
    except OSError:
        return os.open(path, os.O_RDONLY)


def _remove(path: str) -> None:
    """What is not ours to remove stays, and is found to be dead again."""
    with contextlib.suppress(OSError):
        os.unlink(path)
