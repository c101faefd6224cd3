"""Where the control sockets of the kernels on a store are: one for each writer, named by its number.

    sqlite:///FILE   FILE-control-N, beside the file as `realpath` finds it
    file:FOLDER      FOLDER/writers/N.sock
    postgresql:...   in the folder of this user for things that run, by a digest of host, database and schema

A path that is longer than a socket's may be stands in that folder too, by its digest. Both sides find the place by the URL
of the store alone. A store in memory has none: nobody else could name it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from agentos.errors import ControlTaken
from agentos.persistence.search_place import database_digest

PATH_BYTES_MAX = 107
"""What the system takes for the path of a socket."""
NUMBER_DIGITS = 10
FRESH = ".new"
DIGEST_DIGITS = 32
BACKLOG = 128


class Place(NamedTuple):
    """The sockets of one store: folder/{prefix}N{suffix}. is_ours: the folder is made here, and for this user alone."""

    folder: str
    prefix: str
    suffix: str
    is_ours: bool = False

    def socket(self, number: int) -> str:
        return os.path.join(self.folder, f"{self.prefix}{number}{self.suffix}")

    def found(self) -> Iterator[tuple[int, str]]:
        """The numbers of writers and paths of all sockets that are there, of dead ones too, the lowest number first.

        None in a folder of somebody else, who might have put there what he likes, and in one that this user may not read.
        """
        if self.is_ours and not _is_private(self.folder):
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            names = os.listdir(self.folder)
            numbers = [name[len(self.prefix) : len(name) - len(self.suffix)] for name in names if self._fits(name)]
            for number in sorted(int(digits) for digits in numbers if digits.isdecimal()):
                yield number, self.socket(number)

    def _fits(self, name: str) -> bool:
        return name.startswith(self.prefix) and name.endswith(self.suffix)


def place_of(url: str) -> Place | None:
    """The place for the store at a URL, which may have a password or not; None for a store in memory."""
    place = url.partition("?")[0]
    if url.startswith(("postgresql:", "postgres:")):
        return _by_digest(database_digest(url))
    if place.startswith("sqlite:///"):
        path = unquote(place.removeprefix("sqlite:///"))
        if path in ("", ":memory:"):
            return None
        folder, name = os.path.split(os.path.realpath(path))
        return _short(Place(folder, f"{name}-control-", ""))
    if place.startswith("file:"):
        path = unquote(place.removeprefix("file:"))
        path = f"/{path.lstrip('/')}" if path.startswith("/") else path
        return _short(Place(os.path.join(os.path.realpath(path), "writers"), "", ".sock"))
    return None


class Listening(NamedTuple):
    """A socket that listens, and where; inode tells it from another one of this path."""

    socket: socket.socket
    path: str
    inode: int

    def remove(self) -> None:
        """Takes the name away, unless it is another socket's by now."""
        with contextlib.suppress(OSError):
            if os.lstat(self.path).st_ino == self.inode:
                os.unlink(self.path)


def listen(place: Place, number: int) -> Listening:
    """The socket of a writer. It has its name once it listens and is closed to other users; what a dead process left
    under that name goes, as do the sockets of other dead ones.

    Errors: ControlTaken when a living process has it, or the folder is not for us alone; OSError.
    """
    if place.is_ours:
        _make_private(place.folder)
    path = place.socket(number)
    fresh = f"{path}{FRESH}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.bind(fresh)
        os.chmod(fresh, 0o600)
        made.listen(BACKLOG)
        if lives(path):
            raise ControlTaken(path, "another process listens there")
        if os.path.lexists(path) and not _is_socket(path):
            raise ControlTaken(path, "something else has this name")
        os.rename(fresh, path)
    except BaseException:
        made.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    _clear_dead(place, number)
    return Listening(made, path, os.lstat(path).st_ino)


def lives(path: str) -> bool:
    """Whether a process listens at a socket, or may: one that is not ours to ask counts as living."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        try:
            asking.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            return error.errno != errno.ENOTSOCK
        return True


def _clear_dead(place: Place, own: int) -> None:
    """Numbers of writers are never used again, so nobody will listen there any more."""
    for number, path in place.found():
        if number != own and not lives(path):
            with contextlib.suppress(OSError):  # another one clears, too
                if _is_socket(path):
                    os.unlink(path)


def _is_socket(path: str) -> bool:
    return stat.S_ISSOCK(os.lstat(path).st_mode)


def _short(place: Place) -> Place:
    longest = f"{place.socket(10**NUMBER_DIGITS - 1)}{FRESH}"
    if len(os.fsencode(longest)) <= PATH_BYTES_MAX:
        return place
    return _by_digest(hashlib.sha256(os.fsencode(place.socket(0))).hexdigest()[:DIGEST_DIGITS])


def _by_digest(digest: str) -> Place:
    return Place(str(_running_folder()), f"{digest}-", ".sock", is_ours=True)


def _running_folder() -> Path:
    """Where the things of this user are that end with a login. All programs of one user come to the same one, unless a
    variable tells one of them another."""
    user = os.geteuid()
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    for base in (Path(named) if named else None, Path(f"/run/user/{user}")):
        if base is not None and base.is_absolute() and _is_ours(base) and _is_short(base):
            return base / "agentos"
    return Path(f"/tmp/agentos-{user}")  # made for this user alone, or refused


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and os.access(folder, os.W_OK)


def _is_short(base: Path) -> bool:
    return len(os.fsencode(base)) + len("/agentos/") + DIGEST_DIGITS + NUMBER_DIGITS + 16 <= PATH_BYTES_MAX


def _make_private(folder: str) -> None:
    """Raises ControlTaken when somebody else could put a socket of his there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not _is_private(folder):
        raise ControlTaken(folder, "the folder is not this user's alone (chmod 700)")


def _is_private(folder: str) -> bool:
    """Whether it is a folder into which this user alone can put something."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
