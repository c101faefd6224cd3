"""How a writer is seen by the others, and hears of what they write: one connection with a task of its own.

Notifications carry the number of the writer that sends them and are sent after its transactions, not in them: a commit that
notifies holds a lock of the whole server while it is synced. So one can be lost when its writer dies in between; what lies
in the inbox is found by a look now and then. A writer that is alone tells nobody; one that comes says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable

import asyncpg

from agentos.errors import StoreError
from agentos.persistence.postgresql import liveness
from agentos.persistence.postgresql.faults import STORE_FAULTS, Fault, fault_of, store_error
from agentos.persistence.postgresql.pool import CLOSE_S, Connection, Connections, Patience, Session

_log = logging.getLogger(__name__)

ANNOUNCE_S = 0.05
"""The least time between two notifications of one writer."""
HELLO = "hello"
"""Said by a writer that comes; it has written nothing that others wait for."""
WAITING_MAX = 1_000
"""At how many posts that wait each look looks, the newest ones."""

_NOTIFY = "select pg_notify($1, $2)"
_WAITING = """
with waiting as materialized (select n from inbox where seq is null) select n from waiting order by n desc limit $1
"""


class Presence:
    """Lock, heartbeat and ear of one writer. It comes back by itself for as long as it is not closed."""

    def __init__(self, connections: Connections, own_posts: Iterable[int]) -> None:
        """own_posts grows while posts are made: numbers that are no news."""
        self.number = 0
        self._connections, self._settings = connections, connections.settings
        self._channel = f"agentos_{connections.address.schema}"
        self._own_posts = own_posts
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._changed = self._to_announce = self._locked = False
        self._alone, self._counts = False, True
        self._waiting: frozenset[int] = frozenset()
        self._told: frozenset[int] = frozenset()

    async def start(self, incarnation: str) -> None:
        """Registers the writer. Raises StoreError."""
        try:
            self._connection = await self._connections.connect(Session.PRESENCE)
            self.number = await liveness.register(self._connection, incarnation, self._settings)
            self._locked = True
            await self._listen(self._connection)
            await self._connection.execute(_NOTIFY, self._channel, HELLO)
            await self._beat(self._connection)
        except BaseException as error:
            self.abandon()
            if isinstance(error, STORE_FAULTS):
                raise store_error(self._connections.address.url, error) from error
            raise
        self._task = asyncio.create_task(self._stay(), name=f"agentos writer {self.number}")

    def changed(self) -> bool:
        """Whether another writer wrote since the last call, as far as it is known."""
        changed, self._changed = self._changed, False
        return changed

    def announce(self) -> None:
        """This writer wrote something; the others are told soon."""
        if not self._to_announce and not self._alone:
            self._to_announce = True
            self._wake.set()

    async def close(self) -> None:
        """Tells what is still to be told, and lets go of the lock."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        connection = self._connection
        try:
            if connection is not None and not connection.is_closed():
                async with asyncio.timeout(CLOSE_S):
                    if self._to_announce:
                        await self._announce(connection)
                    await connection.close()
        except STORE_FAULTS as error:
            _log.debug("writer %d could not say goodbye: %s", self.number, _word(error))
        finally:
            self._drop()

    def abandon(self) -> None:
        """As a crash would: the server takes the lock back."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._drop()

    async def _stay(self) -> None:
        patience = Patience(math.inf)
        while True:
            try:
                connection = await self._here()
                patience = Patience(math.inf)
                await self._work(connection)
            except STORE_FAULTS as error:
                self._lost(error)
            except StoreError as error:
                _log.warning("writer %d is not seen by others now: %s", self.number, error)
            await patience.pause()

    async def _here(self) -> Connection:
        """The connection; a new one takes the lock and listens, and what was said meanwhile counts as a change."""
        if self._connection is None or self._connection.is_closed():
            self._drop()
            self._connection = connection = await self._connections.connect(Session.PRESENCE)
            await self._listen(connection)
            self._changed, self._alone = True, False
            await self._beat(connection)
        return self._connection

    async def _listen(self, connection: Connection) -> None:
        await connection.add_listener(self._channel, self._hear)
        connection.add_termination_listener(lambda _: self._wake.set())

    async def _work(self, connection: Connection) -> None:
        """Beats, looks and tells, each when it is time, until the connection is gone."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._settings.writer_beat_s
        look_at = loop.time() + self._settings.change_poll_s
        while not connection.is_closed():
            if self._to_announce:
                await self._announce(connection)
                await asyncio.sleep(ANNOUNCE_S)
            now = loop.time()
            if now >= beat_at:
                await self._beat(connection)
                beat_at = now + self._settings.writer_beat_s
            if now >= look_at:
                await self._look(connection)
                look_at = now + self._settings.change_poll_s
            await self._wait(min(beat_at, look_at) - loop.time())

    async def _wait(self, seconds: float) -> None:
        """Until the time is over or something is to be told."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        self._wake.clear()

    async def _announce(self, connection: Connection) -> None:
        self._to_announce = False
        try:
            await connection.execute(_NOTIFY, self._channel, str(self.number))
        except BaseException:
            self._to_announce = True
            raise

    async def _beat(self, connection: Connection) -> None:
        """The lock of a connection that was lost is free once the server has noticed it too."""
        if not self._locked:
            self._locked = bool(await connection.fetchval(liveness.LOCK, self.number))
        row = await connection.fetchrow(liveness.BEAT, liveness.dead_us(self._settings), self.number)
        counts, others = row or (False, True)
        self._alone = not others
        if self._counts and not counts:
            _log.warning("writer %d was declared dead; others may take its conversations over", self.number)
        self._counts = counts

    async def _look(self, connection: Connection) -> None:
        """A post of another that waits at two looks in a row has not been told of."""
        own = set(self._own_posts)
        waiting = frozenset(n for (n,) in await connection.fetch(_WAITING, WAITING_MAX)) - own - set(self._own_posts)
        missed = (waiting & self._waiting) - self._told
        self._changed = self._changed or bool(missed)
        self._told = (self._told | missed) & waiting
        self._waiting = waiting

    def _hear(self, _connection: object, _pid: int, _channel: str, word: object) -> None:
        if word != str(self.number):
            self._changed = self._changed or word != HELLO
            self._alone = False

    def _lost(self, error: BaseException) -> None:
        _log.warning("writer %d lost the connection by which others see it: %s", self.number, _word(error))
        if fault_of(error) is not Fault.AGAIN:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection, self._locked = self._connection, None, False
        if connection is not None:
            connection.terminate()


def _word(error: BaseException) -> str:
    if isinstance(error, asyncpg.InternalClientError):
        return "it broke off in the middle of an operation"  # of which the driver tells its own states
    return str(error.args[0]) if error.args else type(error).__name__
