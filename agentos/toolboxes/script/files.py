"""Which executables a script toolbox has, when one of them is another file than before, and who else may write it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agentos.toolboxes.base import ToolboxProblem

DIGESTED_BYTES_MAX = 16 * 1024 * 1024
_FIRST_LINE_BYTES = 256


class Stamp(NamedTuple):
    """What tells an edited, replaced or chmodded file from the one before. A write within the same tick of the file
    system's clock that keeps the size goes unseen."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int
    mode: int


class Found(NamedTuple):
    """What the places of a toolbox hold now: the stamps of all files in them by path, scripts or not, None for one that
    is not there; those that are scripts, in order; and the directories that cannot be read."""

    stamps: dict[str, Stamp | None]
    scripts: list[Path]
    problems: list[ToolboxProblem]


class ScriptFiles:
    """Directories, each of whose executable files is a script, and single files.

    In directories only what stands directly inside counts, whose name is not hidden and contains `filter`.
    """

    def __init__(self, directories: Sequence[Path], files: Sequence[Path], name_filter: str) -> None:
        self._directories, self._files = [str(path) for path in directories], [str(path) for path in files]
        self._filter = name_filter

    def find(self) -> Found:
        stamps: dict[str, Stamp | None] = {}
        scripts: list[str] = []
        problems: list[ToolboxProblem] = []
        for directory in self._directories:
            try:
                inside = self._inside(directory)
            except OSError as error:
                problems.append(ToolboxProblem(directory, f"cannot be read: {os.strerror(error.errno or 0)}"))
                continue
            for path in inside:
                stamps[path] = stamp = stamp_of(path)
                if stamp is not None and stat.S_ISREG(stamp.mode) and os.access(path, os.X_OK):
                    scripts.append(path)
        stamps |= {path: stamp_of(path) for path in self._files}
        return Found(stamps, [Path(path) for path in dict.fromkeys((*scripts, *self._files))], problems)

    def changed(self, stamps: dict[str, Stamp | None]) -> bool:
        """Whether files came, went or changed since `find` gave these stamps. It runs before every turn, hence the plain
        strings."""
        now: list[str] = []
        for directory in self._directories:
            try:
                now += self._inside(directory)
            except OSError:
                continue  # its files are missing below, if it had any
        now += self._files
        return stamps.keys() != set(now) or any(stamp_of(path) != stamps[path] for path in now)

    def _inside(self, directory: str) -> list[str]:
        """Raises OSError."""
        names = sorted(name for name in os.listdir(directory) if not name.startswith(".") and self._filter in name)
        return [f"{directory}/{name}" for name in names]


def stamp_of(path: str | Path) -> Stamp | None:
    """None when there is no such file, also behind a link."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


def content_digest(path: Path) -> str:
    """A digest of what is in a file; of an enormous one of its size and time of change. Empty when it is gone."""
    stamp = stamp_of(path)
    if stamp is None:
        return ""
    if stamp.size > DIGESTED_BYTES_MAX:
        return hashlib.sha256(f"{stamp.size} {stamp.mtime_ns}".encode()).hexdigest()
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def openness(path: Path) -> list[str]:
    """Why others could put a program of their own in the place of a script: nothing is refused for it, but it is told."""
    said: list[str] = []
    for place, what in ((path, "it"), (path.parent, "its directory")):
        try:
            found = place.stat()
        except OSError:
            continue
        who = [word for bit, word in ((stat.S_IWGRP, "its group"), (stat.S_IWOTH, "everybody")) if found.st_mode & bit]
        if who:
            said.append(f"{what} may be written by {' and '.join(who)} (mode {stat.S_IMODE(found.st_mode):04o})")
        if found.st_uid not in (0, os.geteuid()):
            said.append(f"{what} belongs to another user (uid {found.st_uid})")
    if interpreter := _relative_interpreter(path):
        said.append(f"its interpreter {interpreter!r} is looked for in the folder where it runs; give a whole path")
    return said


def _relative_interpreter(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    words = line[2:].split(maxsplit=1) if line.startswith(b"#!") else []
    return None if not words or words[0].startswith(b"/") else os.fsdecode(words[0])
