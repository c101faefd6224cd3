"""kill -9 at named places (faults F01 to F04): a real process, a real SQLite file, a real SIGKILL, a real effect file."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentos.definitions import AgentSpec
from agentos.kernel import Conversation
from agentos.kernel import open as open_kernel
from tests.cases.dying import STORE, effects, toolbox
from tests.support import Mind, kinds, results

HANG_S = 60.0
CALLS = "select tool, status, attempt from calls order by seq"


class After:
    """What was found when the store of a dead process was opened again."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.kinds: list[str] = []
        self.results: list[tuple[str, str]] = []
        self.calls: list[tuple[str, str, int]] = []
        self.outcomes: list[str] = []


async def died(folder: Path, point: str, *tools: str) -> list[str]:
    """What the process had told before it died: the conversation's id, the seq of the input."""
    command = [sys.executable, "-m", "tests.cases.dying", str(folder), point, *tools]
    root = Path(__file__).parents[2]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=root, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2_000:]
    return done.stdout.split()


async def recovered(folder: Path) -> After:
    """What there is once a new kernel has taken up what the dead process left."""
    mind = Mind()
    async with open_kernel(f"sqlite:///{folder / STORE}") as kernel:
        await kernel.add_toolbox(toolbox(folder))
        await kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=mind)
        for resumed in await kernel.recover():
            await kernel.outcome(resumed.id)
        after = After(mind)
        for id_ in await kernel.conversations():
            conversation = Conversation(kernel, id_)
            after.kinds += await kinds(conversation)
            after.results += await results(conversation)
        after.calls = [row[:3] for row in (await kernel.query(CALLS)).rows]
        after.outcomes = [row[0] for row in (await kernel.query("select outcome from turns order by seq")).rows]
    assert mind.broken == []
    return after


async def test_f01_killed_before_the_models_answer_is_stored_the_request_is_repeated(tmp_path: Path) -> None:
    await died(tmp_path, "model.finished before", "mail")
    after = await recovered(tmp_path)

    assert effects(tmp_path) == []
    assert after.outcomes == ["completed"]
    assert after.kinds[-5:] == ["turn.resumed", "model.finished", "model.requested", "model.finished", "turn.finished"]


async def test_f01_killed_between_the_stored_answer_and_the_tool_nothing_ran_and_it_is_in_doubt(tmp_path: Path) -> None:
    """The record of the start is there, its effect is not; nobody can tell that from outside, so it is not run again."""
    await died(tmp_path, "model.finished after", "mail")
    after = await recovered(tmp_path)

    assert effects(tmp_path) == []
    assert [status for status, _ in after.results] == ["unknown"]
    assert after.calls == [("mail", "unknown", 1)]
    assert "unknown" in after.mind.results[0]


async def test_f02_killed_while_a_tool_runs_its_call_is_unknown_and_not_run_again(tmp_path: Path) -> None:
    await died(tmp_path, "in mail", "mail")
    after = await recovered(tmp_path)

    assert effects(tmp_path) == ["mail"]
    assert after.calls == [("mail", "unknown", 1)]
    assert "unknown" in after.mind.results[0]
    assert after.outcomes == ["completed"]


async def test_f02_a_tool_that_may_run_twice_is_run_again_with_the_same_key(tmp_path: Path) -> None:
    await died(tmp_path, "in sync", "sync")
    after = await recovered(tmp_path)

    lines = (tmp_path / "effects.log").read_text().splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert after.calls == [("sync", "done", 2)]
    assert after.mind.results == ["sync done"]


async def test_f03_killed_after_the_effect_and_before_its_result_is_stored(tmp_path: Path) -> None:
    await died(tmp_path, "call.finished before", "mail")
    after = await recovered(tmp_path)

    assert effects(tmp_path) == ["mail"]
    assert after.calls == [("mail", "unknown", 1)]


async def test_f04_one_done_one_running_one_queued(tmp_path: Path) -> None:
    """Done stays done, the running one is unknown, the queued one runs once."""
    await died(tmp_path, "in notify", "mail", "notify", "mail")
    after = await recovered(tmp_path)

    assert effects(tmp_path) == ["mail", "notify", "mail"]
    assert after.calls == [("mail", "done", 1), ("notify", "unknown", 1), ("mail", "done", 1)]
    assert after.mind.results[0] == after.mind.results[2] == "mail done"
    assert "unknown" in after.mind.results[1]


POINTS = [
    f"{kind} {when}"
    for kind in ("conversation.started", "input.received", "model.finished", "call.finished", "turn.finished")
    for when in ("before", "after")
]


@pytest.mark.parametrize("point", POINTS)
async def test_whatever_was_told_is_there_and_no_call_ran_twice(tmp_path: Path, point: str) -> None:
    """R1 to R4, at every border of a unit."""
    told = await died(tmp_path, point, "mail", "notify")
    after = await recovered(tmp_path)

    assert max(Counter(effects(tmp_path)).values(), default=0) <= 1
    assert after.kinds.count("conversation.started") >= min(1, len(told))
    assert after.kinds.count("input.received") >= min(1, len(told[1:]))
    assert after.kinds.count("turn.finished") == after.kinds.count("turn.started")
    for tool, status, _ in after.calls:
        if status == "done":
            assert tool in effects(tmp_path)
