"""Conversations that a program with schema version 1 began go on after the upgrade, and all of it is decided again."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Verdict
from agentos.history import Identical, lineage_of, verify_store
from agentos.ids import Kind, hashed_id
from agentos.kernel import Kernel
from agentos.kernel.rest import open_requests
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.clock import ManualClock
from tests.history.support import Desk, office, replayed

VERSION_1 = Path(__file__).parents[1] / "data" / "stores" / "version1.db"
CLERK: dict[str, Any] = {"approval": "park", "policy": [{"tool": "fail", "verdict": "ask"}]}
SETTLED, WAITING, RUNNING = (hashed_id(Kind.CONVERSATION, "clerk", key) for key in ("settled", "waits", "runs"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    made = SQLiteStore(str(shutil.copy(VERSION_1, tmp_path / "store.db")))
    yield made
    await made.close()


async def test_a_settled_conversation_goes_on(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk, clerk=CLERK, clock=ManualClock()) as kernel:
        clerk = await kernel.get(SETTLED)
        outcome = await clerk.ask("note text=later")
        tree = await lineage_of(store, SETTLED)

    assert outcome.text.endswith("noted later")
    assert [node.status for node in tree.root.children] == ["completed"] * 3
    await _assert_whole(store)


async def test_open_turns_go_on_as_they_would_have(store: SQLiteStore, desk: Desk) -> None:
    async with office(store, desk, clerk=CLERK, clock=ManualClock()) as kernel:
        desk.gate.set()
        await kernel.recover()
        (request,) = open_requests(kernel)
        await kernel.answer(request, Verdict.DENY, reason="not today")
        outcomes = [await _outcome(kernel, id_) for id_ in (WAITING, RUNNING)]
        calls = "select tool, status from tool_calls where conversation = ? order by id"
        ran = (await store.query(calls, (RUNNING,))).rows

    assert request.endswith("_7")
    assert outcomes == ["completed", "completed"]
    assert ran == [("wait", "unknown"), ("peek", "done"), ("ask_helper", "done")]
    assert desk.notes == ["first"]
    await _assert_whole(store)


async def _outcome(kernel: Kernel, id_: str) -> str:
    outcome = await kernel.outcome(id_)
    if outcome is not None:
        return str(outcome)
    return str(
        (await kernel.query("select outcome from conversation_turns where conversation = ?", (id_,))).rows[-1][0]
    )


async def _assert_whole(store: SQLiteStore) -> None:
    """Verified, and decided again as it stands; what was decided by the older program is told from the rules it pinned."""
    reading = SQLiteStore(store.url.removeprefix("sqlite:///"))
    report = await verify_store(reading)
    results = await replayed(reading)
    await reading.close()

    assert report.ok, "\n".join(map(str, report.differences))
    assert results
    assert all(isinstance(result, Identical) for result in results), results
    assert any(result.other_rules for result in results if isinstance(result, Identical))
