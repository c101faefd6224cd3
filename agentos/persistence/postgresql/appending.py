"""The writing connection: one transaction after the other, and none whose end is left unknown.

A batch whose units all fit, which is nearly every one, is a single statement. Any other goes through a transaction that
locks the heads in the order of their names, leaves out what does not fit, and writes the rest. So does every batch whose
connection was lost under way, since what became of it stands in the heads and in the entries: no lock of an earlier try
can be left once they could be locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import asyncpg

from agentos.errors import StoreDamaged
from agentos.persistence.base import InboxRow, Unit, Verdict, erased_at
from agentos.persistence.erasing import parts_by_erasing
from agentos.persistence.postgresql import statements as sql
from agentos.persistence.postgresql.batch import Batch, follow_each_other
from agentos.persistence.postgresql.faults import STORE_FAULTS, Fault, fault_of
from agentos.persistence.postgresql.judging import judge
from agentos.persistence.postgresql.keys import stored_key
from agentos.persistence.postgresql.pool import Connection, Connections, Patience, Session
from agentos.persistence.sizes import size_of
from agentos.persistence.together import fit_together, none_of

T = TypeVar("T")

COLLISIONS_MAX = 10
"""How often a transaction is tried that others collide with."""
OWN_POSTS_MAX = 10_000


class Appender:
    """Has one connection, made anew when it is lost, and does one thing at a time with it.

    own_posts are the numbers of the last posts that it made, so that they can be told from those of others.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections, self._settings, self._point = connections, connections.settings, connections.point
        self._connection: Connection | None = None
        self._one = asyncio.Lock()
        self.own_posts: dict[int, None] = {}

    async def append(self, units: Sequence[Unit]) -> list[Verdict]:
        """Raises StoreError; after StoreUnavailable for a lost connection it may be unknown whether the units are stored."""
        return await self.run(lambda connection, again: self._append(connection, units, again))

    async def append_together(self, units: Sequence[Unit]) -> list[Verdict]:
        """As `Together.append_together`; errors as those of append."""
        return await self.run(lambda connection, again: self._append_fitting(connection, units, again, together=True))

    async def post(self, row: InboxRow) -> bool:
        return await self.run(lambda connection, again: self._post(connection, row, again))

    async def run(self, work: Callable[[Connection, bool], Awaitable[T]], *, once: bool = False) -> T:
        """Does work that is safe to be done again: it is told whether an earlier try may have been done.

        once: a server that does not answer now is not waited for. Raises StoreError.
        """
        async with self._one:
            patience = Patience(0.0 if once else self._settings.reconnect_s)
            again, collisions = False, 0
            while True:
                try:
                    connection = await self._connected(patience)
                    return await work(connection, again)
                except STORE_FAULTS as error:
                    fault = fault_of(error)
                    if again and isinstance(error, asyncpg.LockNotAvailableError):
                        fault = Fault.LOST  # the try that was lost may hold it until the server misses its client
                    collisions += fault is Fault.AGAIN
                    again = again or fault is Fault.LOST
                    if fault is Fault.LOST:
                        self.drop()
                    if fault is Fault.FINAL or collisions >= COLLISIONS_MAX or not await patience.pause():
                        raise self._connections.unavailable(error, patience) from error
                except BaseException:
                    self.drop()  # cancelled in the middle: what the connection does now nobody would know
                    raise

    def drop(self) -> None:
        """Closes the connection as it stands; the next work gets another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _connected(self, patience: Patience) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self.drop()
            self._connection = await self._connections.connect(Session.WRITE, patience)
        return self._connection

    async def _append(self, connection: Connection, units: Sequence[Unit], again: bool) -> list[Verdict]:
        erases = any(unit.erases for unit in units)
        if not again and not erases and size_of(units) <= self._settings.append_bytes_max and follow_each_other(units):
            for step in ("begin", "exec", "commit"):
                self._point(step)
            try:
                if await self._write(connection, units):
                    return [Verdict.STORED] * len(units)
            except asyncpg.UniqueViolationError:
                pass  # a log that begins is there already, or something worse that comes again
        return await self._append_fitting(connection, units, again)

    async def _append_fitting(
        self, connection: Connection, units: Sequence[Unit], again: bool, *, together: bool = False
    ) -> list[Verdict]:
        self._point("begin")
        async with connection.transaction():
            self._point("exec")
            rows = await connection.fetch(sql.LOCK_HEADS, sorted({unit.log for unit in units}))
            stored = await connection.fetch(sql.STORED_BEFORE, *_ends(units)) if again else []
            heads = {id_: (owner, epoch, seq, digest) for id_, owner, epoch, seq, digest in rows}
            verdicts, fitting = judge(units, heads, {(log, seq): digest for log, seq, digest in stored})
            if together and not fit_together(verdicts):
                return none_of(verdicts)
            for stretch in parts_by_erasing(fitting):
                for part in _parts(stretch, self._settings.append_bytes_max):
                    if not await self._write(connection, part):
                        raise StoreDamaged(self._connections.address.url, "a head that is locked has moved")
                if stretch[-1].erases:
                    await self._erase(connection, stretch[-1])
            self._point("commit")
        return verdicts

    async def _write(self, connection: Connection, units: Sequence[Unit]) -> bool:
        """False, and nothing is written, when a head does not fit."""
        batch = Batch(units)
        posted = await connection.fetchval(batch.sql, *batch.arguments)
        if posted:
            self._remember(posted)
        return posted is not None

    async def _erase(self, connection: Connection, unit: Unit) -> None:
        """What stands there by now: after the rows of the unit itself."""
        self._point("exec")
        await connection.execute(sql.ERASE_PAYLOADS, unit.log, unit.erases)
        await connection.execute(sql.ERASE_MESSAGES, unit.log, unit.erases)
        await connection.execute(sql.ERASE_POSTS, unit.seq, unit.log)
        await connection.execute(sql.MARK_ERASED, erased_at(unit), unit.log)

    async def _post(self, connection: Connection, row: InboxRow, again: bool) -> bool:
        self._point("exec")
        key = stored_key(row.key)
        posted = await connection.fetchval(sql.POST, row.log, key, row.kind, row.salt, row.body)
        if posted is None and again:  # by the try that was lost, unless the salt is another's
            posted = await connection.fetchval(sql.POSTED_BEFORE, row.log, key, row.salt)
        if posted is not None:
            self._remember((posted,))
        return posted is not None

    def _remember(self, posts: Iterable[int]) -> None:
        self.own_posts.update(dict.fromkeys(posts))
        while len(self.own_posts) > OWN_POSTS_MAX:
            del self.own_posts[next(iter(self.own_posts))]


def _ends(units: Sequence[Unit]) -> tuple[list[str], list[int]]:
    return [unit.log for unit in units], [unit.seq for unit in units]


def _parts(units: Sequence[Unit], bytes_max: int) -> Iterator[list[Unit]]:
    """The units in order, in parts of about that size; a larger one is a part of its own."""
    part: list[Unit] = []
    size = 0
    for unit in units:
        size += size_of((unit,))
        if part and size > bytes_max:
            yield part
            part, size = [], size_of((unit,))
        part.append(unit)
    if part:
        yield part
