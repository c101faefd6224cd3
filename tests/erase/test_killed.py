"""Killed between any two steps, an erase leaves a whole store, and erasing again ends it without a trace of the texts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentos.definitions import AgentSpec, SubagentUse
from agentos.history import search_store
from agentos.kernel import Kernel
from agentos.persistence import open_store
from tests.erase.support import SECRET, check_whole, gone_from
from tests.support import Mind, call, calls

ROOT = Path(__file__).parents[2]
URLS = {"sqlite": "sqlite:///FOLDER/a.db", "file": "file:FOLDER/a"}
STRIDES = {"sqlite": 7, "file": 5}
"""A step is also each read of the erase. At 1 this finds nothing more, and takes a minute."""


async def prepared(url: str) -> str:
    """A conversation with a child and a fork, in a store that somebody has searched."""
    async with Kernel(url) as kernel:
        await kernel.install(
            AgentSpec(slug="main", subagents=[SubagentUse(slug="child")]),
            model=Mind(calls(call("ask_child", task=SECRET)), f"it said {SECRET}"),
        )
        await kernel.install(AgentSpec(slug="child"), model=Mind(f"the child says {SECRET}"))
        conversation = await kernel.start("main")
        await conversation.ask(SECRET)
        await kernel.fork(conversation.id)
        assert (await search_store(kernel.store, "canary")).hits
    return conversation.id


def killed(folder: Path, kind: str, conversation: str) -> list[Path]:
    command = [sys.executable, "-m", "tests.erase.killing", str(folder), URLS[kind], conversation, str(STRIDES[kind])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    return [Path(place) for place in json.loads(ended.stdout)]


def traces(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("kind", URLS)
async def test_killed_at_any_step_it_is_whole_and_done_again_it_is_gone(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    conversation = await prepared(URLS[kind].replace("FOLDER", str(folder)))
    assert traces(folder)
    places = killed(folder, kind, conversation)
    stood = []
    for place in places:
        url = URLS[kind].replace("FOLDER", str(place))
        store = open_store(url)
        await check_whole(store)
        rows = (await store.query("select erased_at is not null from logs where kind = 'conversation'")).rows
        await store.close()
        async with Kernel(url) as kernel:
            erasure = await kernel.erase(conversation, forks=True)
            logs = [receipt.log for receipt in erasure.receipts]
            assert erasure.settled
            assert await gone_from(kernel.store, *logs)
        assert traces(place) == []
        stood.append(sum(row[0] for row in rows))
        assert erasure.new == len(logs) - stood[-1]
        shutil.rmtree(place)

    assert (stood[0], stood[-1]) == (0, 3)
    assert {1, 2} & set(stood)  # it was killed in between, too
