"""How much is in a folder, as far as there is somebody to ask: what may not be listed counts as empty."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from agentos.resources.folders.below import FOLDER, PATH_PARTS_MAX, Mount, mount_of


class Usage(NamedTuple):
    """Bytes of all files by their sizes, and how many files, folders and other things there are."""

    bytes: int
    files: int


def measured(top: int, files_max: int) -> Usage:
    """What is below a folder. It stops once there are over files_max. No link is followed and no mount is entered; what
    stands over PATH_PARTS_MAX folders deep, where no path leads, is not counted."""
    measuring = _Measuring(mount_of(top), files_max)
    measuring.look(top, ".", 0)
    return Usage(measuring.bytes, measuring.files)


class _Measuring:
    def __init__(self, mount: Mount, files_max: int) -> None:
        self._mount, self._files_max = mount, files_max
        self.bytes = self.files = 0

    def look(self, above: int, name: str, depth: int) -> None:
        try:
            folder = os.open(name, FOLDER, dir_fd=above)
        except OSError:  # gone, swapped, or nothing that we may list
            return
        try:
            if mount_of(folder) == self._mount:
                self._count(folder, depth)
        finally:
            os.close(folder)

    def _count(self, folder: int, depth: int) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                self.files += 1
                if self.files > self._files_max:
                    return
                if not entry.is_dir(follow_symlinks=False):
                    self.bytes += _size_of(entry)
                elif depth < PATH_PARTS_MAX:
                    self.look(folder, entry.name, depth + 1)


def _size_of(entry: os.DirEntry[str]) -> int:
    with contextlib.suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    return 0
