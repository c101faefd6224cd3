"""What older programs wrote is opened, upgraded, verified and decided again; its heads stay, and its open turns go on."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentos.components import Verdict
from agentos.history import Identical, lineage_of, verify_store
from agentos.kernel import Kernel
from agentos.kernel.rest import open_requests
from agentos.persistence import schema
from agentos.persistence.base import Store
from agentos.persistence.urls import open_store
from agentos.testing.postgres import PostgresServer
from tests.corpus.in_postgresql import place
from tests.corpus.support import HERE, STORES, conversation, staffed
from tests.history.support import Desk, replayed
from tests.persistence.catalog import run

SETTLED, WAITING, RUNNING = (conversation("clerk", key) for key in ("settled", "waits", "runs"))
INNER, NESTED = (conversation("scribe", key) for key in ("inner", "nested"))
numbers = count(1)
FROM_2 = [path for path in STORES if path.stem != "version1"]
"""Those that have inner calls."""


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


@pytest.fixture(params=STORES, ids=names(STORES))
def old(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, old: Path, tmp_path: Path) -> str:
    """Where the store stands, as its version left it."""
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(old, tmp_path / 'store.db')}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    schema = f"corpus_{next(numbers)}"
    await place(postgres, schema, old)
    await run(postgres, "update writers set beat_at = started_at", schema)  # as its writer would have, until it died
    return postgres.url(schema=schema)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = open_store(url)
    yield made
    await made.close()


def heads_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return found


def test_there_is_a_store_of_every_schema_that_a_program_has_written() -> None:
    assert names(STORES) == [f"version{number}" for number in range(1, len(STORES) + 1)]
    assert len(STORES) >= schema.SCHEMA_VERSION - 1
    for number, path in enumerate(STORES, 1):
        with closing(sqlite3.connect(path.as_uri() + "?mode=ro&immutable=1", uri=True)) as db, db:
            assert db.execute("pragma user_version").fetchone() == (number,)
        db.close()


async def test_a_store_of_the_present_schema_can_be_added(tmp_path: Path) -> None:
    path = tmp_path / "version.db"
    command = [sys.executable, str(HERE / "write.py"), f"sqlite:///{path}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sys.path])}
    await anyio.run_process(command, env=environment)
    store = open_store(f"sqlite:///{path}")
    await store.open("program")
    report = await verify_store(store)
    writers = (await store.query("select host, pid from writers order by n limit 1")).rows
    found = {row.id: row.digest.hex() for row in await store.logs()}
    await store.close()

    assert report.ok, "\n".join(map(str, report.differences))
    assert writers == [("localhost", 1)]
    assert {head["id"]: head["digest"] for head in heads_of(path)} == found


async def test_an_upgrade_keeps_every_head(store: Store, old: Path) -> None:
    await store.open("program")
    rows = await store.logs()
    report = await verify_store(store)

    assert report.ok, "\n".join(map(str, report.differences))
    heads = [{"id": row.id, "seq": row.seq, "digest": row.digest.hex()} for row in rows]
    assert sorted(heads, key=lambda head: str(head["id"])) == heads_of(old)


async def test_every_log_is_decided_again_as_it_stands(store: Store) -> None:
    await store.open("program")
    results = await replayed(store)

    assert all(isinstance(result, Identical) for result in results), results
    assert {result.log for result in results} == {row.id for row in await store.logs("conversation")}


async def test_a_settled_conversation_goes_on(store: Store, url: str, old: Path, desk: Desk) -> None:
    async with staffed(store, desk) as kernel:
        clerk = await kernel.get(SETTLED)
        before = await lineage_of(store, SETTLED)
        outcome = await clerk.ask("note text=later")
        tree = await lineage_of(store, SETTLED)

    assert outcome.text.endswith("noted later")
    assert [node.status for node in tree.root.children] == ["completed"] * (len(before.root.children) + 1)
    await assert_whole(url, old)


async def test_open_turns_go_on_as_they_would_have(store: Store, url: str, old: Path, desk: Desk) -> None:
    async with staffed(store, desk) as kernel:
        ((forked,),) = (await kernel.query("select id from logs where forked_from is not null")).rows
        await go_on(kernel, desk)
        outcomes = [await outcome_of(kernel, id_) for id_ in (WAITING, RUNNING, forked)]
        ran = await calls_of(kernel, RUNNING)

    assert outcomes == ["completed"] * 3
    assert ran[:3] == [("wait", "unknown"), ("peek", "done"), ("ask_helper", "done")]
    assert sorted(desk.notes) == (["first"] if old.stem == "version1" else ["mine", "next", "next"])
    await assert_whole(url, old)


@pytest.mark.parametrize("old", FROM_2, ids=names(FROM_2), indirect=True)
async def test_inner_calls_end_with_the_call_that_asked_for_them(store: Store, desk: Desk) -> None:
    async with staffed(store, desk) as kernel:
        before = await calls_of(kernel, INNER)
        await go_on(kernel, desk)
        outcome = await outcome_of(kernel, NESTED)
        ran = await calls_of(kernel, NESTED)

    assert before == [("each", "done"), ("note", "done"), ("none", "failed"), ("wait", "done")]
    assert outcome == "completed"
    assert ran == [("each", "unknown"), ("note", "done"), ("fail", "cancelled")]


async def go_on(kernel: Kernel, desk: Desk) -> None:
    """Takes up all that is open, and denies what waits for a person."""
    desk.gate.set()
    await kernel.recover()
    for request in open_requests(kernel):
        await kernel.answer(request, Verdict.DENY, reason="not today")


async def outcome_of(kernel: Kernel, id_: str) -> str:
    """Of the last turn, once none is open."""
    outcome = await kernel.outcome(id_)
    if outcome is not None:
        return str(outcome)
    sql = "select outcome from conversation_turns where conversation = ? order by seq desc limit 1"
    return str((await kernel.query(sql, (id_,))).rows[0][0])


async def calls_of(kernel: Kernel, id_: str) -> list[tuple[Any, ...]]:
    sql = "select tool, status from calls join logs on logs.n = calls.n where logs.id = ? order by calls.seq"
    return [tuple(row) for row in (await kernel.query(sql, (id_,))).rows]


async def assert_whole(url: str, old: Path) -> None:
    """Verified, and decided again as it stands; what the older program wrote is still what the log begins with."""
    reading = open_store(url)
    report = await verify_store(reading)
    results = await replayed(reading)
    digests = "select logs.id, entries.seq, entries.digest from entries join logs on logs.n = entries.n"
    rows = (await reading.query(digests)).rows
    await reading.close()

    assert report.ok, "\n".join(map(str, report.differences))
    assert results
    assert all(isinstance(result, Identical) for result in results), results
    heads = {(head["id"], head["seq"]): head["digest"] for head in heads_of(old)}
    assert heads.items() <= {(id_, seq): digest.hex() for id_, seq, digest in rows}.items()
