"""What a store keeps and promises. One file per adapter beside this one; all pass `agentos.testing.store_contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from agentos.ids import LogId


class Verdict(Enum):
    """What became of a unit. Only STORED changed the store.

    FENCED: another writer owns the log, or its epoch moved on. CONFLICT: the log's head is not what the unit builds on.
    """

    STORED = "stored"
    FENCED = "fenced"
    CONFLICT = "conflict"


class Durability(Enum):
    """What an acknowledged unit survives.

    full: a power cut. normal: a crash of this program; a power cut may take the last units, never a part of one.
    relaxed: a crash of this program; a power cut may damage the store.
    """

    FULL = "full"
    NORMAL = "normal"
    RELAXED = "relaxed"


class LogRow(msgspec.Struct, kw_only=True):
    """Head, ownership and fence of one log. digest is that of the entry at seq, or the chain's seed when seq is 0.

    erased_at: when its texts were erased, in microseconds, UTC; None while they stand. Rows that `append` is given as
    `create` leave it out.
    """

    id: LogId
    kind: str
    owner: int
    epoch: int
    seq: int
    digest: bytes
    root: str | None = None
    parent_call: str | None = None
    tenant: str | None = None
    forked_from: str | None = None
    upto: int = 0
    erased_at: int | None = None


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """An item under way to a log. key is unique within the log, also after it was taken."""

    log: str
    key: str
    kind: str
    salt: bytes
    body: str


class WakeupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A time that a log waits for; due_at in microseconds, UTC."""

    log: str
    reason: str
    turn: int
    call: int
    due_at: int


class WriterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that opened the store for writing; times in microseconds, UTC.

    beat_at is its last sign of life where the store asks for one; ended_at, when it closed or was declared dead.
    """

    n: int
    incarnation: str
    host: str
    pid: int
    started_at: int
    beat_at: int | None
    ended_at: int | None
    alive: bool


class TakenKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of an inbox item that a unit took: seq is the last one of that unit."""

    log: str
    key: str
    kind: str
    seq: int


Point = Callable[[str], None]
"""Told the name of each step of an adapter that can fail; a test raises from it what that step may raise."""


def no_point(_: str) -> None:
    """No fault is planned."""


EntryRow = tuple[int, int, str, int, int, int, str, bytes]
"""seq, unit, kind, turn, call, at, head, digest"""
PayloadRow = tuple[int, int, str, bytes | None, str | None]
"""seq, i, name, salt, body; the last two are None together, in a unit that is copied after they were erased"""
MessageRow = tuple[int, str, int, int, bytes | None, str | None]
"""seq, role, turn, call, salt, text: payload 0 of an entry that is a message; erased as a payload is"""
ComponentRow = tuple[str, str, str]
"""entity id, component name, body"""


class Unit(msgspec.Struct, kw_only=True, gc=False):
    """The entries of one log in one pass with all that goes with them, all or nothing.

    previous_seq and previous are the head it builds on, seq and digest the head it leaves. conversation, turns and
    calls are rows of the tables of these names, in the order of `agentos.persistence.rows`; a row replaces the one
    before. resolved are calls of this log, by seq, with what was decided of their outcome. taken are inbox keys of this
    log; create the row of a log that begins with this unit.

    erases is the seq up to which every salt and body of this log's own entries goes with this unit, those of shared
    entries of a fork's parent excepted; 0 for none. With them go the bodies that wait in the log's inbox, whose keys
    count as taken, and the row of the log says from then on when it was (`erased_at` = the time of the unit's entries).
    """

    log: LogId
    owner: int
    epoch: int
    previous_seq: int
    previous: bytes
    seq: int
    digest: bytes
    entries: list[EntryRow]
    payloads: list[PayloadRow]
    messages: list[MessageRow]
    conversation: tuple[Any, ...] | None = None
    turns: Sequence[tuple[Any, ...]] = ()
    calls: Sequence[tuple[Any, ...]] = ()
    components: Sequence[ComponentRow] = ()
    resolved: Sequence[tuple[int, str]] = ()
    posts: Sequence[InboxRow] = ()
    taken: Sequence[str] = ()
    wakeups: Sequence[WakeupRow] = ()
    woken: Sequence[WakeupRow] = ()
    definitions: Sequence[tuple[str, str, str]] = ()
    create: LogRow | None = None
    erases: int = 0


def erased_at(unit: Unit) -> int:
    """When a unit that erases did so: the time of the entry that comes right behind what it erases, its receipt."""
    return next((at for seq, _, _, _, _, at, *_ in unit.entries if seq > unit.erases), unit.entries[-1][5])


class StoredEntry(msgspec.Struct, kw_only=True, gc=False):
    """An entry as it stands: raw head, digest, and its payload rows (i, name, salt, body), body None when erased."""

    seq: int
    unit: int
    kind: str
    head: str
    digest: bytes
    payloads: list[tuple[int, str, bytes | None, str | None]]


class Rows(msgspec.Struct, frozen=True):
    """The answer to a query."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Store(Protocol):
    """A place where logs last. One writer task appends; reads may go on beside it."""

    url: str

    async def open(self, incarnation: str) -> int:
        """Opens or makes the store and registers this writer; returns its number, which is new each time."""

    async def close(self) -> None:
        """Ends the writer and closes everything; a second call does nothing."""

    def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        """One transaction; units whose head, owner or epoch does not match are left out. Raises StoreUnavailable,
        and then nothing is stored. A list means it was done in place; a future, that it goes on elsewhere."""

    async def log(self, log: str) -> LogRow | None: ...
    async def logs(self, kind: str | None = None) -> list[LogRow]: ...
    async def claim(self, log: str) -> LogRow | None:
        """Makes this writer the owner, with the next epoch, when the owner is dead or is this writer already.
        None when a living writer owns it or there is no such log."""

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        """Entries with after < seq <= upto in order; the first of them up to limit; of these kinds, or of all."""

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        """The seq of the last snapshot entry up to there, 0 when there is none."""

    async def open_logs(self) -> list[str]:
        """Conversations with an open turn, idle ones (children left out) with an input that no turn has taken, and logs
        with something in the inbox, whoever owns them; sorted."""

    async def definition(self, digest: str) -> tuple[str, str] | None:
        """kind and body."""

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        """A page of digest, kind and body: those with a digest beyond `after`, in order."""

    async def post(self, row: InboxRow) -> bool:
        """Adds a command for whoever owns the log; False when the key is known already."""

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        """What was not taken yet, of one log or of all, oldest first."""

    async def inbox_seq(self, log: str, key: str) -> int | None:
        """The seq of the entry that took this key, 0 while it waits, None when the key is unknown."""

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        """A page of the keys that units took: those beyond (log, key), in order."""

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        """Of one log or of all, by the time they are due."""

    async def writers(self) -> list[WriterRow]:
        """Every writer that ever opened the store, oldest first."""

    async def declare_dead(self, writer: int) -> bool:
        """Marks a writer as ended on a person's word, so that its logs may be claimed; what it still appends to them is
        fenced from then on. False when there is no such writer, or it had ended, or is this one."""

    async def damages(self) -> Sequence[object]:
        """Places in its own files that are not as they were written, each told by `str`; none where a database looks
        after its files."""

    async def settle_erased(self) -> bool:
        """Waits until the bytes that units of this store erased are overwritten in its own files, too, for a bound of
        time, and says whether they are; a later call goes on, and so does `close`. What stands outside of the store
        (backups, replicas, a server's log, blocks that a disk has put aside) is not known to it. Raises StoreError."""

    async def compact(self) -> bool:
        """Writes the files of the store anew without what it no longer holds, where it has such, and then is as
        `settle_erased`. It takes as long as the store is large, and others cannot write meanwhile. Raises StoreError."""

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """One reading statement over all tables and views. Raises QueryRefused."""

    def changed(self) -> bool:
        """Whether another process wrote since the last call; cheap enough for inbox_poll_ms."""
