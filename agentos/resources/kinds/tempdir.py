"""A folder for a while: nobody else's, removed with all that is in it, also what was made read-only.

Everything goes through the descriptor of the folder, part by part and without following a link: what is written or
removed is inside, whatever is swapped for a link meanwhile, and also when the folder itself was moved.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from agentos.components import Pattern
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.folders.below import (
    CREATE,
    MakeFolder,
    insist_mount,
    make_folder,
    open_regular,
    parts_of,
    reached,
)
from agentos.resources.folders.held import PREFIX, HeldFolder, in_thread
from agentos.resources.folders.measuring import measured
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

FILES_MEASURED_MAX = 100_000


class TempDir:
    """A folder with mode 0700. path is where it was made; files are made and read by paths below it."""

    def __init__(self, parent: Path | None = None, prefix: str = PREFIX) -> None:
        """Makes it, in the temporary folder of the system unless parent says another one. Raises OSError."""
        self._folder = HeldFolder.new(parent, prefix)
        self.path = self._folder.path
        self.bytes: int | None = None
        """What was in it when it was measured last."""

    @property
    def closed(self) -> bool:
        return self._folder.closed

    def create(self, path: str) -> BinaryIO:
        """A new file, open to write, mode 0600; the folders above it are made. Raises PathRefused, OSError."""
        return os.fdopen(self._opened(path, _create, make_folder), "wb")

    def read(self, path: str) -> BinaryIO:
        """A regular file, open to read. Raises PathRefused, OSError."""
        return os.fdopen(self._opened(path, _read, None), "rb")

    def measure(self) -> None:
        """Looks how many bytes are in it, in FILES_MEASURED_MAX files at most. Raises ResourceClosed, OSError."""
        folder = self._folder.descriptor()
        try:
            self.bytes = measured(folder, FILES_MEASURED_MAX).bytes
        finally:
            os.close(folder)

    async def close(self) -> None:
        """Removes it with all that is in it, in a thread. Raises OSError with what could not be removed."""
        await self._folder.close()

    def _opened(self, path: str, open_: Callable[[int, str], int], make: MakeFolder | None) -> int:
        parts = parts_of(path)
        with reached(self._folder.descriptor(), parts, make) as (folder, name):
            insist_mount(folder, name, self._folder.mount)
            return open_(folder, name)


def temporary_directory(parent: Path | None = None, prefix: str = PREFIX) -> Factory[TempDir]:
    """How such a folder is made as a resource, looked at before it is lent, and removed."""

    async def make() -> TempDir:
        return TempDir(parent, prefix)

    return Factory(
        make=make,
        close=TempDir.close,
        check=lambda folder: not folder.closed,
        takes=lambda folder: Takes(path=str(folder.path), bytes=folder.bytes),
        measure=_measured,
    )


async def _measured(folder: TempDir) -> int:
    await in_thread(folder.measure)
    return folder.bytes or 0


TEMPDIR = ResourceKind(name="tempdir", factory=temporary_directory, pattern=Pattern.EXCLUSIVE, level=Level.CALL)


def _create(folder: int, name: str) -> int:
    return os.open(name, CREATE | os.O_WRONLY, 0o600, dir_fd=folder)


def _read(folder: int, name: str) -> int:
    return open_regular(folder, name, os.O_RDONLY)
