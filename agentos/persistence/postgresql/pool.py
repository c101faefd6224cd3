"""Connections to one database: single ones with a task of their own, and a pool of those that read."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from agentos.errors import StoreBusy, StoreError, StoreUnavailable
from agentos.persistence.base import Durability, Point
from agentos.persistence.postgresql.address import Address
from agentos.persistence.postgresql.faults import NO_ROOM, STORE_FAULTS, Fault, fault_of, store_error
from agentos.persistence.postgresql.placeholders import numbered
from agentos.settings import Settings

T = TypeVar("T")
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

VERSION_MIN = 14
"""The oldest PostgreSQL that has all that is used here."""
ENCODING = "UTF8"
PAUSE_S, PAUSE_MAX_S = 0.02, 0.5
"""The first and the longest pause between two tries."""
RELEASE_S = 1.0
"""How long a cancelled statement is waited for before its connection is dropped."""
CLOSE_S = 2.0
TRANSACTION_IDLE_MS, UPGRADE_IDLE_MS = 5_000, 60_000
"""A transaction whose client is silent for so long is rolled back: a lost one must not hold its logs, nor a schema."""

_SET = "select set_config(name, value, false) from unnest($1::text[], $2::text[]) as u (name, value)"
# What each mode promises on a server that syncs (fsync = on): full, also a fail-over to a synchronous standby; normal, a
# crash of the server and a power cut; relaxed, a crash of this program, since the server may lose the last moments.
_SYNCHRONOUS_COMMIT = {Durability.FULL: "on", Durability.NORMAL: "local", Durability.RELAXED: "off"}


class Session(Enum):
    """What a connection is for; it is set up accordingly."""

    WRITE = "write"
    PRESENCE = "presence"
    READ = "read"
    QUERY = "query"
    UPGRADE = "upgrade"
    UPKEEP = "upkeep"


class Patience:
    """Uneven pauses between tries, until a limit is over; it begins with the first pause."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._deadline: float | None = None
        self._pause_s = PAUSE_S

    async def pause(self) -> bool:
        """False, at once, when the limit is over."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self.limit_s
        if now >= self._deadline:
            return False
        await asyncio.sleep(random.uniform(0.5, 1.0) * self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        return True


class Connections:
    """What a store has open. A server that went away after it was there once is waited for, up to reconnect_s."""

    def __init__(self, address: Address, settings: Settings, point: Point, check: Check) -> None:
        """`check` looks at a connection for reading before it is used; it raises StoreError."""
        self.address, self.settings, self.point = address, settings, point
        self._check = check
        self._reached = self._closed = False
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    def open(self) -> None:
        """Makes connections again after a close."""
        self._closed = False

    def refuse(self) -> None:
        """From now on no connection is made; what waits for one, or for a lost one, fails."""
        self._closed = True

    def check_open(self) -> None:
        """Raises StoreUnavailable."""
        if self._closed:
            raise StoreUnavailable(self.address.url, "the store is closed")

    async def connect(self, session: Session, patience: Patience | None = None, *, checked: bool = False) -> Connection:
        """checked: the schema is there, and has the version of this program. Raises StoreError, when it is a matter of
        waiting after the pauses that patience has left."""
        patience = patience or Patience(self.settings.reconnect_s)
        while True:
            try:
                return await self._connect(session, checked)
            except STORE_FAULTS as error:
                if not self._is_worth_waiting(error) or not await patience.pause():
                    raise self.unavailable(error, patience) from error

    def unavailable(self, error: BaseException, patience: Patience) -> StoreError:
        """The last error, with the limit that was reached when it is one that passes."""
        said = store_error(self.address.url, error)
        if type(said) is not StoreUnavailable or not patience.limit_s or not self._is_worth_waiting(error):
            return said
        return StoreUnavailable(said.url, f"{said.reason}; given up after {patience.limit_s:g} s (reconnect_s)")

    async def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows. A read whose connection is lost is done again. Raises StoreError."""
        patience = Patience(self.settings.reconnect_s)
        while True:
            try:
                async with self._lent() as connection:
                    self.point("fetch")
                    return await connection.fetch(numbered(sql), *parameters)
            except STORE_FAULTS as error:
                self.check_open()
                if not self._is_worth_waiting(error) or not await patience.pause():
                    raise self.unavailable(error, patience) from error

    async def close(self) -> None:
        """Reads that are under way have CLOSE_S to end."""
        self.refuse()
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await pool.close()
        except (TimeoutError, *STORE_FAULTS):
            pool.terminate()

    def abandon(self) -> None:
        self.refuse()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()

    def _is_worth_waiting(self, error: BaseException) -> bool:
        return isinstance(error, NO_ROOM) or (self._reached and fault_of(error) is Fault.LOST)

    async def _connect(self, session: Session, checked: bool, **given: Any) -> Connection:
        self.check_open()
        self.point("connect")
        limit_s = None if session in (Session.UPGRADE, Session.UPKEEP) else self.settings.statement_s
        try:
            connection: Connection = await asyncpg.connect(
                self.address.dsn, timeout=self.settings.connect_s, command_timeout=limit_s, **given
            )
        except UnicodeError as error:
            raise StoreUnavailable(self.address.url, f"no host can have such a name: {error}") from error
        try:
            self._check_server(connection)
            settings = self._settings_of(session)
            await connection.fetch(_SET, list(settings), list(settings.values()))
            self._reached = True
            if checked:
                await self._check(connection)
            self.check_open()  # it may have been closed meanwhile
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _check_server(self, connection: Connection) -> None:
        major = connection.get_server_version().major
        if major < VERSION_MIN:
            reason = f"the server is PostgreSQL {major}; {VERSION_MIN} or later is needed"
            raise StoreUnavailable(self.address.url, reason)
        encoding = getattr(connection.get_settings(), "server_encoding", ENCODING)
        if encoding != ENCODING:
            reason = f"database {self.address.database!r} has the encoding {encoding}, which cannot hold every text"
            raise StoreUnavailable(self.address.url, f"{reason}; use one that was created with ENCODING '{ENCODING}'")

    def _settings_of(self, session: Session) -> Mapping[str, str]:
        common = {
            "application_name": self.address.application,
            "search_path": f"{self.address.schema}, pg_temp",
            "standard_conforming_strings": "on",
            "default_transaction_isolation": "read committed",
            "idle_in_transaction_session_timeout": f"{TRANSACTION_IDLE_MS}ms",
            "idle_session_timeout": "0",  # that of a role or a database would end those that wait
            "statement_timeout": "0",  # statement_s is kept by the client
            "lock_timeout": f"{self.settings.busy_timeout_ms}ms",
        }
        return {**common, **self._special(session)}

    def _special(self, session: Session) -> Mapping[str, str]:
        if session is Session.WRITE:
            # The statements of a batch have one good plan, by the keys of the tables, also while these are small.
            plan = {f"enable_{way}": "off" for way in ("seqscan", "hashjoin", "mergejoin")}
            plan |= {"jit": "off", "plan_cache_mode": "force_generic_plan"}
            return {**plan, "synchronous_commit": _SYNCHRONOUS_COMMIT[self.address.durability]}
        if session is Session.PRESENCE:
            return {"synchronous_commit": "off"}
        if session is Session.READ:
            return {"default_transaction_read_only": "on", "jit": "off"}
        if session is Session.QUERY:
            return {"default_transaction_read_only": "on"}
        return {"idle_in_transaction_session_timeout": f"{UPGRADE_IDLE_MS}ms"}

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[PoolConnectionProxy[asyncpg.Record]]:
        """A connection for one read. One that is still busy RELEASE_S after the end of the block is dropped."""
        pool = await self._pooled()
        limit_s, most = self.settings.reconnect_s, self.settings.pool_connections_max
        try:
            async with asyncio.timeout(limit_s):
                connection = await pool.acquire()
        except TimeoutError as error:
            if pool.get_size() < most or pool.get_idle_size():
                raise
            reason = (
                f"all {most} connections for reading (pool_connections_max) were in use for more than {limit_s:g} s"
            )
            raise StoreBusy(self.address.url, f"{reason} (reconnect_s)") from error
        try:
            yield connection
        finally:
            with contextlib.suppress(*STORE_FAULTS):  # it is dropped then
                await pool.release(connection, timeout=RELEASE_S)

    async def _pooled(self) -> asyncpg.Pool[asyncpg.Record]:
        self.check_open()
        if self._pool is None:
            # Without connections it is made at once: no other task comes between.
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=self.settings.pool_connections_max,
                connect=self._connect_reading,
                reset=_leave_as_it_is,
            )
        return self._pool

    async def _connect_reading(self, *_: Any, loop: Any = None, **given: Any) -> Connection:
        """The pool gives the classes that it wants."""
        return await self._connect(Session.READ, True, **given)


Check = Callable[[Connection], Awaitable[None]]


async def _leave_as_it_is(connection: object) -> None:
    """A read leaves nothing behind: no transaction, lock or setting."""
