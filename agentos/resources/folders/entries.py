"""What stands in a folder, as it is told."""

from __future__ import annotations

import os
import stat
from enum import Enum
from typing import NamedTuple


class FileKind(Enum):
    """What stands in a folder."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Entry(NamedTuple):
    """One thing in a folder; size_bytes of a file alone."""

    name: str
    kind: FileKind
    size_bytes: int | None


def entry_of(name: str, found: os.stat_result) -> Entry:
    """What was found of this name, no link followed."""
    kind = _kind_of(found.st_mode)
    return Entry(name, kind, found.st_size if kind is FileKind.FILE else None)


def _kind_of(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return FileKind.FILE
    if stat.S_ISDIR(mode):
        return FileKind.DIRECTORY
    return FileKind.LINK if stat.S_ISLNK(mode) else FileKind.OTHER
