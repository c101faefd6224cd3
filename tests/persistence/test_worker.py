"""The thread of a store does its jobs in order, and those who bring too many wait for their turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.errors import StoreBusy, StoreUnavailable
from agentos.persistence.base import Durability, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.persistence.worker import Worker
from agentos.settings import Settings
from agentos.testing.log_units import LogUnits, post_of


class Held:
    """A worker of two places whose first job does not end before it is told."""

    def __init__(self) -> None:
        self.worker = Worker("test", queue_max=2)
        self.done: list[int] = []
        self._go_on = threading.Event()
        self.first = self.worker.submit(self._go_on.wait)

    def bring(self, i: int, check: Callable[[], None] = lambda: None) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.worker.submit_in_turn(lambda: self.done.append(i), check))

    def go_on(self) -> None:
        self._go_on.set()


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_jobs_beyond_the_bound_wait_in_the_order_they_came() -> None:
    held = Held()
    tasks = [held.bring(i) for i in range(50)]
    await _turns()
    pending, full = held.worker.pending, held.worker.full
    held.go_on()
    await asyncio.gather(*tasks)
    held.worker.stop()

    assert (pending, full) == (2, True)
    assert held.done == list(range(50))
    assert held.worker.pending == 0
    assert not held.worker.full


async def test_a_wait_that_is_cancelled_gives_its_place_to_the_next() -> None:
    held = Held()
    tasks = [held.bring(i) for i in range(20)]
    await _turns()
    for task in tasks[1:10]:
        task.cancel()
    await _turns()
    held.go_on()
    tasks[10].cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    held.worker.stop()

    assert held.done == [0, *range(11, 20)]
    assert [type(end) for end in ended[1:11]] == [asyncio.CancelledError] * 10
    assert held.worker.pending == 0


async def test_a_place_that_was_given_and_not_used_goes_on_to_the_next() -> None:
    held = Held()
    tasks = [held.bring(0)]
    await _turns()

    def refuse() -> None:
        raise ValueError("not any more")

    tasks += [held.bring(1, refuse), held.bring(2), held.bring(3)]
    await _turns()
    held.go_on()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    held.worker.stop()

    assert held.done == [0, 2, 3]
    assert isinstance(ended[1], ValueError)
    assert held.worker.pending == 0


async def test_a_given_place_whose_waiter_is_cancelled_at_that_moment_is_not_lost() -> None:
    held = Held()
    tasks = [held.bring(i) for i in range(4)]
    await _turns()
    held.worker._pass_on()  # the second one has a place now, and has not run yet
    tasks[1].cancel()
    held.go_on()
    await asyncio.gather(*tasks, return_exceptions=True)
    held.worker.stop()

    assert held.done == [0, 2, 3]
    assert held.worker.pending == 0


async def test_posts_wait_for_room_in_the_stores_thread_and_an_append_is_told_that_there_is_none(
    tmp_path: Path,
) -> None:
    go_on = threading.Event()
    store = SQLiteStore(str(tmp_path / "store.db"), durability=Durability.FULL, settings=Settings(writer_queue_max=4))
    log = LogUnits("a", await store.open("program"))
    assert store._writer is not None
    held = store._writer.worker.submit(go_on.wait)
    posts = [asyncio.ensure_future(store.post(post_of(log.id, str(i)))) for i in range(40)]
    await _turns()
    unit = log.unit()
    with pytest.raises(StoreBusy, match=r"4 jobs wait for its thread \(writer_queue_max\)"):
        store.append([unit])
    pending = store._writer.worker.pending
    go_on.set()
    posted = await asyncio.gather(*posts)
    answer = store.append([unit])
    assert isinstance(answer, asyncio.Future)

    assert pending == 4
    assert await held
    assert posted == [True] * 40
    assert [row.key for row in await store.inbox()] == [str(i) for i in range(40)]
    assert await answer == [Verdict.STORED]
    await store.close()


async def test_whoever_waits_for_room_is_told_when_the_store_is_closed(tmp_path: Path) -> None:
    go_on = threading.Event()
    store = SQLiteStore(str(tmp_path / "store.db"), durability=Durability.FULL, settings=Settings(writer_queue_max=2))
    await store.open("program")
    assert store._writer is not None
    held = store._writer.worker.submit(go_on.wait)
    posts = [asyncio.ensure_future(store.post(post_of("log", str(i)))) for i in range(5)]
    await _turns()
    closing = asyncio.ensure_future(store.close())
    await _turns()
    go_on.set()
    ended = await asyncio.gather(*posts, return_exceptions=True)
    await closing

    assert await held
    assert ended[0] is True
    assert [type(end) for end in ended[1:]] == [StoreUnavailable] * 4
