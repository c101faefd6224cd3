"""A whole store decided again by processes of their own: the same results in the same order, and no process is left."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from agentos.errors import StoreError
from agentos.history import Divergence, Replayed, replay_all
from agentos.history.replay import portions
from agentos.history.replay.portions import portions_of, replay_in_processes
from agentos.persistence import open_store
from agentos.persistence.base import LogRow
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.postgres import PostgresServer
from tests.history.support import Desk, office


@pytest.fixture
async def filled(tmp_path: Path, desk: Desk) -> str:
    """The URL of a store with nine conversations, one of which was edited."""
    path = tmp_path / "filled.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        for n in range(6):
            await (await kernel.start("clerk")).ask(f"note text={n}" + ("\nask_aide task='hello'" if n < 3 else ""))
    with closing(sqlite3.connect(path)) as db:
        db.execute("update messages set text = 'note text=other ☂' where n = (select max(n) from messages) and seq = 2")
        db.commit()
    return f"sqlite:///{path}"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of about two conversations."""
    monkeypatch.setattr(portions, "PORTION_ENTRIES", 15)
    monkeypatch.setattr(portions_of, "__defaults__", (15,))


async def one_by_one(url: str) -> list[Replayed]:
    store = SQLiteStore(url.removeprefix("sqlite:///"))
    try:
        return [result async for result in replay_all(store)]
    finally:
        await store.close()


async def test_results_are_those_of_one_process_in_the_same_order(filled: str) -> None:
    found = [result async for result in replay_in_processes(filled, 3)]

    assert found == await one_by_one(filled)
    assert sum(isinstance(result, Divergence) for result in found) == 1


async def test_one_job_needs_no_process(filled: str, begun: list[int]) -> None:
    found = [result async for result in replay_in_processes(filled, 1)]

    assert found == await one_by_one(filled)
    assert begun == []


async def test_no_process_is_left_when_the_iteration_is_broken_off(filled: str, begun: list[int]) -> None:
    async with aclosing(replay_in_processes(filled, 2)) as results:
        await anext(results)

    assert begun
    assert [pid for pid in begun if is_there(pid)] == []


async def test_a_process_that_fails_is_told_and_none_is_left(
    filled: str, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "MODULE", "agentos.history.no_such_module")

    with pytest.raises(StoreError, match="a process that replays"):
        _ = [result async for result in replay_in_processes(filled, 2)]
    assert [pid for pid in begun if is_there(pid)] == []


async def test_a_password_stands_on_no_command_line(
    postgres: PostgresServer, begun: list[int], commands: list[str]
) -> None:
    url = postgres.new_schema_url()
    store = open_store(url)
    await store.open("somebody")
    await store.close()
    found = [result async for result in replay_in_processes(url, 2)]

    assert found == []
    assert not any("postgresql" in command for command in commands)


def test_portions_hold_all_logs_in_order() -> None:
    rows: Sequence[LogRow] = [
        LogRow(id=f"conversation_{n}", kind="conversation", owner=0, epoch=0, seq=size, digest=b"")  # type: ignore[arg-type]
        for n, size in enumerate([4, 30, 1, 1, 1, 20, 2])
    ]
    found = list(portions_of(rows, 10))

    assert found == [
        ["conversation_0", "conversation_1"],
        ["conversation_2", "conversation_3", "conversation_4", "conversation_5"],
        ["conversation_6"],
    ]


@pytest.fixture
def commands() -> list[str]:
    return []


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, commands: list[str]) -> list[int]:
    """The numbers of the processes that were begun."""
    pids: list[int] = []
    begin = asyncio.create_subprocess_exec

    async def noted(*command: str, **options: object) -> object:
        process = await begin(*command, **options)  # type: ignore[arg-type]
        pids.append(process.pid)
        commands.append(" ".join(command))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return pids


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
