"""What becomes of the bytes of erased texts on the server.

An UPDATE leaves the row as it was until a vacuum takes it away. That makes room in its page and may leave the bytes in it
until the room is used, as the files of a server show; only a table that is written anew is rid of them. What the server's
write-ahead log, its replicas and its backups keep is theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentos.persistence.postgresql.faults import STORE_FAULTS
from agentos.persistence.postgresql.pool import Connection, Connections, Patience, Session

T = TypeVar("T")

VACUUM = "vacuum payloads, messages, inbox"
REWRITE = "vacuum full payloads, messages, inbox"
OWNED = """
    select bool_and(pg_has_role(relowner, 'member')) from pg_class
    where oid in ('payloads'::regclass, 'messages'::regclass, 'inbox'::regclass)
"""
LOOKING_BACK = """
    select exists (
        select 1 from pg_stat_activity
        where datname = current_database() and backend_xmin is not null and pid <> pg_backend_pid()
    ) or exists (select 1 from pg_prepared_xacts where database = current_database())
"""
"""Whether somebody may still see rows as they were, which a vacuum has to leave to them."""


async def vacuum(connections: Connections) -> None:
    """Raises StoreError."""
    await _run(connections, _vacuum)


async def rewrite(connections: Connections) -> bool:
    """Whether nothing of what was erased before is in the files of the tables any more. The tables are locked meanwhile.
    Raises StoreError; StoreBusy when they cannot be locked within busy_timeout_ms."""
    return await _run(connections, lambda connection: _rewrite(connection, connections))


async def _run(connections: Connections, work: Callable[[Connection], Awaitable[T]]) -> T:
    """On a connection of its own, since it may take long."""
    connection = await connections.connect(Session.UPKEEP, Patience(0.0))
    try:
        connections.point("exec")
        return await work(connection)
    except STORE_FAULTS as error:
        raise connections.unavailable(error, Patience(0.0)) from error
    finally:
        connection.terminate()


async def _vacuum(connection: Connection) -> None:
    await connection.execute(VACUUM)


async def _rewrite(connection: Connection, connections: Connections) -> bool:
    patience = Patience(connections.settings.busy_timeout_ms / 1000)
    while looks_back := await connection.fetchval(LOOKING_BACK):
        if not await patience.pause():
            break
    is_owner = await connection.fetchval(OWNED)  # tables of others are left out, and that is not told as an error
    await connection.execute(REWRITE)
    return bool(is_owner and not looks_back)
