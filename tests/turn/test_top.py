"""top: what a kernel does, and what it has done since somebody began to look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentos.components import Phase, ToolboxSharing
from agentos.errors import KernelClosed, ModelError, StoreUnavailable
from agentos.events.model import ModelReply, Usage
from agentos.ids import Micros
from agentos.kernel.metering import LAG_EVERY_S, METER_IDLE_S, Meter
from agentos.kernel.timed_store import TimedStore
from agentos.persistence.base import Unit, Verdict
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.support import Mind, call, calls, hang, lab, settled

ASK = [{"tool": "say", "verdict": "ask"}]


async def say(text: str) -> str:
    """Say it."""
    if text == "no":
        raise ValueError(text)
    return text


async def wait() -> str:
    """Never end."""
    return str(await hang())


async def test_work_is_what_the_log_says_from_the_first_look_on() -> None:
    mind = Mind(
        "before", calls(call("say", text="a"), call("say", text="no")), ModelReply("b", (), usage=Usage(100, 7))
    )
    async with lab(mind, [say]) as here:
        talk = await here.start()
        await talk.ask("not looked at")
        before = await here.kernel.top()
        await talk.ask("looked at")
        after = await here.kernel.top()

    assert before.work.requests == before.work.turns_started == before.batches.appends == 0
    work = after.work
    assert (work.turns_started, work.turns_finished, work.requests, work.replies) == (1, 1, 2, 2)
    assert (work.calls_started, work.calls_finished, work.calls_failed, work.replies_failed) == (2, 2, 1, 0)
    assert (work.input_tokens, work.output_tokens) == (110, 12)
    assert [(agent.agent, agent.work) for agent in after.agents] == [("main", work)]
    assert after.batches.units >= after.batches.appends >= 4


async def test_failed_requests_are_counted_apart_and_a_turn_waits_for_the_next_try() -> None:
    async with lab(Mind(ModelError("overloaded", "busy"), "done")) as here:
        await here.kernel.top()
        talk = await here.start()
        await talk.send("go")
        await settled(here.kernel)
        (turn,) = (await here.kernel.top()).turns
        await here.moving(talk.ask("again"))
        work = (await here.kernel.top()).work

    assert turn.waits == ("retry",)
    assert (work.requests, work.replies, work.replies_failed) == (3, 3, 1)


async def test_nothing_is_counted_when_nobody_has_looked_for_a_while() -> None:
    async with lab(Mind(hang, *["x"] * 9)) as here:
        unseen = here.kernel.vitals.meter.on
        first = await here.kernel.top()
        waiting = await here.start()
        await waiting.send("go")
        await settled(here.kernel)
        second = await here.kernel.top()
        seen = here.kernel.vitals.meter.on
        await here.advance(METER_IDLE_S + 1)
        forgotten = here.kernel.vitals.meter.on
        phases = dict(here.kernel.vitals.meter.phases)
        await here.ask()
        later = await here.kernel.top()
        await here.ask()
        last = await here.kernel.top()

    assert (unseen, seen, forgotten) == (False, True, False)
    assert first.work != second.work == later.work
    assert first.batches.appends < second.batches.appends == later.batches.appends < last.batches.appends
    assert phases == {}
    assert METER_IDLE_S <= later.counted_s <= METER_IDLE_S + 1
    assert last.work.turns_finished == later.work.turns_finished + 1


async def test_open_turns_say_what_they_do_and_wait_for() -> None:
    minds: dict[str, tuple[Mind, dict[str, Any]]] = {
        "thinker": (Mind(hang, hang), {}),
        "asker": (
            Mind(calls(call("say", text="a"))),
            {"policy": ASK, "approval": "park"},
        ),
        "lead": (Mind(calls(call("ask_thinker", task="think"))), {"subagents": ["thinker"]}),
    }
    tools = Mind(*[calls(call("wait"), call("wait"))] * 2)
    async with lab(tools, [say, wait], sharing=ToolboxSharing.POOL, size=2, others=minds) as here:
        await here.kernel.top()
        for agent in ("main", "thinker", "asker", "lead", "main"):
            await (await here.start(agent)).send("go")
            await here.advance(1)
        top = await here.kernel.top()

    seen = [(turn.agent, turn.phase, turn.doing, turn.waits) for turn in top.turns]
    assert seen == [
        ("main", Phase.CALL, ("wait", "wait"), ()),
        ("thinker", Phase.COMPLETE, ("model",), ()),
        ("thinker", Phase.COMPLETE, ("model",), ()),
        ("main", Phase.CALL, (), ("slot",)),
        ("asker", Phase.GATE, (), ("approval",)),
        ("lead", Phase.CALL, (), ("child",)),
    ]
    assert top.conversations == {"running": 4, "parked": 2}
    assert top.effects == {"call": 2, "model": 2}
    assert top.waits == {"approval": 1, "child": 1, "slot": 2}
    assert {agent.agent: (agent.running, agent.parked) for agent in top.agents} == {
        "main": (2, 0),
        "thinker": (2, 0),
        "asker": (0, 1),
        "lead": (0, 1),
    }
    assert [turn.phase_at for turn in top.turns] == [turn.started_at for turn in top.turns]


async def test_a_bound_leaves_the_oldest_and_counts_all() -> None:
    async with lab(Mind(*[hang] * 5)) as here:
        talks = [await here.start() for _ in range(5)]
        for talk in talks:
            await talk.send("go")
            await here.advance(1)
        top, none = await here.kernel.top(2), await here.kernel.top(0)

    assert [turn.conversation for turn in top.turns] == [talk.id for talk in talks[:2]]
    assert top.turns_open == none.turns_open == 5
    assert none.turns == ()


async def test_a_snapshot_is_no_change_of_phase() -> None:
    opened = asyncio.Event()

    async def wait_a_while() -> str:
        """End when it is told."""
        return str(await opened.wait())

    mind = Mind("a", calls(call("wait_a_while"), call("wait")))
    options = {"settings": Settings(snapshot_entries=0)}
    async with lab(mind, [wait_a_while, wait], options=options) as here:
        talk = await here.start()
        await here.kernel.top()
        await talk.ask("one")
        await talk.send("two")
        await settled(here.kernel)
        at = here.clock.now()
        await here.advance(7)
        opened.set()
        await settled(here.kernel)
        (turn,) = (await here.kernel.top()).turns
        last = (await talk.history())[-1]

    assert (last.data.kind, last.at > at) == ("snapshot", True)
    assert (turn.phase, turn.phase_at) == (Phase.CALL, at)


async def test_of_a_phase_that_nobody_saw_begin_only_the_calls_tell() -> None:
    mind = Mind(calls(call("wait")), calls(call("say", text="a")), hang)
    async with lab(mind, [say, wait]) as here:
        for _ in range(2):
            await (await here.start()).send("go")
            await here.advance(3)
        first, second = (await here.kernel.top()).turns

    assert (first.phase, first.phase_at) == (Phase.CALL, first.started_at)
    assert (second.phase, second.phase_at) == (Phase.COMPLETE, None)


async def test_nothing_of_a_turn_is_kept_when_it_has_ended() -> None:
    async with lab(Mind(*["x"] * 9)) as here:
        await here.kernel.top()
        for _ in range(3):
            await here.ask()
        phases = dict(here.kernel.vitals.meter.phases)

    assert phases == {}


async def test_nothing_is_kept_of_turns_that_left_the_memory() -> None:
    options = {"settings": Settings(live_conversations_max=2)}
    async with lab(
        Mind(*[calls(call("say", text="a"))] * 6), [say], policy=ASK, approval="park", options=options
    ) as here:
        await here.kernel.top()
        for _ in range(6):
            await (await here.start()).send("go")
            await settled(here.kernel)
        before = len(here.kernel.vitals.meter.phases)
        top = await here.kernel.top()
        after = len(here.kernel.vitals.meter.phases)

    assert before == 6
    assert after == top.turns_open <= 3


async def test_a_closed_kernel_does_not_answer_and_counts_no_more() -> None:
    async with lab() as here:
        await here.kernel.top()
        await here.kernel.close(0)
        with pytest.raises(KernelClosed):
            await here.kernel.top()
        still = here.kernel.vitals.meter.on

    assert not still


class Slow:
    """A store that takes its time: at once, later, or until it fails."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.later: asyncio.Future[list[Verdict]] | None = None
        self.fails = False

    def append(self, units: Sequence[Unit], /) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        self.clock.advance(0.002)
        if self.fails:
            raise StoreUnavailable("memory:", "gone")
        return self.later or [Verdict.STORED] * len(units)


async def test_appends_are_timed_wherever_they_end() -> None:
    clock = ManualClock()
    store, told = Slow(clock), []

    def tell(units: int, took_s: float, /, *, failed: bool) -> None:
        told.append((units, round(took_s, 3), failed))

    timed = TimedStore(store, clock, tell)
    unit: Unit = object()  # type: ignore[assignment]
    timed.append([unit])
    store.later = asyncio.get_running_loop().create_future()
    answer = timed.append([unit, unit])
    clock.advance(0.5)
    store.later.set_result([])
    assert not isinstance(answer, list)
    await answer
    await asyncio.sleep(0)
    store.fails = True
    with pytest.raises(StoreUnavailable):
        timed.append([unit])

    assert told == [(1, 0.002, False), (2, 0.502, False), (1, 0.002, True)]


def test_the_longest_append_is_that_of_the_last_second() -> None:
    clock = ManualClock()
    meter = Meter(clock, lambda on: None)
    meter.asked()
    longest = []
    for took_s in (0.05, 0.2, 0.1, 0.01):
        meter.appended(3, took_s, failed=False)
        clock.advance(0.4)
        meter.asked()
        longest.append(meter.batches.longest_ms)
    clock.advance(2)
    meter.asked()

    assert longest == [50, 200, 200, 100]
    assert (meter.batches.longest_ms, meter.batches.appends, meter.batches.units) == (0, 4, 12)


class Late(ManualClock):
    """A clock whose loop comes late to every timer."""

    late_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late_s


def test_the_lag_is_the_largest_of_the_last_second() -> None:
    clock = Late()
    meter = Meter(clock, lambda on: None)
    meter.asked()
    lags = [meter.lag_ms]
    for late_s in (0.0, 0.03, 0.03, 0.03, 0.03, 0.03):
        clock.late_s = late_s
        clock.advance(LAG_EVERY_S)
        lags.append(None if meter.lag_ms is None else round(meter.lag_ms))

    assert lags == [None, 0, 30, 30, 30, 30, 0]
    assert Micros(clock.now()) > 0
