"""What was typed in earlier chats: a file of this user alone, a JSON string a line, with the last lines only."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from agentos.interfaces.cli.output import say

LINES_MAX = 1_000
LINE_CHARS_MAX = 10_000
"""A longer message is not kept."""
FILE_BYTES_MAX = 4 * 1024 * 1024


class History:
    """The file. What goes wrong with it is told once, and costs no message."""

    def __init__(self, path: Path, lines_max: int = LINES_MAX) -> None:
        self.path, self.lines_max = path, lines_max
        self._broken = False

    @staticmethod
    def of_user() -> History:
        from platformdirs import user_state_path

        return History(user_state_path("agentos", appauthor=False) / "chat_history")

    def load(self) -> list[str]:
        """The last lines, oldest first. A file that grew beyond its bounds is written anew."""
        if not self.path.exists():
            return []
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - FILE_BYTES_MAX))
                lines = file.read().splitlines()
            texts = [text for line in lines if (text := _text_of(line))][-self.lines_max :]
            if len(lines) > 2 * self.lines_max or size > FILE_BYTES_MAX:
                self._write(texts, os.O_TRUNC)
        except OSError as error:
            self._tell(error)
            return []
        return texts

    def add(self, text: str) -> None:
        if len(text) > LINE_CHARS_MAX or self._broken:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write([text], os.O_APPEND)
        except OSError as error:
            self._tell(error)

    def forget(self, texts: Collection[str]) -> int:
        """Takes these texts, and each line of one, out of the file, which is overwritten before it is made shorter; gives
        how many lines went. Raises OSError."""
        gone = {part for text in texts for part in (text, *text.splitlines())}
        if not gone or not self.path.exists():
            return 0
        with self.path.open("r+b") as file:
            lines = file.read().splitlines(keepends=True)
            kept = [line for line in lines if _text_of(line) not in gone]
            if len(kept) < len(lines):
                size = file.tell()
                file.seek(0)
                file.write(b"".join(kept).ljust(size, b"\n"))
                file.flush()
                os.fsync(file.fileno())
                file.truncate(sum(map(len, kept)))
        return len(lines) - len(kept)

    def _write(self, texts: list[str], how: int) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
        with os.fdopen(file, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(b"".join(json.dumps(text).encode() + b"\n" for text in texts))

    def _tell(self, error: OSError) -> None:
        self._broken = True
        say(f"warning: what you type is not kept: {self.path}: {error.strerror}")


def _text_of(line: bytes) -> str:
    """Empty for what is no line of ours, as the first one of a file that was read from its middle."""
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
