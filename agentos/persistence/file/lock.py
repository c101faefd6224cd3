"""The lock of the folder: one process appends at a time, and no one reads half of what it does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator

from agentos.errors import StoreBusy

_RETRY_S = 0.005


class FolderLock:
    """An flock on the file `lock`, which ends with its process. One thread uses it at a time."""

    def __init__(self, url: str, path: str) -> None:
        self._url, self._path = url, path
        self._descriptor: int | None = None
        self._writes = False

    @contextlib.contextmanager
    def held(self, limit_ms: int) -> Iterator[None]:
        """For appending. Raises StoreBusy, OSError."""
        self._acquire(fcntl.LOCK_EX, limit_ms)
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def shared(self, limit_ms: int) -> Iterator[None]:
        """For reading; where there is no lock, or none that may be opened, nobody appends. Raises StoreBusy, OSError."""
        try:
            self._acquire(fcntl.LOCK_SH, limit_ms)
        except (FileNotFoundError, PermissionError):
            yield
            return
        try:
            yield
        finally:
            self._release()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _acquire(self, how: int, limit_ms: int) -> None:
        deadline = time.monotonic() + limit_ms / 1000
        while True:
            descriptor = self._open(how == fcntl.LOCK_EX)
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._busy(limit_ms) from None
                time.sleep(random.uniform(0, _RETRY_S))
                continue
            if self._is_current(descriptor):
                return
            self.close()  # somebody removed the file: its next holder would not see us

    def _open(self, for_writing: bool) -> int:
        if self._descriptor is not None and for_writing and not self._writes:
            self.close()
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT if for_writing else os.O_RDONLY
            self._descriptor = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
            self._writes = for_writing
        return self._descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _release(self) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _busy(self, limit_ms: int) -> StoreBusy:
        return StoreBusy(
            self._url,
            f"another process held {os.path.basename(self._path)} for more than {limit_ms} ms (busy_timeout_ms);"
            " 'agentos writers' lists who is there",
        )
