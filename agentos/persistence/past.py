"""Tables of the past: a private SQLite database with the tables and views of a store, filled once and asked as a store is."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.persistence.base import Rows, Unit, Verdict, WriterRow
from agentos.settings import Settings

_WRITER = (
    "INSERT INTO writers (n, incarnation, host, pid, started_at, beat_at, ended_at) VALUES (?, ?, ?, ?, ?, NULL, ?)"
)


class PastTables:
    """What is appended can be queried; queries are bound as those of a store of this url are."""

    def __init__(self, url: str, settings: Settings) -> None:
        from agentos.persistence.sqlite.file import open_in_memory
        from agentos.persistence.sqlite.querying import Querier
        from agentos.persistence.sqlite.writing import Writing

        self._db = open_in_memory()
        self._writing = Writing(self._db)
        limits = settings.query_rows_max, settings.query_s
        self._querier = Querier(url, lambda: self._db, *limits, bytes_max=settings.query_bytes_max)

    def append(self, units: Sequence[Unit]) -> None:
        """Units in the order of their logs, before the first query."""
        verdicts = self._writing.append(units)
        assert all(verdict is Verdict.STORED for verdict in verdicts), "each unit follows the one before"

    def add_definitions(self, definitions: Sequence[tuple[str, str, str]]) -> None:
        from agentos.persistence.sqlite.statements import INSERT_DEFINITION

        self._db.executemany(INSERT_DEFINITION, definitions)

    def add_writers(self, writers: Sequence[WriterRow], at: int) -> None:
        """Writers that had begun by a time; one that ended later had not ended."""
        self._db.executemany(
            _WRITER,
            [
                (row.n, row.incarnation, row.host, row.pid, row.started_at, ended if ended and ended <= at else None)
                for row in writers
                for ended in (row.ended_at,)
            ],
        )

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Raises QueryRefused."""
        return await self._querier.run(sql, parameters)

    async def close(self) -> None:
        await self._querier.reader.close()
        self._db.close()
