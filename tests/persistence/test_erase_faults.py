"""An erasing unit is stored with all that it takes away, or not at all: after each fault, and after each kill."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from agentos.errors import StoreError
from agentos.persistence.base import Durability, Store
from agentos.persistence.file import FileStore
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import LogUnits
from agentos.testing.postgres import PostgresServer
from tests.persistence.erase_support import bodies, erasing, files_with, fill, stored

ROUNDS = 3
CHILD_S = 60.0
LOOKS, LOOK_S = 3_000, 0.02


class Fault:
    """Fails the nth visit of a point, once it is armed."""

    def __init__(self, point: str, n: int, error: Callable[[], Exception]) -> None:
        self.armed = self.fired = False
        self._point, self._left, self._error = point, n, error

    def __call__(self, name: str) -> None:
        if self.armed and name == self._point:
            self._left -= 1
            if self._left == 0:
                self.fired = True
                raise self._error()


def _disk_full() -> Exception:
    error = sqlite3.OperationalError("on purpose")
    error.sqlite_errorname, error.sqlite_errorcode = "SQLITE_FULL", sqlite3.SQLITE_FULL
    return error


def _no_space() -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _server_full() -> Exception:
    return asyncpg.DiskFullError("on purpose")


async def _is_old_or_new(store: Store, log: LogUnits, seq: int) -> bool:
    """Whether the erase was done; nothing else may be there than all of it or nothing."""
    row, left = await store.log(log.id), await bodies(store, log)
    waiting = await store.inbox(log.id)
    queried = (await store.query("select count(*) from inbox where log = ? and body is not null", (log.id,))).rows
    assert row is not None
    if row.seq == seq:
        assert (row.erased_at, None in left, len(waiting) > 0, queried > [(0,)]) == (None, False, True, True)
        return False
    assert row.erased_at is not None
    assert (left, waiting, queried) == ({None}, [], [(0,)])
    return True


@pytest.mark.parametrize(
    ("kind", "point", "error"),
    [
        ("sqlite", "begin", _disk_full),
        ("sqlite", "exec", _disk_full),
        ("sqlite", "commit", _disk_full),
        ("file", "write", _no_space),
        ("file", "fsync", _no_space),
        ("postgresql", "exec", _server_full),
        ("postgresql", "commit", _server_full),
    ],
)
async def test_a_fault_at_any_step_leaves_all_or_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, point: str, error: Callable[[], Exception]
) -> None:
    for n in count(1):
        fault = Fault(point, n, error)
        folder = tmp_path / str(n)
        folder.mkdir()
        store: Store
        if kind == "sqlite":
            store = SQLiteStore(str(folder / "store.db"), point=fault)
        elif kind == "file":
            store = FileStore(str(folder / "store"), point=fault, segment_bytes=20_000)
        else:
            server: PostgresServer = request.getfixturevalue("postgres")
            store = PostgreSQLStore(server.new_schema_url(), point=fault)
        log = await fill(store, await store.open("program"), rounds=ROUNDS)
        unit, seq = erasing(log), log.seq - 1
        fault.armed = True
        try:
            await stored(store, unit)
            was_told = False
        except StoreError:
            was_told = True
        fault.armed = False
        assert await _is_old_or_new(store, log, seq) is not was_told
        if was_told:
            await stored(store, unit)
        assert await _is_old_or_new(store, log, seq)
        settled = await store.settle_erased()
        await store.close()
        if kind != "postgresql":
            assert settled
            assert files_with(folder) == []
        if not fault.fired:
            break

    assert n > 1


async def _is_gone(folder: Path) -> bool:
    """Whether the word goes from the files while the store is open, without being asked for."""
    for _ in range(LOOKS):
        if not files_with(folder):
            return True
        await asyncio.sleep(LOOK_S)
    return False


KILLED = """
import asyncio, itertools, json, os, signal, sys
from agentos.persistence.base import Durability
from agentos.persistence.file import FileStore
from agentos.persistence.file import overwriting
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import append
from tests.persistence.erase_support import erasing, fill

kind, path, durability, point, n = sys.argv[1:]
armed, visits, writes = False, itertools.count(1), itertools.count(1)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def kill(name):
    if armed and name == point and next(visits) == int(n):
        die()

whole = overwriting.write_all

def half(descriptor, data, offset):
    if point == "half" and next(writes) == int(n):
        whole(descriptor, data[: len(data) // 2], offset)
        die()
    if point == "behind" and next(writes) == int(n):
        whole(descriptor, data[len(data) // 2 :], offset + len(data) // 2)
        die()
    whole(descriptor, data, offset)

overwriting.write_all = half

async def main():
    global armed
    if kind == "sqlite":
        store = SQLiteStore(path, durability=Durability(durability), point=kill)
    else:
        store = FileStore(path, durability=Durability(durability), point=kill, segment_bytes=20_000)
    log = await fill(store, await store.open("program"), rounds=3)
    print(json.dumps({"seq": log.seq}), flush=True)
    armed = True
    await append(store, erasing(log))
    print(json.dumps({"done": True}), flush=True)
    await store.settle_erased()
    store.abandon()

asyncio.run(main())
"""


def _run(kind: str, path: Path, durability: Durability, point: str, n: int) -> tuple[int, list[dict[str, int]]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, kind, str(path), durability.value, point, str(n)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=CHILD_S)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    ("kind", "durability", "point", "kills_min"),
    [
        ("sqlite", Durability.NORMAL, "commit", 1),
        ("sqlite", Durability.NORMAL, "checkpoint", 1),
        ("file", Durability.FULL, "half", 4),
        ("file", Durability.NORMAL, "behind", 4),
        ("file", Durability.FULL, "write", 4),
        ("file", Durability.NORMAL, "fsync", 2),
    ],
)
async def test_a_process_killed_in_the_middle_has_erased_all_or_nothing_and_the_next_one_finishes(
    tmp_path: Path, kind: str, durability: Durability, point: str, kills_min: int
) -> None:
    for n in count(1):
        folder = tmp_path / str(n)
        folder.mkdir()
        path = folder / "store"
        code, told = _run(kind, path, durability, point, n)
        seq = told[0]["seq"]
        reader, writer = (SQLiteStore(str(path)) if kind == "sqlite" else FileStore(str(path)) for _ in range(2))
        log = LogUnits("erased", 0)
        damages = [str(damage) for damage in await reader.damages()]
        as_read = await _is_old_or_new(reader, log, seq)
        await reader.close()
        await writer.open("next program")
        as_written = await _is_old_or_new(writer, log, seq)
        by_itself = as_written and await _is_gone(folder)
        await writer.close()

        assert damages == []
        assert as_read is as_written is by_itself
        assert as_read or len(told) == 1, "what was acknowledged is kept"
        if as_read:
            assert files_with(folder) == []
        if code == 0:
            break

    assert n > kills_min
