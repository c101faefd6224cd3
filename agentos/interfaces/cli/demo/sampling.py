"""What the demo asks about: files, folders and words of a real folder, however large, strange or empty it is."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from stat import S_ISDIR, S_ISREG

import msgspec

VISITED_MAX = 4_000
"""Names looked at, nearest to the top first."""
FILES_MAX = 200
FILE_BYTES_MAX = 1_000_000
READ_BYTES = 8_192
WORDS_MAX = 2_000

_WORD = re.compile(r"[^\W\d_]{5,20}")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Relative paths, each beginning with ./ so that none looks like an option, and words that stand in the files."""

    files: list[str]
    folders: list[str]
    words: list[str]


def sample(folder: Path, random: Random) -> Sample:
    """Draws from a folder; of an empty one, no file, itself, and one word. Raises OSError when it cannot be read."""
    files: list[str] = []
    folders: list[str] = ["."]
    for path, is_folder in _visit(folder):
        (folders if is_folder else files).append(path)
    files = sorted(random.sample(files, min(FILES_MAX, len(files))))
    text = {path: found for path in files if (found := _words(folder / path)) is not None}
    words = sorted(set[str]().union(*text.values()))
    return Sample(
        files=list(text),
        folders=sorted(random.sample(folders, min(FILES_MAX, len(folders)))),
        words=random.sample(words, min(WORDS_MAX, len(words))) or ["agentos"],
    )


def quoted(text: str) -> str:
    """As it stands in a message to an agent; `unquoted` reads it back, spaces, quotes and newlines included."""
    return json.dumps(text, ensure_ascii=False)


def unquoted(message: str) -> list[str]:
    """Every quoted part of a message, in order."""
    return [json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', message)]


def _visit(folder: Path) -> Iterator[tuple[str, bool]]:
    """Paths and whether each is a folder, breadth first, without hidden ones and links; a bounded number."""
    waiting = deque(["."])
    left, device = VISITED_MAX, folder.stat().st_dev
    os.scandir(folder).close()
    while waiting and left > 0:
        here = waiting.popleft()
        for name, is_folder in _inside(folder / here, left, device):
            left -= 1
            path = f"{here}/{name}"
            if is_folder:
                waiting.append(path)
            yield path, is_folder


def _inside(folder: Path, limit: int, device: int) -> list[tuple[str, bool]]:
    """Names directly inside that a message can carry, sorted, and whether each is a folder; unreadable gives none.

    Other devices are left out, and with them what only looks like files; so are empty files.
    """
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= limit:
                    break
                if entry.name.startswith(".") or not _is_utf8(entry.name):
                    continue
                stat = entry.stat(follow_symlinks=False)
                if stat.st_dev != device:
                    continue
                if S_ISDIR(stat.st_mode):
                    found.append((entry.name, True))
                elif S_ISREG(stat.st_mode) and 0 < stat.st_size <= FILE_BYTES_MAX:
                    found.append((entry.name, False))
    except OSError:
        return sorted(found)
    return sorted(found)


def _words(path: Path) -> set[str] | None:
    """Words at the beginning of a text file; None for what is no readable text."""
    try:
        with path.open("rb") as file:
            head = file.read(READ_BYTES)
    except OSError:
        return None
    return None if b"\0" in head else set(_WORD.findall(head.decode("utf-8", "ignore")))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
