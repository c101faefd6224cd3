"""Who writes to the store, and which of them still live; all of it by the server's clock.

A writer is dead when it has ended; when it did not beat for writer_dead_s, as a frozen or cut-off process does not (a beat
that is as far in the future says nothing: the clock was set back since); or when nobody holds its lock, which the server
takes back as soon as the process or its connection is gone. A server that was away has heard no beat, and all locks are free
when it comes back, so until it has been there for writer_dead_s only the locks count that were taken since, and a silence
of more than GONE_S. What a writer that was taken for dead still sends is fenced, so a wrong guess costs an interruption and
never an entry.
"""

from __future__ import annotations

import os
import socket

from agentos.persistence.base import LogRow
from agentos.persistence.postgresql.placeholders import numbered
from agentos.persistence.postgresql.pool import Connection
from agentos.persistence.reading import log_row
from agentos.settings import Settings

GONE_S = 3_600
"""So much silence is not that of a server which was away, or of a network that was cut."""

_PARTS = {
    "@dead": "(@gone or (@silent and @settled) or @long_silent)",
    "@gone": "(w.ended_at is not null or (@unlocked and (@settled or w.started_at >= @start)))",
    "@settled": "abs(@now - @start) > ?1::int8",
    "@silent": "@silence > ?1::int8",
    "@long_silent": f"@silence > greatest(?1::int8, {GONE_S * 1_000_000})",
    "@silence": "abs(@now - coalesce(w.beat_at, w.started_at))",
    "@unlocked": """
        not exists (
            select from pg_locks
            where locktype = 'advisory' and objsubid = 1
                and database = (select oid from pg_database where datname = current_database())
                and classid = 'writers'::regclass::oid and objid = w.n::oid
        )
    """,
    "@start": "(extract(epoch from pg_postmaster_start_time()) * 1000000)::int8",
    "@now": "(extract(epoch from clock_timestamp()) * 1000000)::int8",
}
"""Words of the statements below, each spelled with those after it. Of a row `w` of writers; ?1 is writer_dead_s in us."""


def _spelled(sql: str) -> str:
    for word, meaning in _PARTS.items():
        sql = sql.replace(word, meaning)
    return sql


_REGISTER = numbered(
    _spelled("""
    insert into writers (incarnation, host, pid, started_at, beat_at)
    select ?, ?, ?, now, now from (select @now as now) as clock returning n
""")
)
LOCK = numbered("select pg_try_advisory_lock('writers'::regclass::oid::int8 << 32 | ?::int8)")
BEAT = numbered(
    _spelled("""
    update writers as own set beat_at = case when ended_at is null then @now else beat_at end where n = ?2::int8
    returning ended_at is null, exists (
        select from writers as w where w.ended_at is null and w.n <> own.n and not (@settled and @silent)
    )
""")
)
"""Gives whether the writer counts, and whether there may be others who listen."""
_END = numbered(_spelled("update writers set ended_at = @now where n = ? and ended_at is null returning n"))
_HAS_ENDED = numbered("select ended_at is not null from writers where n = ?")
_END_GONE = numbered(
    _spelled("""
    update writers as w set ended_at = @now
    where ended_at is null and n <> ?2::int8 and @unlocked and @settled and @long_silent
""")
)
WRITERS = _spelled("""
    select n, incarnation, host, pid, started_at, beat_at, ended_at, not @dead as alive from writers as w order by n
""")
"""The columns of a WriterRow."""
_LIVING = _spelled("select n, host, pid from writers as w where not (@gone or @silent)")
_CLAIM = numbered(
    _spelled("""
    update logs set owner = ?2::int8, epoch = epoch + 1
    where id = ?3 and (
        owner in (0, ?2::int8) or not exists (select from writers as w where w.n = logs.owner and not @dead)
    )
    returning id, kind, owner, epoch, seq, digest, root, parent_call, tenant, forked_from, upto, erased_at
""")
)


def dead_us(settings: Settings) -> int:
    return int(settings.writer_dead_s * 1_000_000)


def living(settings: Settings) -> str:
    """A statement without values: number, host and process of each living writer that was heard of lately."""
    return _LIVING.replace("?1", str(dead_us(settings)))


async def register(connection: Connection, incarnation: str, settings: Settings) -> int:
    """The number of a new writer, whose lock the connection holds before anybody else can see it.

    Those that were silent for GONE_S and have no lock are marked as ended: they are gone for good.
    """
    async with connection.transaction():
        number = int(await connection.fetchval(_REGISTER, incarnation, socket.gethostname(), os.getpid()))
        await connection.fetchval(LOCK, number)
        await connection.execute(_END_GONE, dead_us(settings), number)
    return number


async def end(connection: Connection, number: int, again: bool = False) -> bool:
    """False when there is no such writer, or it had ended. After a try that was lost it may have ended by that."""
    ended = await connection.fetchval(_END, number) is not None
    return ended or (again and bool(await connection.fetchval(_HAS_ENDED, number)))


async def claim(connection: Connection, log: str, number: int, settings: Settings) -> LogRow | None:
    """The log under its new epoch; None when there is none, or when its owner lives and is another."""
    row = await connection.fetchrow(_CLAIM, dead_us(settings), number, log)
    return None if row is None else log_row(tuple(row))
