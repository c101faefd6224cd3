"""Each step of SQLite that can fail is failed in turn: nothing half is stored, and what was acknowledged is kept."""

from __future__ import annotations

import logging
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import StoreError
from agentos.persistence.base import LogRow, Unit, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, append, post_of, wakeup_of
from tests.persistence.children import CHILD_S, Start

SMALL = Settings(wal_copy_bytes=16 * 1024, inline_bytes_max=20_000)
"""So that checkpoints come often, and some batches go to the thread."""
TABLES = ("logs", "entries", "messages", "payloads", "conversations", "inbox", "wakeups", "definitions")

Step = Callable[[], Awaitable[object]]


class NthFault:
    """Raises SQLite's error of this name at the nth visit of a point."""

    def __init__(self, point: str, n: int, error: str) -> None:
        self.fired = False
        self._point, self._left, self._error = point, n, error

    def __call__(self, name: str) -> None:
        if name == self._point:
            self._left -= 1
            if self._left == 0:
                self.fired = True
                raise _sqlite_error(self._error)


def _sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"on purpose: {name}")
    error.sqlite_errorname, error.sqlite_errorcode = name, getattr(sqlite3, name)
    return error


class Script:
    """A little of everything that a kernel does, in steps that may be done again after they failed."""

    def __init__(self, store: SQLiteStore, writer: int) -> None:
        self._store = store
        self._a, self._b = a, b = LogUnits("a", writer), LogUnits("b", writer)
        self._claimed: LogRow | None = None
        self._last: Unit | None = None
        self.steps: list[Step] = [
            self._appends(a.unit("input.received", "turn.started", text="hello", definitions=[("d", "agent", "{}")])),
            self._appends(
                a.unit(posts=[post_of(b.id, "task")], wakeups=[wakeup_of(a.id, "retry", 7)]),
                b.unit(conversation=b.conversation(open_turn=1)),
            ),
            self._appends(a.unit(text="x" * 50_000), b.unit(text="y", taken=["task"])),
            lambda: store.post(post_of(a.id, "k")),
            *(self._appends(a.unit("a", "b", text="z" * 8_000)) for _ in range(4)),
            self._appends(a.unit(woken=[wakeup_of(a.id, "retry", 7)])),
            self._reads,
            lambda: store.post(post_of(b.id, "l")),
            self._claims,
            self._appends_under_the_next_epoch,
            lambda: store.declare_dead(99),
        ]

    def _appends(self, *units: Unit) -> Step:
        async def step() -> None:
            assert await append(self._store, *units) == [Verdict.STORED] * len(units)

        return step

    async def _reads(self) -> None:
        assert [entry.seq for entry in await self._store.entries(self._a.id)] == list(range(1, 14))
        assert len((await self._store.query("select text from messages")).rows) == 7

    async def _claims(self) -> None:
        self._claimed = await self._store.claim(self._a.id)

    async def _appends_under_the_next_epoch(self) -> None:
        assert self._claimed is not None
        self._last = self._last or self._a.owned(self._claimed).unit(text="under the next epoch")
        assert await append(self._store, self._last) == [Verdict.STORED]


def everything(path: Path) -> list[list[tuple[Any, ...]]]:
    """What another process finds in the file."""
    db = sqlite3.connect(path)
    try:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return [db.execute(f"select * from {table} order by 1, 2, 3").fetchall() for table in TABLES]
    finally:
        db.close()


async def _play(path: Path, fault: Callable[[str], None]) -> int:
    """Does all steps, those that failed once more; says how many failed."""
    failed = 0
    store = SQLiteStore(str(path), settings=SMALL, point=fault)
    try:
        writer = await store.open("program")
    except StoreError:
        failed += 1
        writer = await store.open("program")
    for step in Script(store, writer).steps:
        before = everything(path)
        try:
            await step()
        except StoreError:
            assert everything(path) == before
            failed += 1
            await step()
    await store.close()
    return failed


@pytest.mark.parametrize(
    ("point", "error", "is_told"),
    [
        ("begin", "SQLITE_IOERR", True),
        ("begin", "SQLITE_BUSY", False),
        ("exec", "SQLITE_FULL", True),
        ("commit", "SQLITE_IOERR", True),
        ("commit", "SQLITE_CORRUPT", True),
        ("commit", "SQLITE_BUSY", False),
        ("checkpoint", "SQLITE_IOERR", False),
    ],
)
async def test_the_nth_visit_of_a_point_fails_and_nothing_half_is_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, point: str, error: str, is_told: bool
) -> None:
    await _play(tmp_path / "whole.db", lambda _: None)
    whole = everything(tmp_path / "whole.db")
    failures = []
    with caplog.at_level(logging.ERROR):
        for n in count(1):
            fault = NthFault(point, n, error)
            failures.append(await _play(tmp_path / f"{n}.db", fault))
            assert everything(tmp_path / f"{n}.db") == whole
            if not fault.fired:
                break

    assert len(failures) > (2 if point == "checkpoint" else 12)
    assert failures[-1] == 0
    if is_told:  # all but the writer's end, which a close does not wait for
        ends = {"begin": 1, "exec": 1, "commit": 1}[point]
        assert failures[: -1 - ends] == [1] * (len(failures) - 1 - ends)
    else:
        assert set(failures) == {0}


KILLED = """
from tests.persistence.test_sqlite_faults import SMALL, Script

point, n = sys.argv[2], int(sys.argv[3])
visits = itertools.count(1)

def kill(name):
    if name == point and next(visits) == n:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = SQLiteStore(path, settings=SMALL, point=kill)
    for i, step in enumerate(Script(store, await store.open("program")).steps):
        await step()
        say(done=i)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(("point", "kills_min"), [("commit", 13), ("checkpoint", 1)])
async def test_a_process_that_is_killed_at_a_point_loses_nothing_it_acknowledged(
    tmp_path: Path, start: Start, point: str, kills_min: int
) -> None:
    states = await _states_after_each_step(tmp_path / "whole.db")
    path = tmp_path / "store.db"
    for n in count(1):
        child = start(KILLED, point, str(n))
        output, errors = child.communicate(timeout=CHILD_S)
        done = len(output.splitlines())
        assert child.returncode in (0, -signal.SIGKILL), errors
        assert everything(path) in states[done : done + 2]
        if child.returncode == 0:
            break
        _clear(tmp_path)

    assert n > kills_min


def _clear(folder: Path) -> None:
    for left in folder.glob("store.db*"):
        left.unlink()


async def _states_after_each_step(path: Path) -> list[Any]:
    """The first is that of a store where no step was done."""
    store = SQLiteStore(str(path), settings=SMALL)
    steps = Script(store, await store.open("program")).steps
    states = [everything(path)]
    for step in steps:
        await step()
        states.append(everything(path))
    await store.close()
    return states
