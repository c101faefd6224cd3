"""Writes one more store for the corpus, with the program that stands in the path.

    python tests/corpus/write.py sqlite:////FILE

The process that writes dies without a word, so that what it left is what a crash leaves. What names a machine is replaced.
Beside the store comes FILE with ".json" as its end: the head of every log.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path

from agentos import Kernel
from agentos.components import CallState, Waiting
from agentos.persistence.urls import open_store
from agentos.settings import Settings
from tests.corpus.support import staffed
from tests.history.forking import fork
from tests.history.support import Desk, until

TURNS = 4
SETTINGS = Settings(snapshot_entries=32)
"""A store with snapshots, and small none the less."""


async def write(url: str) -> None:
    """What `README.md` tells of. It ends the process in the middle of things, and never returns."""
    desk = Desk()
    async with staffed(open_store(url), desk, settings=SETTINGS) as kernel:
        await _settled_turns(kernel)
        desk.gate.set()
        await _inner_calls(kernel)
        desk.gate.clear()
        await _open_turns(kernel, desk)
        await kernel.ticker.wait_quiet()
        os._exit(0)


async def _settled_turns(kernel: Kernel) -> None:
    clerk = await kernel.start("clerk", key="settled")
    await clerk.ask("note text=first\nask_aide task='note text=below'")
    for number in range(TURNS):
        await clerk.ask(f"note text={number}")
    await clerk.ask("goodbye")


async def _inner_calls(kernel: Kernel) -> None:
    scribe = await kernel.start("scribe", key="inner")
    await scribe.ask('each names=["note", "none", "wait"]')


async def _open_turns(kernel: Kernel, desk: Desk) -> None:
    """One that waits for a person, one with an inner call that does, one whose tools run, and a fork of it."""
    waits = await kernel.start("clerk", key="waits")
    await waits.send("note text=mine\nfail text=denied")
    nested = await kernel.start("scribe", key="nested")
    await nested.send('each names=["note", "fail"]')
    await until(lambda: len(list(kernel.world.find(CallState, waiting=Waiting.APPROVAL))) == 2)
    runs = await kernel.start("clerk", key="runs")
    started = desk.started
    await runs.send("wait text=long\npeek text=again\nask_helper task='note text=helped'")
    await desk.until_started(started + 2)
    while not await _ended(kernel, runs.id):  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.001)
    await runs.send("note text=next")
    await kernel.ticker.wait_quiet()
    row = await kernel.store.log(runs.id)
    assert row is not None
    assert await fork(kernel, runs.id, row.seq) is not None


async def _ended(kernel: Kernel, conversation: str) -> int:
    sql = "select count(*) from tool_calls where conversation = ? and status = 'done'"
    return int((await kernel.query(sql, (conversation,))).rows[0][0])


def sqlite_file(path: Path) -> None:
    """One file without a log beside it, which says nothing of the machine; and its heads."""
    db = sqlite3.connect(path)
    db.execute("update writers set host = 'localhost', pid = 1, incarnation = 'corpus'")
    db.commit()
    db.execute("pragma wal_checkpoint(truncate)")
    db.execute("vacuum")
    rows = db.execute("select id, seq, lower(hex(digest)) from logs order by id").fetchall()
    db.close()
    heads = [{"id": id_, "seq": seq, "digest": digest} for id_, seq, digest in rows]
    path.with_suffix(".json").write_text(json.dumps(heads, indent=1) + "\n")


def main(url: str) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    assert not path.exists()
    child = os.fork()
    if not child:
        asyncio.run(write(url))
        raise AssertionError("not reached")
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    sqlite_file(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
