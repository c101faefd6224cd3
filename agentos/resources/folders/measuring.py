"""How much is in a folder, as far as there is somebody to ask: what may not be listed or looked at counts as empty."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import NamedTuple

from agentos.resources.folders.below import FOLDER, PATH_PARTS_MAX, Mount, mount_of

_USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The machine cannot look now: what is there is not nothing."""


class Usage(NamedTuple):
    """Bytes of all files by their sizes, and how many files, folders and other things there are."""

    bytes: int
    files: int


def measured(top: int, files_max: int) -> Usage:
    """What is below a folder. No link is followed and no mount is entered. Raises OSError.

    It stops once there are over files_max, and says so many too when folders stand over PATH_PARTS_MAX deep, where no path
    leads: nobody has counted what is in them.
    """
    measuring = _Measuring(mount_of(top), files_max)
    measuring.look(top, ".", 0)
    return Usage(measuring.bytes, measuring.files)


class _Measuring:
    def __init__(self, mount: Mount, files_max: int) -> None:
        self._mount, self._files_max = mount, files_max
        self.bytes = self.files = 0

    def look(self, above: int, name: str, depth: int) -> None:
        if depth > PATH_PARTS_MAX:
            self.files = self._files_max + 1
        if self.files > self._files_max:
            return
        try:
            folder = os.open(name, FOLDER, dir_fd=above)
        except OSError as error:  # gone, swapped, or nothing that we may list
            if error.errno in _USED_UP:
                raise
            return
        try:
            if mount_of(folder) == self._mount:
                for inner in self._counted(folder):
                    self.look(folder, inner, depth + 1)
        finally:
            os.close(folder)

    def _counted(self, folder: int) -> list[str]:
        """Counts what stands in a folder, and gives the folders of it."""
        folders = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.files += 1
                if self.files > self._files_max:
                    break
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    self.bytes += _size_of(entry)
        return folders


def _size_of(entry: os.DirEntry[str]) -> int:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    return 0
