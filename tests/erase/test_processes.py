"""Another process has the conversation, and erases it at a word of this one; killed, it is taken over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.errors import ConversationErased
from agentos.kernel import Kernel
from agentos.kernel.reading import reading
from agentos.persistence import open_store
from tests.erase.support import check_whole, gone_from, texts_in
from tests.support import until


@pytest.fixture
def owner(durable_url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun a conversation, and talks to it with each line that it is given."""
    command = [sys.executable, "-m", "tests.cases.talking", durable_url, "ann"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    folder = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        yield process
        process.kill()


def talked(owner: subprocess.Popen[str]) -> str:
    """The conversation, after one turn."""
    assert owner.stdin is not None
    assert owner.stdout is not None
    id_ = str(json.loads(owner.stdout.readline())["id"])
    owner.stdin.write("[0, 1]\n")
    owner.stdin.flush()
    json.loads(owner.stdout.readline())
    return id_


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_another_process_has_is_erased(
    durable_url: str, owner: subprocess.Popen[str], is_killed: bool
) -> None:
    id_ = talked(owner)
    await until(lambda: _rests(durable_url, id_))
    if is_killed:
        owner.kill()
        owner.wait()
    async with Kernel(durable_url) as kernel:
        before = await texts_in(kernel.store, id_)
        writer = (await kernel.history(id_))[-1].writer
        erasure = await kernel.erase(id_, by="bob")
        receipt = (await kernel.history(id_))[-1]
        with pytest.raises(ConversationErased):
            await kernel.send(id_, "more", key="more")
    left = owner.communicate()[0] if not is_killed else ""
    store = open_store(durable_url)
    try:
        assert before
        assert [one.by for one in erasure.receipts] == ["bob"]
        assert (receipt.writer == writer) is not is_killed
        assert (owner.returncode == 0) is not is_killed
        assert left == ""
        assert await gone_from(store, id_)
        assert await store.inbox() == []
        await check_whole(store)
    finally:
        await store.close()


async def _rests(url: str, id_: str) -> bool:
    """What was sent has a turn behind that of what was asked."""
    async with reading(url) as store:
        rows = (await store.query("select state, open_turn from conversations where id = ?", (id_,))).rows
    return rows == [("idle", None)]
