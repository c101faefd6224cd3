"""The way below a folder: part by part, each by the descriptor of the one above, and without following a link.

What is reached is inside, whatever is swapped for a link meanwhile. What stands at the end is looked at before it is
opened, and it is that very thing which is opened: no pipe is waited for, and no device hears of it. All that reaches for
files goes this way: temporary folders, sandbox directories, and the file sandboxes of toolboxes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from agentos.errors import ResourceError

PATH_PARTS_MAX = 100
PATH_CHARS_MAX = 4_096
NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = NO_LINKS | os.O_DIRECTORY | os.O_RDONLY
"""How a folder is opened whose things are to be listed."""
CREATE = NO_LINKS | os.O_CREAT | os.O_EXCL
HAS_DESCRIPTOR_FILES = hasattr(os, "O_PATH") and os.path.exists("/proc/self/fd")
_LOOK = NO_LINKS | getattr(os, "O_PATH", os.O_RDONLY)
WAY = _LOOK | os.O_DIRECTORY
"""How a folder is opened that is only gone through: for which it need not be readable."""
_REGULAR = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

MakeFolder = Callable[[str, int], None]
"""Makes the folder of this name in that of a descriptor; one that is there stays as it is."""
Mount = tuple[int, bytes]
_SHOWN_CHARS = 100
_TOLD_BYTES = 4_096
"""More than /proc tells of one descriptor."""


class PathRefused(ResourceError):
    """A path that does not stay inside the folder, or leads to what is no regular file there."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path!r}: {why}; name a path below the folder, part by part")


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path that stays below. Raises PathRefused."""
    if len(path) > PATH_CHARS_MAX:  # first, so that no error and no path in parts is as long as it likes
        raise PathRefused(f"{path[:_SHOWN_CHARS]}...", f"it has over {PATH_CHARS_MAX:,} characters")
    pure = PurePath(path)
    if not path or "\0" in path or pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise PathRefused(path, "it does not stay inside the folder")
    if len(pure.parts) > PATH_PARTS_MAX:
        raise PathRefused(path, f"it has over {PATH_PARTS_MAX} parts")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise PathRefused(path, "no file system has such a name") from error
    return pure.parts


def make_folder(name: str, folder: int) -> None:
    """With mode 0700. A link or a file that is there is refused by the opening that follows."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)


@contextlib.contextmanager
def reached(top: int, parts: Sequence[str], make: MakeFolder | None = None) -> Iterator[tuple[int, str]]:
    """The folder that the last part stands in (see `folder_below`), and that part.

    Raises PathRefused where a part before is a link or no folder. It and any OSError inside name the whole path.
    """
    path = "/".join(parts)
    *above, name = parts
    try:
        with folder_below(top, above, make) as folder:
            yield folder, name
    except PathRefused as error:
        raise PathRefused(path, error.why) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathRefused(path, "a part of it is a link, or no folder") from error
        error.filename = path
        del error.filename2  # that of a rename, which is a part of it
        raise


@contextlib.contextmanager
def folder_below(top: int, parts: Sequence[str], make: MakeFolder | None = None) -> Iterator[int]:
    """A descriptor of a folder below another, to reach for what is in it and not to list it; top itself is closed.

    With make, folders that are missing are made. Raises OSError, ELOOP or ENOTDIR where a part is a link or no folder.
    """
    folder = top
    try:
        for part in parts:
            if make is not None:
                make(part, folder)
            folder, above = os.open(part, WAY, dir_fd=folder), folder
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def open_regular(folder: int, name: str, flags: int, mount: Mount | None = None) -> int:
    """A regular file in a folder, open. Raises PathRefused for anything else, also a link, and for one that is reached
    through another mount than this; OSError."""
    if not HAS_DESCRIPTOR_FILES:
        return _open_after_a_look(folder, name, flags, mount)
    looked = os.open(name, _LOOK, dir_fd=folder)
    try:
        _insist_regular(os.fstat(looked), name)
        insist_mount(looked, name, mount)
        return os.open(f"/proc/self/fd/{looked}", flags | _REGULAR)
    finally:
        os.close(looked)


def _open_after_a_look(folder: int, name: str, flags: int, mount: Mount | None) -> int:
    """Where nothing can be held without being opened. What was swapped in after the look is found by the second one."""
    _insist_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), name)
    descriptor = os.open(name, flags | NO_LINKS | _REGULAR, dir_fd=folder)
    try:
        _insist_regular(os.fstat(descriptor), name)
        insist_mount(descriptor, name, mount)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _insist_regular(found: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(name, "it is a link")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(name, "it is no regular file")


def open_unlocked(folder: int, name: str, mount: Mount) -> int:
    """A folder inside, open to be listed, after its owner got all rights to it. No link is followed. Raises PathRefused
    when another mount than this is there, and gives no rights to it; OSError."""
    if not HAS_DESCRIPTOR_FILES:
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return _of_mount(os.open(name, FOLDER, dir_fd=folder), name, mount)
    looked = os.open(name, WAY, dir_fd=folder)  # for which no right to it is needed
    try:
        insist_mount(looked, name, mount)
        if stat.S_IMODE(os.fstat(looked).st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{looked}", 0o700)
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(looked)


def _of_mount(descriptor: int, name: str, mount: Mount) -> int:
    try:
        insist_mount(descriptor, name, mount)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def insist_mount(descriptor: int, name: str, mount: Mount | None) -> None:
    """Raises PathRefused unless it is reached through this mount, where one is said."""
    if mount is not None and mount_of(descriptor) != mount:
        raise PathRefused(name, "another file system is mounted there")


def mount_of(descriptor: int) -> Mount:
    """Which mount an open file or folder is reached through. Another one leads out as a link does, also where it shows
    the same file system; the kernel's number of it is told by /proc alone, and empty where that is missing, or closed
    to us: older kernels close it to a process that has given up the rights of root."""
    number = b""
    with (
        contextlib.suppress(FileNotFoundError, PermissionError),
        open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as told,
    ):
        number = next((line for line in told.read(_TOLD_BYTES).splitlines() if line.startswith(b"mnt_id:")), b"")
    return os.fstat(descriptor).st_dev, number
