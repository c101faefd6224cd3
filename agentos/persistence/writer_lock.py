"""How other processes know that a writer lives: it holds a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os


class WriterLock:
    """The lock of writer n of a store file: an flock on a small file beside it, which goes away at the release.

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


def is_dead(file: str, n: int) -> bool:
    """Whether writer n of this store file is gone. What it left behind is removed."""
    try:
        descriptor = os.open(_path(file, n), os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # not ours to judge
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(_path(file, n))
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _path(file: str, n: int) -> str:
    return f"{file}-writer-{n}"


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
