"""A store that fails: nothing acts without a record, who waits is told, and work goes on when it is back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agentos.errors import KernelClosed, StoreUnavailable
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.faults import Fault, FaultPlan, FaultyStore
from tests.support import Lab, Mind, call, calls, entries_of, kinds, lab, results, settled, until


class Switch(FaultPlan):
    """A plan whose store is down as long as it is told."""

    def __init__(self, kind: str = "before") -> None:
        super().__init__()
        self.down = False
        self.kind = kind

    def visit(self, point: str) -> str | None:
        super().visit(point)
        return self.kind if self.down and point == "store.append" else None


class Nth(FaultPlan):
    """One append fails: the nth after the kernel, its toolbox and its agent were there (these are the first two)."""

    def __init__(self, n: int, kind: str) -> None:
        super().__init__([Fault("store.append", n + 2, kind)])


def faulty(plan: FaultPlan) -> FaultyStore:
    return FaultyStore(MemoryStore(), plan)


async def until_told(here: Lab, asked: asyncio.Future[Any]) -> None:
    """The store is tried again by the clock."""
    for _ in range(40):
        if asked.done():
            return
        await here.advance(0.5)


@pytest.mark.parametrize("kind", ["before", "later_before"])
async def test_a_sender_is_told_that_nothing_was_stored(kind: str) -> None:
    plan = Switch(kind)
    mind = Mind("hello")
    async with lab(mind, store=faulty(plan)) as here:
        conversation = await here.start()
        plan.down = True
        for way in (conversation.send, conversation.ask):
            with pytest.raises(StoreUnavailable):
                await here.moving(way("lost"))
        plan.down = False
        outcome = await here.moving(conversation.ask("kept"))

        assert outcome.text == "hello"
        assert [message.text for message in mind.shown[0]] == ["kept"]
        assert len(await entries_of(conversation, "input.received")) == 1


async def test_no_tool_runs_while_its_start_cannot_be_stored() -> None:
    plan = Switch()
    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        return "worked"

    async def answer(_: object) -> Any:
        plan.down = True
        return calls(call("work"))

    async with lab(Mind(answer, "done"), [work], store=faulty(plan)) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(3)
        before = list(ran)
        plan.down = False
        await until_told(here, asked)

        assert before == []
        assert (await asked).text == "done"
        assert ran == [1]


async def test_a_result_that_cannot_be_stored_is_kept_and_its_tool_does_not_run_again() -> None:
    plan = Switch()
    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        plan.down = True
        return "worked"

    mind = Mind(calls(call("work")), "done")
    async with lab(mind, [work], store=faulty(plan)) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(30)
        while_down = len(mind.requests)
        plan.down = False
        await until_told(here, asked)

        assert while_down == 1
        assert (await asked).text == "done"
        assert ran == [1]
        assert await results(conversation) == [("done", "worked")]


async def test_a_store_that_was_lost_at_the_commit_is_read_again_and_nothing_is_doubled() -> None:
    """Everything was stored, but the answer was lost: the log is read again, and nothing is done a second time."""
    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        return "worked"

    for n in range(1, 8):
        ran.clear()
        plan = Nth(n, "after")
        async with lab(Mind(calls(call("work")), "done"), [work], store=faulty(plan)) as here:
            try:
                conversation = await here.start()
                asked = asyncio.create_task(conversation.ask("go"))
                await until_told(here, asked)
                outcome = await asked
            except StoreUnavailable:
                await here.advance(5)
                conversation = await here.kernel.get(await _first(here))
                outcome = await here.moving(conversation.ask("again"))

            assert outcome.completed
            assert len(ran) <= 1
            assert (await kinds(conversation)).count("call.started") == len(ran)


async def _first(here: Lab) -> str:
    for _ in range(40):
        ids = await here.kernel.conversations()
        if ids:
            return ids[0]
        await here.kernel.start("main")
    raise AssertionError("no conversation")


@pytest.mark.parametrize("kind", ["before", "later_before", "conflict", "later_conflict", "later"])
async def test_a_fault_at_any_append_loses_no_turn_and_runs_no_call_twice(kind: str) -> None:
    async def once(n: int) -> tuple[bool, int]:
        ran: list[int] = []

        async def work() -> str:
            ran.append(1)
            return "worked"

        plan = Nth(n, kind)
        async with lab(Mind(calls(call("work"), call("work")), "done"), [work], store=faulty(plan)) as here:
            try:
                conversation = await here.start()
                asked = asyncio.ensure_future(conversation.ask("go"))
                await until_told(here, asked)
                outcome = await asked
                assert outcome.text == "done"
            except StoreUnavailable:
                assert ran == []
        return bool(plan.fired), len(ran)

    n, fired = 0, True
    while fired:
        n += 1
        fired, ran = await once(n)
        assert ran in ((0, 2) if fired else (2,))

    assert n > 5


async def test_two_conversations_wait_for_the_store_and_both_go_on() -> None:
    plan = Switch()
    inside = [asyncio.Event(), asyncio.Event()]
    door = asyncio.Event()

    async def work(n: int) -> str:
        inside[n].set()
        await door.wait()
        return f"worked {n}"

    mind = Mind(calls(call("work", n=0)), calls(call("work", n=1)))
    async with lab(mind, [work], store=faulty(plan)) as here:
        asked = [asyncio.ensure_future(here.ask()) for _ in range(2)]
        for event in inside:
            await event.wait()
        await settled(here.kernel)
        plan.down = True
        door.set()
        await here.advance(2)
        stuck = [task.done() for task in asked]
        plan.down = False
        for task in asked:
            await until_told(here, task)

        assert stuck == [False, False]
        assert [(await task).completed for task in asked] == [True, True]


async def test_a_kernel_whose_store_is_down_closes_all_the_same() -> None:
    known = asyncio.all_tasks()
    plan = Switch()
    door = asyncio.Event()

    async def work() -> str:
        plan.down = True
        await door.wait()
        return "never stored"

    async with lab(Mind(calls(call("work"))), [work], store=faulty(plan)) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: plan.down)
        here.kernel.ticker.after_tick = None  # no record of the end of the call can be made any more
        closing = asyncio.ensure_future(here.kernel.close(0))
        await until(closing.done)
        (told,) = await asyncio.gather(asked, return_exceptions=True)

        assert isinstance(told, KernelClosed)
        assert asyncio.all_tasks() <= known


class Unreadable(Switch):
    """Down for appends and, from the first of them on, for reads."""

    def visit(self, point: str) -> str | None:
        kind = super().visit(point)
        return kind or (
            "unavailable" if self.down and point == "store.read" and self.visits.get("store.append") else None
        )


async def told_after_s(here: Lab, work: asyncio.Future[Any]) -> float:
    """When it is done, in seconds of the clock."""
    began = here.clock.monotonic()
    while not work.done():
        await here.advance(0.25)
        assert here.clock.monotonic() - began < 60, "nobody was told"
    return here.clock.monotonic() - began


@pytest.mark.parametrize("kind", ["after", "later_after"])
async def test_a_sender_whose_commit_was_lost_is_told_that_it_is_stored_once_that_is_known(kind: str) -> None:
    plan = Switch(kind)
    async with lab(Mind("hello"), store=faulty(plan)) as here:
        conversation = await here.start()
        plan.down = True
        sent = asyncio.ensure_future(conversation.send("stored, though the store does not say so"))
        await settled(here.kernel)
        plan.down = False
        seq = await here.moving(sent)
        await until(lambda: conversation.state == "idle")

        assert [entry.seq for entry in await entries_of(conversation, "input.received")] == [seq]
        assert (await kinds(conversation))[-1] == "turn.finished"


async def test_a_store_that_stays_away_after_a_lost_commit_is_waited_for_so_long_and_no_longer() -> None:
    plan = Unreadable("after")
    settings = Settings(unknown_commit_s=3)
    async with lab(Mind("hello"), store=faulty(plan), options={"settings": settings}) as here:
        conversation = await here.start()
        plan.down = True
        sent = asyncio.ensure_future(conversation.send("stored, and nobody knows"))
        waited_s = await told_after_s(here, sent)
        plan.down = False
        await here.advance(1)

        assert 3 <= waited_s < 4
        assert isinstance(sent.exception(), StoreUnavailable)
        assert (await kinds(conversation))[-1] == "turn.finished"


async def test_a_sender_to_a_store_that_can_be_read_alone_is_told_at_once() -> None:
    plan = Switch("before")
    async with lab(Mind(), store=faulty(plan)) as here:
        conversation = await here.start()
        plan.down = True
        sent = asyncio.ensure_future(conversation.send("lost"))
        await settled(here.kernel)

        assert isinstance(sent.exception(), StoreUnavailable)
        before = plan.visits["store.append"]
        await here.advance(0.4)
        assert plan.visits["store.append"] == before  # nor is it asked without end
        plan.down = False


async def test_a_conversation_whose_begin_was_lost_at_the_commit_is_there_when_that_is_known() -> None:
    plan = Switch("after")
    async with lab(Mind("hello"), store=faulty(plan)) as here:
        plan.down = True
        started = asyncio.ensure_future(here.start())
        await settled(here.kernel)
        plan.down = False
        conversation = await here.moving(started)

        assert (await here.moving(conversation.ask("hi"))).text == "hello"


@pytest.mark.parametrize("kind", ["before", "later_before", "after", "later_after"])
async def test_who_begins_a_conversation_again_under_its_key_has_one_that_is_stored(kind: str) -> None:
    at_the_start = FaultPlan([Fault("store.append", 2, kind)])  # the first is the agent
    async with lab(Mind("hello"), store=faulty(at_the_start)) as here:
        first = asyncio.create_task(here.kernel.start("main", "the key"))
        await settled(here.kernel)
        again = asyncio.create_task(here.kernel.start("main", "the key"))
        with suppress(StoreUnavailable):
            await here.moving(first)
        conversation = await here.moving(again)

        assert await kinds(conversation) == ["conversation.started"]
        assert (await here.moving(conversation.ask("go"))).text == "hello"
