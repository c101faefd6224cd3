"""--log-file: a line of JSON for the begin and the end of every effect, with its frame path; no payload, no secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agentos.ports import EffectSeen

_ENCODER = msgspec.json.Encoder()


class LogFile:
    """An observer that appends to a file. Each line is written whole, so several processes may share one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def effect(self, seen: EffectSeen) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, **msgspec.to_builtins(seen)}
        os.write(self._descriptor, _ENCODER.encode(line) + b"\n")


@contextmanager
def log_file(path: Path | None) -> Iterator[tuple[LogFile, ...]]:
    """The observers to give to a kernel: one for a path, none without. Raises OSError naming the file.

    The file is made for its owner alone: the names of tools and agents are nobody else's business.
    """
    if path is None:
        yield ()
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield (LogFile(descriptor),)
    finally:
        os.close(descriptor)
