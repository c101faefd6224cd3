"""A folder that is held by a descriptor: one that was given, and stays, or one made for a while, and removed.

The descriptor is opened once. Whatever becomes of the path afterwards, all that is done through it is done inside.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from agentos.errors import FolderGone, ResourceClosed
from agentos.resources.folders.below import FOLDER, mount_of
from agentos.resources.folders.emptying import empty_and
from agentos.resources.process.threads import ToolThreads

PREFIX = "agentos-"


class HeldFolder:
    """path is where it stood when it was opened, without links; made says whether it is removed by `close`."""

    def __init__(self, path: Path, *, made: bool) -> None:
        self.path, self.made = path, made
        self._lock = threading.Lock()
        self.closed = self._released = False
        self._descriptor = os.open(path, FOLDER)
        try:
            self.mount = mount_of(self._descriptor)
        except OSError:
            os.close(self._descriptor)
            raise

    @classmethod
    def given(cls, path: Path) -> HeldFolder:
        """One that is there, and stays. Raises OSError, also when it is no folder."""
        return cls(path.resolve(strict=True), made=False)

    @classmethod
    def new(cls, parent: Path | None = None, prefix: str = PREFIX) -> HeldFolder:
        """A new one with mode 0700, in the temporary folder of the system unless parent says another one. Raises
        OSError."""
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).absolute()
        try:
            return cls(path, made=True)
        except OSError:
            os.rmdir(path)
            raise

    def descriptor(self) -> int:
        """A copy of its descriptor, for who asks to close. Raises ResourceClosed.

        A thread that nobody waits for any more may ask, and must not reach through a number that names another file by
        then.
        """
        with self._lock:
            self._insist_open()
            try:
                return os.dup(self._descriptor)
            except OSError as error:
                error.filename = str(self.path)
                raise

    def why_gone(self) -> str:
        """Empty while the folder is what stands at its path."""
        with self._lock:
            self._insist_open()
            own = os.fstat(self._descriptor)
        return _why_gone(self.path, own)

    def check(self) -> None:
        """Raises FolderGone, ResourceClosed."""
        why = self.why_gone()
        if why:
            raise FolderGone(str(self.path), why)

    def shut(self) -> None:
        """Nothing more is reached through it; what is left to do is `close`."""
        with self._lock:
            self.closed = True

    async def close(self) -> None:
        """Removes one that was made with all that is in it, in a thread. Raises OSError with what could not be removed."""
        self.shut()
        if self._released:
            return
        self._released = True
        if self.made:
            await in_thread(self._remove)
        else:
            os.close(self._descriptor)

    def _insist_open(self) -> None:
        if self.closed:
            raise ResourceClosed(str(self.path))

    def _remove(self) -> None:
        try:
            empty_and(self._descriptor, self.path, self._remove_itself)
        finally:
            os.close(self._descriptor)

    def _remove_itself(self) -> None:
        """Where it was made there may be another one by now, which stays."""
        if not _why_gone(self.path, os.fstat(self._descriptor)):
            os.rmdir(self.path)


def _why_gone(path: Path, own: os.stat_result) -> str:
    try:
        found = os.lstat(path)
    except OSError as error:
        return "it was removed" if own.st_nlink == 0 else f"it was moved away ({error.strerror})"
    if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
        return ""
    return "it was removed, and another one made" if own.st_nlink == 0 else "something else stands there, or is mounted"


async def in_thread(work: Callable[[], object]) -> None:
    """Has it done in a thread of its own, which ends with it; where the machine has none left, at once all the same: no
    folder stays for that."""
    begun = False

    def begin() -> None:
        nonlocal begun
        begun = True
        work()

    threads = ToolThreads(1)
    try:
        await threads.run("folder", begin)
    except RuntimeError:
        if begun:
            raise
        work()
    finally:
        await threads.close()
