"""The PostgreSQL adapter: one schema of a database, shared by kernels on any machine that reaches it.

An open store has a connection that writes (`appending`), one by which the others see it and it hears of them
(`listening`, `liveness`), a pool for reading (`pool`) and, once there was a query, one for queries (`querying`). All of
them are made anew when the server was away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg
from msgspec import structs

from agentos.errors import StoreBusy, StoreError, StoreUnavailable
from agentos.persistence.base import (
    Durability,
    InboxRow,
    LogRow,
    Point,
    Rows,
    TakenKey,
    Unit,
    Verdict,
    WriterRow,
    no_point,
)
from agentos.persistence.mending import HEAD, LogTables, statements_of
from agentos.persistence.postgresql import founding, liveness, upkeep
from agentos.persistence.postgresql.address import Address
from agentos.persistence.postgresql.appending import Appender
from agentos.persistence.postgresql.faults import store_error
from agentos.persistence.postgresql.keys import plain_key, stored_key
from agentos.persistence.postgresql.listening import Presence
from agentos.persistence.postgresql.placeholders import numbered
from agentos.persistence.postgresql.pool import Connection, Connections, Session
from agentos.persistence.postgresql.querying import Querier
from agentos.persistence.postgresql.shape import misfits_of
from agentos.persistence.reading import SqlReads
from agentos.persistence.shape import Misfit
from agentos.settings import Settings

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LOCK_HEAD = numbered(f"{HEAD} for update")


class PostgreSQLStore(SqlReads):
    """A store in one schema of a PostgreSQL database; see `address` for what its URL may say.

    Reads need no `open`: that makes the schema when there is none, and registers a writer. url holds no password.
    """

    def __init__(
        self,
        url: str,
        *,
        settings: Settings | None = None,
        durability: Durability | None = None,
        point: Point = no_point,
    ) -> None:
        """Connects to nothing yet; a durability wins over that of the URL. Raises ConfigurationError."""
        self._address = Address(url)
        self.url = self._address.url
        if durability is not None:
            self._address.durability = durability
        self.durability = self._address.durability
        self._settings = settings or Settings()
        self._connections = Connections(self._address, self._settings, point, self._check)
        self._querier = Querier(self._connections)
        self._appender: Appender | None = None
        self._presence: Presence | None = None
        self._writes: dict[asyncio.Task[None], asyncio.Future[Any]] = {}
        self._closed = False

    async def open(self, incarnation: str) -> int:
        await self.close()
        self._closed = False
        self._connections.open()
        appender = Appender(self._connections)
        presence = Presence(self._connections, appender.own_posts)
        try:
            await appender.run(self._found)
            await presence.start(incarnation)
        except BaseException:
            appender.drop()
            presence.abandon()
            raise
        self._appender, self._presence = appender, presence
        return presence.number

    async def _found(self, connection: Connection, _: bool) -> None:
        try:
            await founding.found(connection, self._address, self._upgrade)
        except asyncpg.ReadOnlySQLTransactionError as error:  # it never took writes from here: that is not waited for
            raise store_error(self.url, error) from error

    async def _upgrade(self) -> None:
        """Alembic takes longer to import than all the rest, and is imported for an older store alone."""
        from agentos.persistence.upgrading import upgrade_postgresql

        living = liveness.living(self._settings)
        await upgrade_postgresql(self.url, self._connect_upgrading, founding.SCHEMA_VERSION, living)

    async def _connect_upgrading(self) -> Connection:
        return await self._connections.connect(Session.UPGRADE)

    async def _check(self, connection: Connection) -> None:
        await founding.check(connection, self._address)

    async def close(self) -> None:
        """After what is under way; a server that does not answer now is not waited for. Cancelled, it waits for nothing."""
        appender, presence = self._take_all()
        try:
            if self._writes:
                await asyncio.wait(list(self._writes))
            if appender is not None and presence is not None:
                await self._end(appender, presence.number)
                await presence.close()
            self._connections.refuse()
            await self._querier.close()
            await self._connections.close()
        finally:
            for future in self._writes.values():
                if not future.done():
                    untold = (
                        "it was closed before it was known whether this was written; the store tells, once it is open"
                    )
                    future.set_exception(StoreUnavailable(self.url, untold))
            self._let_go(appender, presence)

    async def _end(self, appender: Appender, number: int) -> None:
        try:
            await appender.run(lambda connection, again: liveness.end(connection, number, again), once=True)
        except StoreError as error:  # others find out by the lock and the heartbeat
            _log.warning("writer %d could not be marked as ended: %s", number, error)

    def abandon(self) -> None:
        """Lets go of the server as a crash would: nothing is marked as ended, and the writer counts as dead soon."""
        appender, presence = self._take_all()
        self._let_go(appender, presence)

    def _let_go(self, appender: Appender | None, presence: Presence | None) -> None:
        for task in self._writes:
            task.cancel()
        if appender is not None:
            appender.drop()
        if presence is not None:
            presence.abandon()
        self._querier.abandon()
        self._connections.abandon()

    def _take_all(self) -> tuple[Appender | None, Presence | None]:
        """What is open; after this it counts as closed."""
        taken = self._appender, self._presence
        self._appender, self._presence, self._closed = None, None, True
        return taken

    def append(self, units: Sequence[Unit]) -> asyncio.Future[list[Verdict]]:
        """In one transaction, after those that were asked for before. Cancelling the future changes nothing stored."""
        appender, presence = self._opened()
        if len(self._writes) >= self._settings.writer_queue_max:
            limit = self._settings.writer_queue_max
            raise StoreBusy(self.url, f"{limit} things wait to be written (writer_queue_max); append again later")
        return self._write(presence, lambda: appender.append(units))

    def append_together(self, units: Sequence[Unit]) -> asyncio.Future[list[Verdict]]:
        """As `Together.append_together`."""
        appender, presence = self._opened()
        if len(self._writes) >= self._settings.writer_queue_max:
            limit = self._settings.writer_queue_max
            raise StoreBusy(self.url, f"{limit} things wait to be written (writer_queue_max); append again later")
        return self._write(presence, lambda: appender.append_together(units))

    async def post(self, row: InboxRow) -> bool:
        appender, presence = self._opened()
        return await self._write(presence, lambda: appender.post(row))

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        rows = await super().inbox(log)
        return [structs.replace(row, key=plain_key(row.key)) if row.key.startswith("{") else row for row in rows]

    async def inbox_seq(self, log: str, key: str) -> int | None:
        return await super().inbox_seq(log, stored_key(key))

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        """In the order of the keys as they are stored."""
        rows = await super().taken((after[0], stored_key(after[1])), limit)
        return [structs.replace(row, key=plain_key(row.key)) if row.key.startswith("{") else row for row in rows]

    async def claim(self, log: str) -> LogRow | None:
        appender, presence = self._opened()
        number, settings = presence.number, self._settings

        async def claim(connection: Connection, _: bool) -> LogRow | None:
            return await liveness.claim(connection, log, number, settings)

        return await self._write(presence, lambda: appender.run(claim))

    async def mend(self, log: str, seq: int, digest: bytes, tables: LogTables) -> bool:
        """As `Mendable.mend`."""
        appender, presence = self._opened()

        async def mend(connection: Connection, _: bool) -> bool:
            async with connection.transaction():
                n = await connection.fetchval(_LOCK_HEAD, log, seq, digest)
                for statement, rows in statements_of(n, log, tables) if n is not None else ():
                    if rows:
                        await connection.executemany(numbered(statement), rows)
            return n is not None

        return await self._write(presence, lambda: appender.run(mend))

    async def writers(self) -> list[WriterRow]:
        rows = await self._fetch(liveness.WRITERS, (liveness.dead_us(self._settings),))
        return [WriterRow(**dict(row)) for row in rows]

    async def declare_dead(self, writer: int) -> bool:
        appender, presence = self._opened()
        if writer == presence.number:
            return False

        async def end(connection: Connection, again: bool) -> bool:
            return await liveness.end(connection, writer, again)

        return await self._write(presence, lambda: appender.run(end))

    async def settle_erased(self) -> bool:
        """Vacuums the tables, and is False all the same: pages keep the bytes until they are used again. `compact` writes
        them anew. The server's write-ahead log is not looked at in either."""
        self._opened()
        await upkeep.vacuum(self._connections)
        return False

    async def compact(self) -> bool:
        """Locks the tables while it writes them anew. False when others still look at rows as they were."""
        self._opened()
        return await upkeep.rewrite(self._connections)

    async def misfits(self, *, rows: bool = True) -> list[Misfit]:
        """As `Shaped.misfits`; the server looks after rows."""
        return await misfits_of(self._fetch)

    def changed(self) -> bool:
        _, presence = self._opened()
        return presence.changed()

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        self._check_usable()
        return await self._querier.run(sql, parameters)

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        self._check_usable()
        return await self._connections.fetch(sql, parameters)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreUnavailable(self.url, "the store is closed")

    def _opened(self) -> tuple[Appender, Presence]:
        if self._appender is None or self._presence is None:
            raise StoreUnavailable(self.url, "the store is closed")
        return self._appender, self._presence

    def _write(self, presence: Presence, work: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """The work goes on when its future is cancelled; only the result is dropped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        task = loop.create_task(_deliver(future, presence, work))
        self._writes[task] = future
        task.add_done_callback(self._writes.pop)
        return future


async def _deliver(future: asyncio.Future[T], presence: Presence, work: Callable[[], Awaitable[T]]) -> None:
    """Others are told that there is news. Cancelled with its loop or by `abandon` it tells nobody, as after a crash."""
    try:
        result = await work()
    except Exception as error:
        if not future.done():
            future.set_exception(error)
    else:
        presence.announce()
        if not future.done():
            future.set_result(result)
