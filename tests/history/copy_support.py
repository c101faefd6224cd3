"""A store with everything that a store can hold, as a crash leaves it, and how a copy of it is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from agentos.components import Verdict
from agentos.events.intake import Input
from agentos.ids import LogId, Name
from agentos.kernel import Kernel
from agentos.kernel.inbox_items import inbox_row
from agentos.kernel.rest import open_requests
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from tests.history.forking import fork
from tests.history.support import Desk, crash, office, settled, until

CLERK: dict[str, Any] = {
    "approval": "park",
    "approval_s": 3_600,
    "policy": [{"tool": "fail", "verdict": "ask"}],
}
SMALL = Settings(snapshot_entries=20)


class Left(NamedTuple):
    """The store as it was left, and conversations: one settled and forked, one parked, one running."""

    store: Store
    settled: str
    parked: str
    running: str
    forked: str


async def busy_store(store: Store, desk: Desk) -> Left:
    """Turns, delegations, snapshots, a fork, keys, an approval that is waited for, calls that ran, an input in the inbox."""
    async with office(store, desk, clerk=CLERK, settings=SMALL) as kernel:
        settled_, parked, running = [await kernel.start("clerk") for _ in range(3)]
        for n in range(4):
            await settled_.ask(f"note text={n} ⚙ \x00\nask_aide task='note text=deep'")
        await settled_.send("note text=keyed", key="once")
        await settled(kernel, [settled_.id])
        forked = await _fork_in_the_middle(kernel, settled_.id)
        asking = [asyncio.ensure_future(parked.ask("fail text=why"))]
        await until(lambda: kernel.state_of(parked.id) == "parked")
        asking.append(asyncio.ensure_future(running.ask("wait text=a\npeek text=b\nask_helper task='wait text=c'")))
        await desk.until_started(3)
        await kernel.ticker.wait_quiet()
        found = await crash(kernel)
        await asyncio.gather(*asking, return_exceptions=True)
    await found.open("somebody with a message")
    log = LogId(settled_.id)
    assert await found.post(inbox_row(log, "input:later", Input(text="note text=later", key=Name("later"))))
    await found.close()
    return Left(again(found), settled_.id, parked.id, running.id, forked)


def again(store: Store) -> SQLiteStore:
    """One more handle on a SQLite store: one that was closed reads nothing any more."""
    return SQLiteStore(store.url.removeprefix("sqlite:///"))


async def _fork_in_the_middle(kernel: Kernel, parent: str) -> str:
    """A fork of a turn that was open, decided once; all that it shares is the parent's."""
    entries = await kernel.store.entries(parent)
    ends = [one.seq for one, next_ in pairwise(entries) if next_.unit == next_.seq]
    found = [log for upto in ends[len(ends) // 2 :] if (log := await fork(kernel, parent, upto)) is not None]
    assert len(found) > 1
    return found[0]


async def goes_on(store: Store, desk: Desk, left: Left) -> dict[str, str]:
    """What becomes of the open turns of a store when a kernel takes it up, and a person answers; by conversation."""
    desk.gate.set()
    async with office(store, desk, clerk=CLERK, settings=SMALL) as kernel:
        await kernel.recover()
        (request,) = [call for call in open_requests(kernel) if left.parked.partition("_")[2] in call]
        await kernel.answer(request, Verdict.DENY, reason="not today")
        await settled(kernel, [left.parked, left.running, left.settled])
        again = await kernel.get(left.settled)
        before = len(await again.history())
        await again.send("note text=keyed", key="once")
        assert len(await again.history()) == before, "a remembered key does nothing twice"
        sql = (
            "select conversation, outcome from conversation_turns where outcome is not null order by conversation, seq"
        )
        return dict((await kernel.query(sql)).rows)


async def whole(store: Store) -> dict[str, Sequence[object]]:
    """Everything that the protocol tells of a store but owners and writers."""
    logs = await store.logs()
    return {
        "logs": [
            (row.id, row.kind, row.epoch, row.seq, row.digest, row.root, row.parent_call, row.tenant, row.forked_from)
            for row in sorted(logs, key=lambda row: row.id)
        ],
        "entries": [(row.id, await store.entries(row.id)) for row in sorted(logs, key=lambda row: row.id)],
        "definitions": await store.definitions(),
        "inbox": await store.inbox(),
        "keys": await store.taken(),
        "wakeups": await store.wakeups(),
        "open": await store.open_logs(),
    }
