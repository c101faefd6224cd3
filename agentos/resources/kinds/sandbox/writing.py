"""How a file below a directory is written: opened for it, or put in the place of the one before."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from typing import Literal

from agentos.resources.folders.below import CREATE, Mount, PathRefused, open_regular
from agentos.resources.kinds.sandbox.ledger import Ledger

TRIES_MAX = 10
"""How often a file is opened anew that comes and goes meanwhile."""
Mode = Literal["r", "w", "x", "a"]


def open_to_write(folder: int, name: str, mode: Mode, ledger: Ledger, mount: Mount) -> int:
    """A regular file that is there, with nothing in it unless it is appended to; or a new one, with mode 0600.

    Raises PathRefused, FileExistsError to make one that is there, FolderLimitReached, OSError.
    """
    append = os.O_APPEND if mode == "a" else 0
    for _ in range(TRIES_MAX):
        if mode != "x":
            with contextlib.suppress(FileNotFoundError):
                return _ready(open_regular(folder, name, os.O_WRONLY | append, mount), name, mode, ledger)
        try:
            with ledger.taken(files=1):
                return os.open(name, CREATE | os.O_WRONLY | append, 0o600, dir_fd=folder)
        except FileExistsError:
            if mode == "x":
                raise
    raise PathRefused(name, "it comes and goes while it is opened")


def put_in_place(
    folder: int, name: str, data: bytes, ledger: Ledger, is_open: Callable[[os.stat_result], bool]
) -> None:
    """Writes another file and gives it the name, with the rights of the one before, if there is one. The room of that is
    free unless it is open, and so stays without a name.

    Raises PathRefused, FolderLimitReached, OSError, and leaves the one before then.
    """
    before = found(folder, name)
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise PathRefused(name, "it is no regular file")
    before_bytes = 0 if before is None else before.st_size
    free = before_bytes if before is not None and not is_open(before) else 0
    taken = max(0, len(data) - free)
    with ledger.taken(taken, 0 if before is not None else 1):
        _replace(folder, name, data, 0o600 if before is None else before.st_mode & 0o777)
    ledger.give(taken + before_bytes - len(data))


def found(folder: int, name: str) -> os.stat_result | None:
    """What stands in a folder, no link followed; None for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def size_of(told: os.stat_result) -> int:
    """What counts of it: the bytes of a file."""
    return told.st_size if stat.S_ISREG(told.st_mode) else 0


def _ready(descriptor: int, name: str, mode: Mode, ledger: Ledger) -> int:
    try:
        told = os.fstat(descriptor)
        if told.st_nlink > 1:
            raise PathRefused(name, "it has another name too, which may lie outside")
        if mode == "w":
            os.ftruncate(descriptor, 0)
            ledger.give(told.st_size)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
    beside = f".agentos-{os.urandom(8).hex()}"
    descriptor = os.open(beside, CREATE | os.O_WRONLY, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, mode)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
