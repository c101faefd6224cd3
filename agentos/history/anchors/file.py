"""The file of anchors: lines that are only ever appended, synced before they count, for the eyes of their owner alone.

A line without its line break was never acknowledged: a reader passes over it, and the next writer cuts it off.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agentos.errors import AnchorDamaged, AnchorRefused
from agentos.history.anchors.anchor import Anchor, Anchors, decode_line, encode_line
from agentos.history.anchors.keys import AnchorKey

LINE_BYTES_MAX = 256 * 1024 * 1024
"""The heads of about 1,500,000 logs that moved between two anchors."""


class AnchorFile:
    """A file of anchors that this process alone writes to. anchors is what it holds."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self.anchors, self._end = _read(path, file)
        self.cut = os.fstat(file.fileno()).st_size - self._end
        """How many bytes stand behind the last whole line."""

    def append(self, anchor: Anchor, key: AnchorKey | None) -> None:
        """Stores the next anchor; it is on the disk afterwards, or the file is as before. Raises AnchorRefused, OSError."""
        line, record = encode_line(anchor, self.anchors, key)
        if len(line) > LINE_BYTES_MAX:
            raise AnchorRefused(
                f"{self.path}: the anchor has {len(line):,} bytes, of {LINE_BYTES_MAX:,} (LINE_BYTES_MAX)"
            )
        self._file.truncate(self._end)
        self._file.seek(self._end)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), self._end)
            raise
        self._end += len(line)
        self.anchors.take(record)


@contextmanager
def anchor_file(path: Path) -> Iterator[AnchorFile]:
    """The file for writing, made with mode 0600 when it is not there; one that stays empty is taken away again.

    Errors: AnchorDamaged, which names the line; AnchorRefused while another process writes to it; OSError.
    """
    new = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "r+b", buffering=0) as raw:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AnchorRefused(
                f"{path}: another process writes an anchor there; try again when it has ended"
            ) from None
        try:
            yield AnchorFile(path, raw)
            _sync_folder(path.parent)
        finally:
            if new and os.fstat(fd).st_size == 0:
                path.unlink(missing_ok=True)


def read_anchors(path: Path) -> Anchors:
    """What a file holds, at least one anchor. Raises AnchorDamaged, which names the line; OSError."""
    with path.open("rb") as file:
        anchors, _ = _read(path, file)
    if not anchors.records:
        raise AnchorDamaged(str(path), 1, "there is no whole anchor")
    return anchors


def _read(path: Path, file: BinaryIO) -> tuple[Anchors, int]:
    """What the file holds, and where its last whole line ends."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise AnchorRefused(f"{path}: it is not a regular file")
    anchors, end = Anchors(), 0
    with open(os.dup(file.fileno()), "rb") as reading:
        reading.seek(0)
        while line := reading.readline(LINE_BYTES_MAX + 1):
            number = len(anchors.records) + 1
            if len(line) > LINE_BYTES_MAX:
                raise AnchorDamaged(str(path), number, f"it has more than {LINE_BYTES_MAX:,} bytes (LINE_BYTES_MAX)")
            if not line.endswith(b"\n"):
                break
            try:
                anchors.take(decode_line(line, anchors))
            except ValueError as error:
                raise AnchorDamaged(str(path), number, str(error)) from None
            end += len(line)
    return anchors, end


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
