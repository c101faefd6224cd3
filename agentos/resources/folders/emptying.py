"""Removes all that is in a folder: what its owner made read-only, trees of any depth, and what is put in meanwhile.

No link is followed and no mount is entered, whatever is swapped for one while it is at work.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

from agentos.resources.folders.below import PathRefused, mount_of, open_unlocked

GONE_PREFIX = "agentos-gone-"
ROUNDS_MAX = 100
"""How often a folder that is filled while it is emptied is looked through again."""
LOOKS_MAX = 100_000
"""How often a folder is looked through in all: once for every DEPTH_MAX folders of depth, and what is put in meanwhile."""
DEPTH_MAX = 30
"""So many folders are open at once while one is emptied."""
_SWAPPED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST})
"""Something was put in or exchanged between a look and what followed: the next look finds it."""


def empty(top: int, path: Path) -> None:
    """Removes all that is in a folder; path names it in errors. Raises OSError, once all that can be removed is."""
    if os.fstat(top).st_mode & 0o700 != 0o700:
        os.fchmod(top, 0o700)
    idle = 0
    names = itertools.count()
    for _ in range(LOOKS_MAX):
        found = os.listdir(top)
        if not found:
            return
        emptying = _Emptying(top, names)
        for name in found:
            emptying.take_out(top, name, 1)
        emptying.tell(path)
        idle = 0 if emptying.moved else idle + 1
        if idle > ROUNDS_MAX:
            break
    raise _filling(path)


def empty_and(top: int, path: Path, remove: Callable[[], None]) -> None:
    """Empties a folder and has it removed, again where something was put in between. Raises OSError."""
    for _ in range(ROUNDS_MAX):
        empty(top, path)
        try:
            remove()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
    raise _filling(path)


class _Emptying:
    """One look through a folder. moved counts what stood over DEPTH_MAX folders deep: it is moved to the top, for the
    next look, so that no tree is too deep."""

    def __init__(self, top: int, names: itertools.count[int]) -> None:
        self._top, self._mount, self._names = top, mount_of(top), names
        self._failures: list[OSError] = []
        self.moved = 0

    def take_out(self, folder: int, name: str, depth: int) -> None:
        """Removes one thing of a folder, or keeps why not."""
        try:
            if _is_folder(folder, name):
                self._take_out_folder(folder, name, depth)
            else:
                os.unlink(name, dir_fd=folder)
        except PathRefused:
            self._failures.append(OSError(errno.EBUSY, "another file system is mounted in it"))
        except OSError as error:
            if error.errno not in _SWAPPED:
                self._failures.append(error)

    def tell(self, path: Path) -> None:
        """Raises OSError with how many there are that cannot be removed, if nothing else went on."""
        if self._failures and not self.moved:
            first = self._failures[0]
            raise OSError(first.errno, f"{first.strerror} ({len(self._failures)} of them left)", str(path))

    def _take_out_folder(self, folder: int, name: str, depth: int) -> None:
        inside = open_unlocked(folder, name, self._mount)
        try:
            if depth > DEPTH_MAX:
                os.rename(name, self._free_name(), src_dir_fd=folder, dst_dir_fd=self._top)
                self.moved += 1
                return
            for one in os.listdir(inside):
                self.take_out(inside, one, depth + 1)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=folder)

    def _free_name(self) -> str:
        """A name that nothing at the top has."""
        while True:
            name = f"{GONE_PREFIX}{next(self._names)}"
            try:
                os.stat(name, dir_fd=self._top, follow_symlinks=False)
            except FileNotFoundError:
                return name


def _filling(path: Path) -> OSError:
    return OSError(errno.ENOTEMPTY, "something goes on filling the folder", str(path))


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
