"""The memory store is quick to append to, and shows in queries what it keeps in lists."""

from __future__ import annotations

import time

from agentos.persistence.base import InboxRow, Verdict
from agentos.persistence.memory import MemoryStore
from agentos.persistence.memory_state import Posting
from agentos.testing.log_units import SALT, LogUnits, append
from tests.persistence.erase_support import CANARY, erasing, fill, stored


async def test_a_query_after_much_happened_shows_all_of_it() -> None:
    store = MemoryStore()
    first = await store.open("first")
    logs = [LogUnits(str(i), first) for i in range(40)]
    for round_ in range(20):
        verdicts = await append(store, *(log.unit("a", text=f"round {round_}") for log in logs))
        assert verdicts == [Verdict.STORED] * 40
        await store.post(InboxRow(log=logs[0].id, key=str(round_), kind="input", salt=SALT, body="{}"))
    await store.close()
    second = await store.open("second")
    row = await store.claim(logs[0].id)
    assert row is not None
    await append(store, logs[0].owned(row).unit(taken=["3"]))
    counts = await store.query(
        "select (select count(*) from entries), (select count(*) from messages), (select count(*) from inbox),"
        " (select count(*) from inbox where seq is null), (select max(owner) from logs), (select count(*) from writers)"
    )
    await store.close()

    assert counts.rows == [(801, 800, 20, 19, second, 2)]


async def test_an_abandoned_writer_counts_as_dead() -> None:
    first = MemoryStore()
    second = MemoryStore(first)
    log = LogUnits("a", await first.open("first"))
    await append(first, log.unit())
    await second.open("second")
    while_living = await second.claim(log.id)
    first.abandon()
    claimed = await second.claim(log.id)
    await second.close()

    assert while_living is None
    assert claimed is not None
    assert claimed.epoch == 2


async def test_an_append_takes_microseconds() -> None:
    store = MemoryStore()
    log = LogUnits("a", await store.open("program"))
    units = [log.unit("a", "b", "c", text="x") for _ in range(2_000)]
    started = time.thread_time()  # other processes take none of it
    for unit in units:
        store.append([unit])
    elapsed_s = time.thread_time() - started
    await store.close()

    assert elapsed_s / len(units) < 50e-6  # measured: 1.3


async def test_what_was_erased_is_in_nothing_that_the_store_holds() -> None:
    store = MemoryStore()
    log = await fill(store, await store.open("program"))
    before = await store.query("select count(text) from messages"), _held(store)
    await stored(store, erasing(log))
    after = await store.query("select count(text) from messages where text like ?", (f"%{CANARY}%",)), _held(store)
    again = MemoryStore(store)
    texts = await again.query("select text from messages union select body from payloads union select body from inbox")
    for handle in (store, again):
        await handle.close()

    assert before[0].rows[0][0] > 0
    assert CANARY in before[1]
    assert after[0].rows == [(0,)]
    assert CANARY not in after[1]
    assert CANARY not in str(texts.rows)


def _held(store: MemoryStore) -> str:
    """All that it keeps, as text."""
    operations = (step.row if isinstance(step, Posting) else step for step in store._kept.operations)
    return str([*operations, store._kept.waiting(None)])
