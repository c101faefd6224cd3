"""A reading connection behind aiosqlite, which is imported and opened with the first read."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from agentos.errors import StoreError, StoreUnavailable
from agentos.persistence.sqlite.file import store_error

if TYPE_CHECKING:
    import aiosqlite


class Reader:
    """One connection and its thread; `connect` makes the connection, in that thread.

    `explain` has our word for an error of SQLite.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[], sqlite3.Connection],
        explain: Callable[[sqlite3.Error], StoreError] | None = None,
    ) -> None:
        self.url = url
        self._connect = connect
        self.explain = explain or (lambda error: store_error(url, error))
        self.raw: sqlite3.Connection | None = None
        self._opened: aiosqlite.Connection | None = None
        self._opening = asyncio.Lock()

    async def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows. Raises StoreError."""
        db = await self.connection()
        try:
            return cast(list[tuple[Any, ...]], await db.execute_fetchall(sql, parameters))
        except sqlite3.Error as error:
            raise self.explain(error) from error
        except ValueError:
            self.check_open(db)
            raise

    def check_open(self, db: aiosqlite.Connection) -> None:
        """Raises StoreUnavailable when this connection was closed meanwhile."""
        if self._opened is not db:
            raise StoreUnavailable(self.url, "the store was closed")

    async def connection(self) -> aiosqlite.Connection:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    self._opened = await self._open()
        return self._opened

    def interrupt(self) -> None:
        """Makes the statement that runs now fail; does nothing when none runs."""
        if self.raw is not None:
            self.raw.interrupt()

    async def _open(self) -> aiosqlite.Connection:
        import aiosqlite

        db = aiosqlite.Connection(self._make, iter_chunk_size=64)
        db._thread.daemon = True  # else a program that fails before it closes the store would never end
        try:
            return await db
        except BaseException as error:
            await self._give_up(db)
            if isinstance(error, sqlite3.Error):
                raise self.explain(error) from error
            raise

    async def _give_up(self, db: aiosqlite.Connection) -> None:
        """Waits for the thread, which aiosqlite leaves to itself here, so that it does not outlive the loop."""
        await asyncio.to_thread(db._thread.join)
        if self.raw is not None:
            self.raw.close()
            self.raw = None

    def _make(self) -> sqlite3.Connection:
        self.raw = self._connect()
        return self.raw

    async def close(self) -> None:
        opened, self._opened, self.raw = self._opened, None, None
        if opened is not None:
            await opened.close()

    def abandon(self) -> None:
        """Lets the thread end by itself; it is told from a thread without a loop, since it would answer to the loop."""
        self.interrupt()
        opened, self._opened, self.raw = self._opened, None, None
        if opened is not None:
            threading.Thread(target=opened.stop, daemon=True).start()
