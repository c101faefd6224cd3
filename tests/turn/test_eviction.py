"""Conversations that have nothing to do leave memory, and come back as they were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import ToolboxSharing, Verdict
from agentos.definitions import PolicyRule
from agentos.ids import Kind, LogId
from agentos.kernel import Conversation
from agentos.kernel.rest import open_requests
from agentos.persistence.memory import MemoryStore
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.support import Lab, Mind, call, calls, crash, digests, entries_of, lab, results, settled, until


async def work(text: str = "") -> str:
    return f"worked on {text}\0" * 3


def small() -> dict[str, Any]:
    return {"settings": Settings(live_conversations_max=1)}


def loaded(here: Lab) -> int:
    return len(here.kernel.world.entities(Kind.CONVERSATION))


async def alternate(here: Lab, turns: int) -> list[Conversation]:
    """Three conversations that take turns, so that each is away between its own."""
    conversations = [await here.start() for _ in range(3)]
    for n in range(turns):
        for conversation in conversations:
            await conversation.ask(f"turn {n} \ud800", ephemeral=n % 3 == 1)
            await settled(here.kernel)
    return conversations


def minded() -> Mind:
    replies: list[Any] = []
    for n in range(18):
        replies += [calls(call("work", text=f"{n}"), call("nothing")), f"did {n}"]
    return Mind(*replies)


@pytest.mark.parametrize("snapshot_entries", [3, 10, 256])
async def test_a_conversation_that_was_away_makes_the_same_requests(snapshot_entries: int) -> None:
    """Equal digests mean equal pieces: the reloaded window is the one that stayed in memory."""
    told = []
    for most in (1, 10):
        settings = Settings(live_conversations_max=most, snapshot_entries=snapshot_entries)
        async with lab(minded(), [work], options={"settings": settings}) as here:
            told.append([await digests(conversation) for conversation in await alternate(here, 6)])
            assert loaded(here) == min(most, 3)

    assert told[0] == told[1]
    assert all(len(set(requests)) == 12 for requests in told[0])


async def test_idle_conversations_cost_no_memory_beyond_the_limit() -> None:
    async with lab(options={"settings": Settings(live_conversations_max=5)}) as here:
        conversations = [await here.start() for _ in range(30)]
        for conversation in conversations:
            await conversation.ask("hi")

        assert loaded(here) <= 5
        assert (await conversations[0].ask("still there?")).completed


async def test_the_longest_unused_leaves_first() -> None:
    async with lab(options={"settings": Settings(live_conversations_max=2)}) as here:
        first, second = await here.start(), await here.start()
        await first.ask("used again")
        third = await here.start()
        await third.ask("hi")

        assert [c.state for c in (first, second, third)] == ["idle", "unloaded", "idle"]


async def test_a_conversation_with_a_running_effect_stays() -> None:
    door = asyncio.Event()

    async def slow(_: object) -> str:
        await door.wait()
        return "done"

    async with lab(Mind(slow), options=small()) as here:
        busy = await here.start()
        asked = asyncio.create_task(busy.ask("go"))
        await until(lambda: here.minds["main"].requests)
        for _ in range(4):
            await here.ask()
        state = busy.state
        door.set()

        assert state == "running"
        assert (await asked).text == "done"


async def test_a_parked_conversation_leaves_and_comes_back_for_its_answer() -> None:
    async def send() -> str:
        return "sent"

    mind = Mind(calls(call("send")), "other", "thanks")
    policy = [PolicyRule(tool="send", verdict="ask")]
    async with lab(mind, [send], policy=policy, approval="park", options=small()) as here:
        parked = await here.start()
        await parked.send("go")
        await until(lambda: parked.state == "parked")
        (request,) = open_requests(here.kernel)
        await here.ask()
        away = parked.state
        await here.kernel.answer(request, Verdict.ALLOW)
        await until(lambda: parked.state == "idle")

        assert away == "unloaded"
        assert await results(parked) == [("done", "sent")]


async def test_a_parent_that_is_away_comes_back_for_its_childs_end() -> None:
    door = asyncio.Event()

    async def slow(_: object) -> str:
        await door.wait()
        return "42"

    mind = Mind(calls(call("ask_child", task="x")), "other", "it is 42")
    async with lab(mind, subagents=["child"], others={"child": (Mind(slow), {})}, options=small()) as here:
        parent = await here.start()
        await parent.send("go")
        await until(lambda: here.minds["child"].requests)
        await here.ask()
        away = parent.state
        door.set()
        await until(lambda: _is_idle(parent))

        assert away == "unloaded"
        assert await results(parent) == [("done", "42")]


async def _is_idle(conversation: Conversation) -> bool:
    return len(await entries_of(conversation, "turn.finished")) == 1


async def test_a_conversation_that_waits_for_a_slot_gets_its_turn() -> None:
    door = asyncio.Event()
    inside: list[str] = []

    async def use(context: CallContext) -> str:
        inside.append(context.conversation)
        await door.wait()
        return "used"

    mind = Mind(calls(call("use")), calls(call("use")))
    async with lab(mind, [use], sharing=ToolboxSharing.EXCLUSIVE, options=small()) as here:
        first, second = await here.start(), await here.start()
        await first.send("go")
        await until(lambda: inside)
        await second.send("go")
        await settled(here.kernel)
        for _ in range(3):
            await here.ask()
        door.set()
        await until(lambda: _is_idle(second))

        assert inside == [first.id, second.id]
        assert here.kernel.slots.statistics() == []


async def test_a_turn_that_is_taken_up_in_the_middle_keeps_what_it_pinned() -> None:
    """Parked, away, edited meanwhile, back: the turn goes on with the tools that it began with."""

    async def send() -> str:
        return "sent"

    mind = Mind(calls(call("send")), "other", "thanks")
    policy = [PolicyRule(tool="send", verdict="ask")]
    async with lab(mind, [send], policy=policy, approval="park", options=small()) as here:
        parked = await here.start()
        await parked.send("go")
        await until(lambda: parked.state == "parked")
        (request,) = open_requests(here.kernel)
        await here.ask()
        here.kernel.unbind("main", "box")
        await here.kernel.answer(request, Verdict.ALLOW)
        await until(lambda: parked.state == "idle")

        assert [tool.name for tool in mind.requests[-1].context.tools] == ["send"]


def parking(approval_s: float) -> dict[str, Any]:
    return {"policy": [PolicyRule(tool="work", verdict="ask")], "approval": "park", "approval_s": approval_s}


async def park(here: Lab, count: int) -> list[Conversation]:
    """Conversations whose turns all wait for a person."""
    conversations = []
    for _ in range(count):
        conversations.append(await here.start())
        await conversations[-1].send("go")
        await settled(here.kernel)
    return conversations


async def outcomes(here: Lab) -> list[tuple[str, int]]:
    sql = "select coalesce(kind, status), count(*) from calls group by 1 order by 1"
    return [(str(status), int(count)) for status, count in (await here.kernel.query(sql)).rows]


async def test_hundreds_of_parked_turns_with_deadlines_are_away_and_each_is_woken_in_time() -> None:
    count, most = 300, 4
    options = {"settings": Settings(live_conversations_max=most)}
    mind = Mind(*[calls(call("work")) for _ in range(count)])
    async with lab(mind, [work], options=options, **parking(60)) as here:
        conversations = await park(here, count)
        away = loaded(here), len(here.kernel.logs.eviction.dormant)
        timers = len([timer for *_, timer in here.clock._timers if not timer.cancelled])
        await here.advance(59)
        early = await outcomes(here)
        await here.advance(2)
        await until(lambda: _all_ended(here, count))

        assert (away, early) == ((most, count - most), [("waiting", count)])
        assert timers <= most + 3  # those in memory have their own; two pollers; one for all others
        assert await outcomes(here) == [("approval", count)]
        assert await here.kernel.store.wakeups() == []
        assert loaded(here) <= most
        assert len(here.kernel.logs.eviction.dormant) == 0
        assert (await conversations[0].ask("still there?")).completed


async def _all_ended(here: Lab, count: int) -> bool:
    return (await here.kernel.query("select count(*) from turns where outcome is not null")).rows == [(count,)]


async def test_a_parked_turn_is_woken_at_its_own_time_however_often_it_was_away() -> None:
    mind = Mind(*[calls(call("work"))] * 2)
    async with lab(mind, [work], options=small(), **parking(60)) as here:
        first = await here.start()
        await first.send("go")
        await settled(here.kernel)
        second = await here.start()
        await here.advance(30)
        await second.send("go")
        await settled(here.kernel)
        for _ in range(3):  # one comes back and the other leaves
            for conversation in (first, second):
                await here.kernel.logs.get(LogId(conversation.id))
                await here.start()
        ended = []
        for _ in range(3):
            ended.append([len(await entries_of(one, "turn.finished")) for one in (first, second)])
            await here.advance(31)
            await settled(here.kernel)

        assert ended == [[0, 0], [1, 0], [1, 1]]


async def test_a_turn_that_is_answered_while_it_is_away_is_not_woken_any_more() -> None:
    async with lab(Mind(calls(call("work")), "thanks"), [work], options=small(), **parking(60)) as here:
        (parked,) = await park(here, 1)
        (request,) = open_requests(here.kernel)
        await here.start()
        away = parked.state
        await here.kernel.answer(request, Verdict.ALLOW)
        await until(lambda: parked.state == "idle")
        await here.start()
        await here.advance(120)

        assert (away, parked.state) == ("unloaded", "unloaded")
        assert len(await entries_of(parked, "wake.fired")) == 0


async def test_what_another_took_over_is_not_woken_here() -> None:
    store, clock = MemoryStore(), ManualClock()
    more = parking(60)
    async with lab(Mind(calls(call("work"))), [work], store=store, clock=clock, options=small(), **more) as sleeper:
        (parked,) = await park(sleeper, 1)
        await sleeper.start()
        async with lab(Mind(), [work], store=MemoryStore(store), clock=ManualClock(), first_id=500, **more) as heir:
            await heir.kernel.declare_dead(1)
            await heir.kernel.recover(only=[parked.id])
            await sleeper.advance(120)
            fired = len(await entries_of(parked, "wake.fired"))
            await heir.advance(120)

            assert (fired, len(sleeper.kernel.logs.eviction.dormant)) == (0, 0)
            assert len(await entries_of(parked, "turn.finished")) == 1


async def test_recovering_hundreds_of_parked_turns_keeps_few_in_memory() -> None:
    count, most = 200, 4
    store, clock = MemoryStore(), ManualClock()
    options = {"settings": Settings(live_conversations_max=most)}
    more: dict[str, Any] = {"options": options, **parking(60)}
    async with lab(Mind(*[calls(call("work"))] * count), [work], store=store, clock=clock, **more) as dying:
        await park(dying, count)
        crash(dying)
        async with lab(Mind(), [work], store=MemoryStore(store), clock=clock, first_id=5000, **more) as heir:
            resumed = await heir.kernel.recover()
            in_memory = loaded(heir)
            await heir.advance(61)
            await until(lambda: _all_ended(heir, count))

            assert len(resumed) == count
            assert in_memory <= most + 1
            assert await outcomes(heir) == [("approval", count)]


async def test_a_time_that_has_come_for_nothing_wakes_its_log_once() -> None:
    """The first call was answered in time, and the turn waits for a person once more."""
    mind = Mind(calls(call("work")), calls(call("work")), "thanks")
    async with lab(mind, [work], options=small(), **parking(60)) as here:
        (parked,) = await park(here, 1)
        (request,) = open_requests(here.kernel)
        await here.advance(50)
        await here.kernel.answer(request, Verdict.ALLOW)
        await until(lambda: parked.state == "parked")
        await here.start()
        await here.advance(20)
        rung = parked.state
        for _ in range(3):
            await here.start()
            await here.advance(1)
        states = parked.state
        await here.advance(60)
        await here.advance(0)

        assert (rung, states) == ("parked", "unloaded")
        assert len(await entries_of(parked, "wake.fired")) == 1
        assert await results(parked) == [
            ("done", "worked on \0" * 3),
            ("denied(approval)", "not run: nobody answered in time"),
        ]
        assert await here.kernel.store.wakeups() == []
