"""Two real processes at one conversation, on every store that lasts: whole turns alone, and each is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.history import verify_store
from agentos.kernel.reading import reading
from agentos.persistence import open_store
from agentos.testing.scenario import find_scenarios, run_scenario

HANG_S = 60.0
"""Not a limit that is tested: what has not answered by then hangs."""


class Talker:
    """One of the processes, with the conversation begun or found."""

    def __init__(self, url: str, name: str) -> None:
        command = [sys.executable, "-m", "tests.cases.talking", url, name]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe = subprocess.PIPE
        folder = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=folder)

    async def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), HANG_S)
        assert line, f"it ended with {self.process.wait()}"
        words: dict[str, Any] = json.loads(line)
        return words

    def talk(self, first: int, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([first, count]) + "\n")
        self.process.stdin.flush()

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


@pytest.fixture
def start(durable_url: str) -> Iterator[Callable[[str], Talker]]:
    started: list[Talker] = []

    def start(name: str) -> Talker:
        started.append(Talker(durable_url, name))
        return started[-1]

    yield start
    for talker in started:
        talker.process.kill()
        talker.process.communicate()


async def history_of(url: str, id_: str) -> tuple[list[str], Counter[str]]:
    """The kinds of entries as a reader finds them, with all turns ended, and how often each input is there."""
    async with reading(url) as store:
        found = [entry.data.kind for entry in await store.entries(id_)]
        inputs = await store.query("select text from messages where role = 'user'")
        writers = await store.writers()
        report = await verify_store(store.store)
    assert report.ok, str(report)
    assert [writer.alive for writer in writers] == [False] * len(writers)
    return found, Counter(str(text).split(" ", 1)[1] for (text,) in inputs.rows)


def turns_of(found: list[str]) -> list[str]:
    return [kind for kind in found if kind in ("turn.started", "turn.finished")]


async def test_two_processes_send_and_ask_at_once_and_every_turn_is_whole(
    durable_url: str, start: Callable[[str], Talker]
) -> None:
    """C49. Both also begin the conversation at once."""
    both = [start(name) for name in ("ann", "bob")]
    begun = [await talker.answer() for talker in both]
    for talker in both:
        talker.talk(0, 5)
    said = [await talker.answer() for talker in both]
    codes = [talker.close() for talker in both]
    found, inputs = await history_of(durable_url, begun[0]["id"])

    asks = [ask for one in said for ask in one["asks"]]
    refused = [ask for ask in asks if ask.startswith("ConversationBusy")]
    loser = next(n for n in (0, 1) if said[n]["asks"][0].startswith("ConversationBusy"))
    owner = both[1 - loser]
    assert begun[0]["id"] == begun[1]["id"]
    assert codes == [0, 0]
    assert said[0]["sends"] == said[1]["sends"]
    assert len(set(said[0]["sends"])) == 5
    assert Counter(asks) == {"completed": 5, refused[0]: 5}
    assert f"writer {begun[1 - loser]['writer']}, pid {owner.process.pid} on" in refused[0]
    assert inputs == {**{f"sends {n}": 1 for n in range(5)}, **{f"asks {n}": 1 for n in range(5)}}
    assert turns_of(found) == ["turn.started", "turn.finished"] * (len(turns_of(found)) // 2)


async def test_the_senders_of_an_owner_that_is_killed_are_answered_by_whoever_takes_over(
    durable_url: str, start: Callable[[str], Talker]
) -> None:
    """What the owner acknowledged is there once, what the other sends comes in, and no turn stays open."""
    owner = start("ann")
    begun = await owner.answer()
    owner.talk(0, 4)
    first = await owner.answer()
    other = start("bob")
    await other.answer()
    owner.talk(4, 50)
    owner.process.send_signal(signal.SIGSTOP)  # as a rule before it has taken all of it
    other.talk(0, 60)  # more than that, so somebody has to take over
    await asyncio.sleep(0.05)
    owner.process.kill()
    said = await other.answer()
    code = other.close()
    found, inputs = await history_of(durable_url, begun["id"])
    store = open_store(durable_url)
    row = await store.log(begun["id"])
    await store.close()

    assert (code, owner.process.poll()) == (0, -signal.SIGKILL)
    assert row is not None
    assert row.epoch == 2
    assert said["sends"][:4] == first["sends"]
    assert all(isinstance(seq, int) for seq in said["sends"])
    assert len(set(said["sends"])) == 60
    assert {inputs[f"sends {n}"] for n in range(60)} == {1}
    assert max(inputs.values()) <= 2  # an ask has no key: each of the two may have asked it
    assert turns_of(found) == ["turn.started", "turn.finished"] * (len(turns_of(found)) // 2)


def test_the_scenario_of_two_processes_says_the_same_on_every_store(durable_url: str) -> None:
    (path,) = (path for path in find_scenarios() if path.stem == "two_processes")
    results = [run_scenario(path, store=store) for store in (durable_url, "")]

    assert [result.failed for result in results] == [[], []], results[0].text()
    steps = [[step for step in result.steps if step.line] for result in results]
    assert steps[0] == steps[1]
