"""The steps of a store that can fail, and what each raises then; or where the process ends.

The points are those that the adapters visit (`point=`), each right before its step. What is raised is what the step itself
would raise: no adapter can tell the difference.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import asyncpg

from agentos.persistence.base import Point, Store
from agentos.persistence.file import FileStore
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.faults import FaultPlan
from agentos.testing.forked import Tell
from agentos.testing.torture_places import Place

KILLED = "killed"
SEGMENT_BYTES = 8 * 1024
SETTINGS = Settings(wal_copy_bytes=32 * 1024)
"""So little that segments are begun, and logs copied back, within one short story."""


class StoreFault(NamedTuple):
    """A way for one step of a store to fail."""

    point: str
    name: str
    error: Callable[[], Exception]


def _sqlite(code: int, text: str) -> Callable[[], Exception]:
    def error() -> Exception:
        made = sqlite3.OperationalError(text)
        made.sqlite_errorcode = code
        return made

    return error


def _system(number: int) -> Callable[[], Exception]:
    return lambda: OSError(number, os.strerror(number))


_LOCKED = _sqlite(sqlite3.SQLITE_BUSY, "database is locked")
_SQLITE_IO = _sqlite(sqlite3.SQLITE_IOERR, "disk I/O error")
_SQLITE_FULL = _sqlite(sqlite3.SQLITE_FULL, "database or disk is full")


def _lost() -> Exception:
    return asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")


def _collision() -> Exception:
    return asyncpg.SerializationError("could not serialize access due to concurrent update")


def _server_full() -> Exception:
    return asyncpg.DiskFullError("could not extend file: No space left on device")


def _stopped() -> Exception:
    return asyncpg.QueryCanceledError("canceling statement due to statement timeout")


def _no_room() -> Exception:
    return asyncpg.TooManyConnectionsError("sorry, too many clients already")


ERRORS: Mapping[str, Sequence[StoreFault]] = {
    "sqlite": (
        StoreFault("begin", "locked", _LOCKED),
        StoreFault("begin", "input/output", _SQLITE_IO),
        StoreFault("exec", "disk full", _SQLITE_FULL),
        StoreFault("commit", "disk full", _SQLITE_FULL),
        StoreFault("commit", "input/output", _SQLITE_IO),
        StoreFault("checkpoint", "locked", _LOCKED),
        StoreFault("checkpoint", "input/output", _SQLITE_IO),
    ),
    "file": (
        StoreFault("write", "disk full", _system(errno.ENOSPC)),
        StoreFault("fsync", "input/output", _system(errno.EIO)),
        StoreFault("create", "too many files", _system(errno.EMFILE)),
    ),
    "postgresql": (
        StoreFault("connect", "refused", lambda: ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")),
        StoreFault("connect", "no room", _no_room),
        StoreFault("begin", "lost", _lost),
        StoreFault("exec", "collision", _collision),
        StoreFault("exec", "disk full", _server_full),
        StoreFault("commit", "lost", _lost),
        StoreFault("commit", "disk full", _server_full),
        StoreFault("fetch", "lost", _lost),
        StoreFault("fetch", "stopped", _stopped),
    ),
}
"""By the kind of store. That the process is killed is possible at every point."""


def faults_of(store: str) -> Sequence[tuple[str, str]]:
    """Point and name of each fault of a kind of store: its errors first, then the kills."""
    errors = [(fault.point, fault.name) for fault in ERRORS[store]]
    return [*errors, *((point, KILLED) for point in dict.fromkeys(point for point, _ in errors))]


def store_at(place: Place, point: Point) -> Store:
    """The store of this place, not opened yet, that visits a point before each step."""
    path = place.url.partition(":")[2]
    if place.name == "sqlite":
        return SQLiteStore(path.removeprefix("///"), settings=SETTINGS, point=point)
    if place.name == "file":
        return FileStore(path, settings=SETTINGS, segment_bytes=SEGMENT_BYTES, point=point)
    return PostgreSQLStore(place.url, settings=SETTINGS, point=point)


def failing(plan: FaultPlan, store: str, tell: Tell) -> Point:
    """A point that fails by the plan. It tells "v" of each visit, and "f" of the fault. Any thread may visit it."""
    errors = {(fault.point, fault.name): fault.error for fault in ERRORS[store]}
    one = threading.Lock()

    def point(name: str) -> None:
        with one:
            tell(f"v{name}")
            kind = plan.visit(name)
        if kind is None:
            return
        tell("f")
        if kind == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        error = errors[name, kind]
        raise error()

    return point
