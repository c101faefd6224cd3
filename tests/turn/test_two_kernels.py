"""Two processes over one store: one owns a conversation, the other sends its commands by way of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentos.components import ToolboxSharing, Verdict
from agentos.definitions import PolicyRule
from agentos.errors import ConversationBusy, ConversationClosed, StoreUnavailable
from agentos.kernel import Conversation
from agentos.kernel.rest import open_requests
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.support import Lab, Mind, call, calls, entries_of, hang, kinds, lab, settled, until


@asynccontextmanager
async def two(mind: Mind, tools: list[Any] | None = None, **more: Any) -> AsyncIterator[tuple[Lab, Lab]]:
    """An owner and another, on one store and one clock."""
    store, clock = MemoryStore(), ManualClock()
    async with (
        lab(mind, tools or [], store=store, clock=clock, **more) as owner,
        lab(Mind(), tools or [], store=MemoryStore(store), clock=clock, first_id=500, **more) as other,
    ):
        yield owner, other


async def known_to(other: Lab, conversation: Conversation) -> Conversation:
    return await other.kernel.get(conversation.id)


async def test_an_input_of_another_process_is_taken_by_the_owner() -> None:
    mind = Mind("hello there")
    async with two(mind) as (owner, other):
        conversation = await owner.start()
        seq = await owner.moving((await known_to(other, conversation)).send("from outside"))
        await until(lambda: conversation.state == "idle")
        (entry,) = await entries_of(conversation, "input.received")

        assert entry.seq == seq
        assert [message.text for message in mind.shown[0]] == ["from outside"]


async def test_one_key_is_one_input_whichever_process_sends_it() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await owner.start()
        foreign = await known_to(other, conversation)
        sent = (handle.send("hi", key="mail 1") for handle in (conversation, foreign, conversation, foreign))
        seqs = await owner.moving(asyncio.gather(*sent))

        assert len(set(seqs)) == 1
        assert len(await entries_of(conversation, "input.received")) == 1


async def test_an_interrupt_of_another_process_ends_the_turn() -> None:
    mind = Mind(hang)
    async with two(mind) as (owner, other):
        conversation = await owner.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        await (await known_to(other, conversation)).interrupt(by="ann")
        outcome = await owner.moving(asked)

        assert str(outcome) == "cancelled(interrupt)"
        assert [entry.by for entry in await entries_of(conversation, "turn.cancelling")] == ["ann"]


async def test_an_answer_of_another_process_wakes_the_turn() -> None:
    async def send() -> str:
        return "sent"

    policy = [PolicyRule(tool="send", verdict="ask")]
    async with two(Mind(calls(call("send")), "thanks"), [send], policy=policy, approval="park") as (owner, other):
        conversation = await owner.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: conversation.state == "parked")
        (request,) = open_requests(owner.kernel)
        await other.kernel.answer(request, Verdict.ALLOW, by="ann")

        assert (await owner.moving(asked)).text == "thanks"


async def test_a_closed_conversation_refuses_inputs_of_other_processes_too() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await owner.start()
        await conversation.close()
        await settled(owner.kernel)
        before = await kinds(conversation)

        with pytest.raises(ConversationClosed):
            await owner.moving((await known_to(other, conversation)).send("too late"))
        assert await kinds(conversation) == before


async def test_inputs_of_other_processes_are_bounded_too() -> None:
    """The owner does not look: its clock stands still."""
    async with two(Mind(), options={"settings": Settings(inbox_max=3)}) as (owner, other):
        conversation = await known_to(other, await owner.start())
        waiting = [asyncio.create_task(conversation.send(f"more {n}")) for n in range(3)]
        await settled(other.kernel)
        with pytest.raises(ConversationBusy):
            await conversation.send("too much")
        seqs = await owner.moving(asyncio.gather(*waiting))

        assert len(set(seqs)) == 3


async def test_asking_a_conversation_of_another_process_says_that_it_is_busy_there() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await known_to(other, await owner.start())

        with pytest.raises(ConversationBusy):
            await conversation.ask("hi")


async def test_recover_leaves_the_turns_of_the_living_alone() -> None:
    mind = Mind(hang)
    async with two(mind) as (owner, other):
        conversation = await owner.start()
        await conversation.send("go")
        await until(lambda: mind.requests)
        resumed = await other.kernel.recover()

        assert resumed == []
        assert "turn.resumed" not in await kinds(conversation)


async def test_the_end_of_a_turn_that_another_process_runs_is_not_waited_for_here() -> None:
    mind = Mind(hang)
    async with two(mind) as (owner, other):
        conversation = await owner.start()
        await conversation.send("go")
        await until(lambda: mind.requests)

        with pytest.raises(ConversationBusy, match="another process"):
            await other.kernel.outcome(conversation.id)


async def test_an_owner_that_was_taken_for_dead_does_nothing_more() -> None:
    """A process that slept too long wakes up after another took its conversation: its tool's result is not stored."""
    store, clock = MemoryStore(), ManualClock()
    door, inside = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        inside.set()
        await door.wait()
        return "too late"

    async with lab(Mind(calls(call("work"))), [work], store=store, clock=clock) as sleeper:
        sleeper.kernel.ticker.after_tick = None  # it does not know yet that it is not the owner any more
        conversation = await sleeper.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await settled(sleeper.kernel)
        heir_mind = Mind("I do not know what became of it")
        async with lab(heir_mind, [work], store=MemoryStore(store), clock=clock, first_id=500) as heir:
            await heir.kernel.store.declare_dead(1)
            await heir.kernel.recover()
            await heir.kernel.outcome(conversation.id)
            door.set()
            await asyncio.wait([asked])
            taken = await known_to(heir, conversation)

            assert isinstance(asked.exception(), StoreUnavailable)
            assert "taken over" in str(asked.exception())
            assert heir_mind.results == [
                "the outcome is unknown: the kernel stopped while the tool ran; it was not run again"
            ]
            assert (await kinds(taken)).count("call.finished") == 1
            assert conversation.state == "unloaded"


async def test_the_slots_of_a_conversation_that_another_took_over_are_free_again() -> None:
    """One call runs and another waits in line; neither will ever be finished here. The tool lets go first."""
    store, clock = MemoryStore(), ManualClock()
    inside = asyncio.Event()
    held_while_letting_go: list[int] = []

    async def work() -> str:
        if inside.is_set():
            return "worked"
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            held_while_letting_go.extend(len(line.holders) for line in sleeper.kernel.slots.statistics())
        return "never"

    mind = Mind(calls(call("work"), call("work")))
    async with lab(mind, [work], sharing=ToolboxSharing.EXCLUSIVE, store=store, clock=clock) as sleeper:
        sleeper.kernel.ticker.after_tick = None  # it does not know yet that it is not the owner any more
        conversation = await sleeper.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await settled(sleeper.kernel)
        (before,) = sleeper.kernel.slots.statistics()
        async with lab(Mind(), [work], store=MemoryStore(store), clock=clock, first_id=500) as heir:
            await heir.kernel.store.declare_dead(1)
            await heir.kernel.recover()
            await heir.kernel.outcome(conversation.id)
            await conversation.interrupt()
            await asyncio.gather(asked, return_exceptions=True)
            await settled(sleeper.kernel)

            assert (len(before.holders), len(before.waiters)) == (1, 1)
            assert held_while_letting_go == [1]
            assert sleeper.kernel.slots.statistics() == []
