"""A folder for a while: nobody else's, removed with all that is in it, also what was made read-only.

Everything goes through the descriptor of the folder, part by part and without following a link: what is written or
removed is inside, whatever is swapped for a link meanwhile, and also when the folder itself was moved.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from agentos.components import Pattern
from agentos.errors import ResourceClosed, ResourceError
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.process.threads import ToolThreads
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

PREFIX = "agentos-"
ROUNDS_MAX = 100
"""How often a folder that is filled while it is emptied is looked through again."""
DEPTH_MAX = 30
"""So many folders are open at once while one is emptied."""
PATH_PARTS_MAX = 100
_NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _NO_LINKS | os.O_DIRECTORY | os.O_RDONLY
_CREATE = _NO_LINKS | os.O_CREAT | os.O_EXCL | os.O_WRONLY
_READ = _NO_LINKS | os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_HAS_DESCRIPTOR_FILES = hasattr(os, "O_PATH") and os.path.exists("/proc/self/fd")
_LOOK = _NO_LINKS | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)


class PathRefused(ResourceError):
    """A path that does not stay inside the folder, or leads to what is no regular file there."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path!r}: {why}; name a path below the folder, part by part")


class TempDir:
    """A folder with mode 0700. path is where it was made; files are made and read by paths below it."""

    def __init__(self, parent: Path | None = None, prefix: str = PREFIX) -> None:
        """Makes it, in the temporary folder of the system unless parent says another one. Raises OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).absolute()
        try:
            self._folder = os.open(self.path, _FOLDER)
        except OSError:
            os.rmdir(self.path)
            raise
        self.closed = False

    def create(self, path: str) -> BinaryIO:
        """A new file, open to write, mode 0600; the folders above it are made. Raises PathRefused, OSError."""
        return self._opened(path, _CREATE, make=True, mode="wb")

    def read(self, path: str) -> BinaryIO:
        """A regular file, open to read. Raises PathRefused, OSError."""
        return self._opened(path, _READ, make=False, mode="rb")

    async def close(self) -> None:
        """Removes it with all that is in it, in a thread. Raises OSError with what could not be removed."""
        if self.closed:
            return
        self.closed = True
        await _in_thread(self._remove)

    def _opened(self, path: str, flags: int, *, make: bool, mode: str) -> BinaryIO:
        if self.closed:
            raise ResourceClosed(str(self.path))
        *above, name = _parts(path)
        folder = os.dup(self._folder)
        try:
            for part in above:
                folder, before = _entered(folder, part, make), folder
                os.close(before)
            descriptor = _regular(os.open(name, flags, 0o600, dir_fd=folder), path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise PathRefused(path, "a part of it is a link, or no folder") from error
            raise
        finally:
            os.close(folder)
        return os.fdopen(descriptor, mode)  # type: ignore[return-value]

    def _remove(self) -> None:
        try:
            _empty(self._folder, self.path)
            self._remove_itself()
        finally:
            os.close(self._folder)

    def _remove_itself(self) -> None:
        """Where it was made there may be another one by now, which stays."""
        own = os.fstat(self._folder)
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
            os.rmdir(self.path)


def temporary_directory(parent: Path | None = None, prefix: str = PREFIX) -> Factory[TempDir]:
    """How such a folder is made as a resource, looked at before it is lent, and removed."""

    async def make() -> TempDir:
        return TempDir(parent, prefix)

    return Factory(
        make=make,
        close=TempDir.close,
        check=lambda folder: not folder.closed,
        takes=lambda folder: Takes(path=str(folder.path)),
    )


TEMPDIR = ResourceKind(name="tempdir", factory=temporary_directory, pattern=Pattern.EXCLUSIVE, level=Level.CALL)


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise PathRefused(path, "it does not stay inside the folder")
    if len(pure.parts) > PATH_PARTS_MAX:
        raise PathRefused(path, f"it has over {PATH_PARTS_MAX} parts")
    return pure.parts


def _entered(folder: int, part: str, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):  # a link or a file there is refused by the opening
            os.mkdir(part, 0o700, dir_fd=folder)
    return os.open(part, _FOLDER, dir_fd=folder)


def _regular(descriptor: int, path: str) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise PathRefused(path, "it is no regular file")


def _empty(top: int, path: Path) -> None:
    """Removes all that is in a folder. Raises OSError."""
    os.fchmod(top, 0o700)
    names = (f"{PREFIX}gone-{number}" for number in itertools.count())
    idle = 0
    while found := os.listdir(top):
        failures: list[OSError] = []
        moved = sum(_taken_out(top, name, top, names, failures) for name in found)
        if failures and not moved:
            raise OSError(failures[0].errno, f"{failures[0].strerror} ({len(failures)} of them left)", str(path))
        idle = 0 if moved else idle + 1
        if idle > ROUNDS_MAX:
            raise OSError(errno.ENOTEMPTY, "something goes on filling the folder", str(path))


def _taken_out(folder: int, name: str, top: int, names: Iterator[str], failures: list[OSError], depth: int = 1) -> int:
    """Removes one thing of a folder, or says why not in failures. What stands over DEPTH_MAX folders deep is moved to the
    top instead, so that no tree is too deep; gives how many were."""
    try:
        return _removed(folder, name, top, names, failures, depth)
    except OSError as error:
        failures.append(error)
        return 0


def _removed(folder: int, name: str, top: int, names: Iterator[str], failures: list[OSError], depth: int) -> int:
    if not _is_folder(folder, name):
        _unlink(name, folder)
        return 0
    inside = _unlocked(folder, name)
    try:
        if depth > DEPTH_MAX:
            os.rename(name, _free(top, names), src_dir_fd=folder, dst_dir_fd=top)
            return 1
        moved = sum(_taken_out(inside, one, top, names, failures, depth + 1) for one in os.listdir(inside))
    finally:
        os.close(inside)
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:  # something was put in meanwhile: the next look finds it
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
    return moved


def _unlocked(folder: int, name: str) -> int:
    """A folder inside, open, after its owner got all rights to it. No link is followed."""
    if not _HAS_DESCRIPTOR_FILES:
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return os.open(name, _FOLDER, dir_fd=folder)
    looked = os.open(name, _LOOK, dir_fd=folder)  # for which no right to it is needed
    try:
        if stat.S_IMODE(os.fstat(looked).st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{looked}", 0o700)
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(looked)


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _free(folder: int, names: Iterator[str]) -> str:
    """A name that nothing in the folder has."""
    while True:
        name = next(names)
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return name


async def _in_thread(work: Callable[[], None]) -> None:
    threads = ToolThreads(1)
    try:
        await threads.run("remove", work)
    finally:
        await threads.close()
