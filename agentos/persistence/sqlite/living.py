"""The writers of a SQLite store, and which of them live: those whose lock beside the file is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentos.persistence.base import WriterRow
from agentos.persistence.writer_lock import is_dead

WRITERS = "SELECT n, incarnation, host, pid, started_at, beat_at, ended_at FROM writers ORDER BY n"


def writer_rows(rows: Iterable[tuple[Any, ...]], own: int, path: str | None) -> list[WriterRow]:
    """Rows of WRITERS; own is the number of this writer, path that of the file, None for a database in memory."""
    return [
        WriterRow(
            n=n,
            incarnation=incarnation,
            host=host,
            pid=pid,
            started_at=started_at,
            beat_at=beat_at,
            ended_at=ended_at,
            alive=n == own or (ended_at is None and path is not None and not is_dead(path, n)),
        )
        for n, incarnation, host, pid, started_at, beat_at, ended_at in rows
    ]
