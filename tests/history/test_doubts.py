"""Doubts and what people said of them, decided again, in forks, and under somebody's fingers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Resolution
from agentos.errors import AlreadyResolved, UnknownCall
from agentos.history import Identical, lineage_of, replay_log, request_of, verify_store
from agentos.ids import call_id, log_and_seq
from agentos.kernel import Kernel
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.testing.clock import ManualClock
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, advance, assert_history_holds, crash, office, until

WAITS: dict[str, Any] = {"doubt_s": 60.0}


async def killed(store: Store, desk: Desk, clock: ManualClock, text: str = "wait text=b") -> tuple[Store, str]:
    """The store as a process leaves it that dies while calls are with their tools, and the conversation."""
    async with office(store, desk, clerk=WAITS, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask(text))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        found = await crash(kernel)
        await asyncio.gather(asking, return_exceptions=True)
    return found, clerk.id


async def parked(kernel: Kernel, id_: str) -> None:
    await kernel.recover()
    await until(lambda: kernel.state_of(id_) == "parked")


async def idle(kernel: Kernel, id_: str) -> None:
    await until(lambda: kernel.state_of(id_) == "idle")


@pytest.mark.parametrize("resolution", list(Resolution))
async def test_a_resolution_in_time_is_decided_again_and_verified(
    store: Store, desk: Desk, resolution: Resolution
) -> None:
    clock = ManualClock()
    found, id_ = await killed(store, desk, clock)
    desk.gate.set()
    async with office(found, desk, clerk=WAITS, clock=clock.after_a_crash()) as kernel:
        await parked(kernel, id_)
        (doubt,) = await kernel.doubts()
        await kernel.resolve(doubt.call, resolution, reason="looked", by="ann")
        await idle(kernel, id_)
        await assert_history_holds(found)
        tree = await lineage_of(found, doubt.call)
    await found.close()

    assert tree.root.status.endswith(f", resolved as {resolution.value}")


async def test_a_late_resolution_is_decided_again_and_its_request_is_shown_as_it_was(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    found, id_ = await killed(store, desk, clock)
    async with office(found, desk, clerk=WAITS, clock=(later := clock.after_a_crash())) as kernel:
        await parked(kernel, id_)
        await advance(later, 60)
        await idle(kernel, id_)
        (doubt,) = await kernel.doubts()
        await kernel.resolve(doubt.call, Resolution.DONE, result="a receipt", by="ann")
        clerk = await kernel.get(id_)
        await clerk.ask("note text=c")
        await clerk.ask("note text=d")
        await assert_history_holds(found)
        request = await request_of(found, id_)
    await found.close()

    texts = [message["text"] for message in request.messages if message["role"] == "user"]
    assert request.matches
    assert [text.splitlines()[0] for text in texts] == [
        "wait text=b",
        "A note on calls of earlier turns whose outcome was unknown:",
        "note text=c",
        "note text=d",
    ]
    assert texts[1].endswith("it took effect, says ann. Its result:\na receipt")


async def test_a_fork_at_any_point_of_a_doubt_is_decided_again_and_has_a_doubt_of_its_own(
    store: Store, desk: Desk
) -> None:
    clock = ManualClock()
    found, id_ = await killed(store, desk, clock, "wait text=b\nnote text=c")
    desk.gate.set()
    async with office(found, desk, clerk=WAITS, clock=(later := clock.after_a_crash())) as kernel:
        await parked(kernel, id_)
        waiting = ends_of_units(await found.entries(id_))[-1]
        (doubt,) = await kernel.doubts()
        await kernel.resolve(doubt.call, Resolution.RETRY)
        await idle(kernel, id_)
        forks = {upto: await fork(kernel, id_, upto) for upto in ends_of_units(await found.entries(id_))}
        replays = [await replay_log(found, fork_) for fork_ in forks.values() if fork_ is not None]
        report = await verify_store(found)
        forked = forks[waiting]
        assert forked is not None
        (own,) = await kernel.doubts(forked)
        await kernel.resolve(own.call, Resolution.FAILED)
        await kernel.ticker.wait_quiet()
        later.advance(0)  # the fork was not run, and is held until a clock has rung
        await until(lambda: kernel.state_of(forked) == "idle")
        after = await replay_log(found, forked)
        rows = await kernel.query(
            "select id, status, resolution from tool_calls where tool = 'wait' and id in (?, ?)", (doubt.call, own.call)
        )
    await found.close()

    assert all(isinstance(replayed, Identical) for replayed in (*replays, after)), replays
    assert report.ok, [str(difference) for difference in report.differences]
    assert own.call == call_id(forked, log_and_seq(doubt.call)[1])
    assert {(status, resolution) for _, status, resolution in rows.rows} == {("done", "retry"), ("unknown", "failed")}


async def test_a_call_that_a_fork_shares_is_resolved_in_its_own_log(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    found, id_ = await killed(store, desk, clock)
    async with office(found, desk, clock=(later := clock.after_a_crash())) as kernel:
        await kernel.recover()
        await advance(later, 60)
        await idle(kernel, id_)
        (doubt,) = await kernel.doubts()
        clerk = await kernel.get(id_)
        asking = asyncio.ensure_future(clerk.ask("wait text=c"))
        await desk.until_started(2)
        await kernel.ticker.wait_quiet()
        row = await found.log(id_)
        assert row is not None
        forked = await fork(kernel, id_, row.seq)
        assert forked is not None
        with pytest.raises(UnknownCall, match=f"is a fork and shares it: resolve {doubt.call}"):
            await kernel.resolve(call_id(forked, log_and_seq(doubt.call)[1]), Resolution.DONE)
        desk.gate.set()
        await asking
    await found.close()


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "postgresql"])
async def test_every_kind_of_store_tells_the_same_of_a_doubt(
    kind: str, desk: Desk, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").new_schema_url()
    else:
        url = {"memory": "memory:", "file": f"file:{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/a.db"}[kind]
    store = open_store(url)
    async with office(store, desk, clock=ManualClock()) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=b"))
        await desk.until_started(1)
        await clerk.interrupt()
        await asking
        found, of_it, of_none = await kernel.doubts(), await kernel.doubts(clerk.id), await kernel.doubts("none")
        await kernel.resolve(found[0].call, Resolution.DONE, by="ann")
        await clerk.ask("note text=c")
        left = await kernel.doubts()
        with pytest.raises(AlreadyResolved, match="ann resolved it as done"):
            await kernel.resolve(found[0].call, Resolution.FAILED)
        report = await verify_store(store)

    assert [(doubt.tool, doubt.arguments, doubt.state, doubt.attempt) for doubt in found] == [
        ("wait", '{"text":"b"}', "unknown", 1)
    ]
    assert (of_it, of_none, left) == (found, [], [])
    assert report.ok, [str(difference) for difference in report.differences]
