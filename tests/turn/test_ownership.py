"""Who owns a log, and what becomes of it when its owner dies, hangs, or wakes after another took over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import ToolboxSharing, Verdict
from agentos.definitions import PolicyRule
from agentos.errors import ConversationBusy, StoreUnavailable
from agentos.kernel.rest import open_requests
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.support import Lab, Mind, call, calls, crash, entries_of, hang, kinds, lab, results, settled, until
from tests.turn.test_two_kernels import known_to, two


async def work() -> str:
    return "worked"


async def test_a_conversation_begun_under_one_key_by_two_processes_at_once_is_one() -> None:
    async with two(Mind("hello")) as (owner, other):
        first, second = await asyncio.gather(*(here.kernel.start("main", key="k") for here in (owner, other)))
        outcome = await first.ask("hi")

        assert first.id == second.id
        assert outcome.text == "hello"
        assert (await kinds(second)).count("conversation.started") == 1
        with pytest.raises(ConversationBusy, match="writer 1"):
            await second.ask("hi")


async def test_who_finds_a_conversation_busy_is_told_who_has_it() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await known_to(other, await owner.start())
        with pytest.raises(ConversationBusy) as busy:
            await conversation.ask("hi")
        (row, _) = await other.kernel.writers()

        assert busy.value.owner == "writer 1"
        assert "at work in another process (writer 1); `send` reaches it" in str(busy.value)
        assert (row.n, row.alive) == (1, True)


async def test_the_inbox_is_bounded_for_every_kind_of_command() -> None:
    """The owner does not look: its clock stands still."""
    settings = Settings(inbox_max=3)
    async with two(Mind(calls(call("work"))), [work], approval="park", options={"settings": settings}) as (
        owner,
        other,
    ):
        conversation = await known_to(other, await owner.start())
        for _ in range(3):
            await conversation.interrupt()
        request = f"call_{conversation.id.removeprefix('conversation_')}_4"
        commands = (
            conversation.interrupt(),
            conversation.pause(),
            conversation.unpause(),
            conversation.close(),
            conversation.answer(request, Verdict.ALLOW),
            conversation.send("hi"),
        )
        told = await asyncio.gather(*commands, return_exceptions=True)
        waiting = len(await other.kernel.store.inbox(conversation.id))
        await owner.advance(1)

        assert [type(error) for error in told] == [ConversationBusy] * 6
        assert {error.waiting for error in told if isinstance(error, ConversationBusy)} == {3}
        assert (waiting, await other.kernel.store.inbox(conversation.id)) == (3, [])


async def test_a_command_that_waits_already_is_not_refused_for_a_full_inbox() -> None:
    async with two(Mind(), options={"settings": Settings(inbox_max=1)}) as (owner, other):
        conversation = await known_to(other, await owner.start())
        sent = [asyncio.create_task(conversation.send("hi", key="mail 1")) for _ in range(2)]
        await settled(other.kernel)
        with pytest.raises(ConversationBusy):
            await conversation.send("hi", key="mail 2")

        assert len(set(await owner.moving(asyncio.gather(*sent)))) == 1


async def test_pause_unpause_and_close_of_another_process_are_entries_of_the_owner() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await owner.start()
        foreign = await known_to(other, conversation)
        for command in (foreign.pause, foreign.unpause, foreign.close):
            await command()
            await owner.advance(1)

        assert (await kinds(conversation))[1:] == [
            "conversation.paused",
            "conversation.unpaused",
            "conversation.closed",
        ]


async def test_a_sender_whose_owner_dies_takes_the_conversation_over() -> None:
    """Its input lies in the inbox, and nobody else is there to take it."""
    async with two(Mind()) as (owner, other):
        conversation = await owner.start()
        sent = asyncio.create_task((await known_to(other, conversation)).send("from outside", key="k"))
        await settled(other.kernel)
        waiting = len(await other.kernel.store.inbox(conversation.id))
        crash(owner)
        seq = await other.moving(sent)
        taken = await known_to(other, conversation)
        await until(lambda: taken.state == "idle")

        assert waiting == 1
        assert await taken.send("from outside", key="k") == seq
        assert (await entries_of(taken, "turn.finished"))[0].seq > seq


async def test_one_key_is_one_input_also_after_its_taker_has_died() -> None:
    store, clock = MemoryStore(), ManualClock()
    async with lab(Mind(), store=store, clock=clock) as owner:
        conversation = await owner.start()
        seq = await owner.moving(conversation.send("hi", key="mail 1"))
        await until(lambda: conversation.state == "idle")
        crash(owner)
        async with lab(Mind(), store=MemoryStore(store), clock=clock, first_id=500) as heir:
            taken = await known_to(heir, conversation)
            again = await heir.moving(taken.send("hi", key="mail 1"))

            assert again == seq
            assert len(await entries_of(taken, "input.received")) == 1


async def test_whoever_takes_over_takes_what_waits_in_the_inbox_too() -> None:
    async with two(Mind()) as (owner, other):
        conversation = await owner.start()
        foreign = await known_to(other, conversation)
        sent = asyncio.create_task(foreign.send("first"))
        await settled(other.kernel)
        crash(owner)
        third = await foreign.ask("second")

        assert third.completed
        assert await other.moving(sent) > 0
        assert len(await entries_of(foreign, "input.received")) == 2


async def test_a_sender_does_not_wait_for_ever_for_an_owner_that_hangs() -> None:
    """Its input stays in the inbox: the owner takes it when it goes on, and the same key asks what became of it."""
    settings = Settings(inbox_wait_s=2)
    store, clock = MemoryStore(), ManualClock()
    async with lab(Mind(), store=store, clock=ManualClock()) as frozen:
        conversation = await frozen.start()
        options = {"settings": settings}
        async with lab(Mind(), store=MemoryStore(store), clock=clock, first_id=500, options=options) as other:
            foreign = await known_to(other, conversation)
            with pytest.raises(ConversationBusy, match="waits in its inbox as 'mail 1'") as busy:
                await other.moving(foreign.send("hi", key="mail 1"))
            await frozen.advance(1)
            seq = await other.moving(foreign.send("hi", key="mail 1"))

            assert clock.monotonic() > 2
            assert (busy.value.owner, busy.value.key) == ("writer 1", "mail 1")
            assert [entry.seq for entry in await entries_of(conversation, "input.received")] == [seq]


async def asleep(sleeper: Lab, inside: asyncio.Event) -> tuple[Any, asyncio.Task[Any]]:
    """A conversation whose tool runs, in a kernel that does not know yet that another one takes over."""
    sleeper.kernel.ticker.after_tick = None
    conversation = await sleeper.start()
    asked = asyncio.create_task(conversation.ask("go"))
    await inside.wait()
    await settled(sleeper.kernel)
    return conversation, asked


async def test_a_zombie_hands_on_what_it_was_told_and_goes_on_with_its_other_conversations() -> None:
    store, clock = MemoryStore(), ManualClock()
    inside = asyncio.Event()

    async def wait() -> str:
        inside.set()
        return str(await hang())

    async with lab(Mind(calls(call("wait")), "still here"), [wait], store=store, clock=clock) as sleeper:
        other = await sleeper.start()
        conversation, asked = await asleep(sleeper, inside)
        heir_mind = Mind(hang)
        async with lab(heir_mind, [wait], store=MemoryStore(store), clock=clock, first_id=500) as heir:
            await heir.kernel.declare_dead(1)
            assert len(await heir.kernel.recover(only=[conversation.id])) == 1
            await until(lambda: heir_mind.requests)
            await conversation.interrupt(by="ann")
            await asyncio.wait([asked])
            error = asked.exception()
            await heir.advance(1)
            taken = await known_to(heir, conversation)
            await until(lambda: taken.state == "idle")

            assert isinstance(error, StoreUnavailable)
            assert [entry.by for entry in await entries_of(taken, "turn.cancelling")] == ["ann"]
            assert conversation.state == "unloaded"
            assert not len(sleeper.kernel.runner)
            assert (await other.ask("are you there?")).text == "still here"
            with pytest.raises(ConversationBusy, match="writer 2"):
                await conversation.ask("and now?")


async def test_a_zombie_finds_out_by_itself_that_it_was_frozen() -> None:
    """Its tool would run for hours more, and its caller wait for it."""
    store, clock = MemoryStore(), ManualClock()
    inside, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        inside.set()
        try:
            return str(await hang())
        finally:
            stopped.set()

    async with lab(Mind(calls(call("wait"))), [wait], store=store, clock=clock) as sleeper:
        conversation, asked = await asleep(sleeper, inside)
        async with lab(Mind(), [wait], store=MemoryStore(store), clock=ManualClock(), first_id=500) as heir:
            await heir.kernel.declare_dead(1)
            await heir.kernel.recover()
            await heir.kernel.outcome(conversation.id)
            before = stopped.is_set()
            clock.advance(60)
            await until(stopped.is_set)
            await asyncio.wait([asked])
            error = asked.exception()

            assert not before
            assert "taken over" in str(error)
            assert (await kinds(await known_to(heir, conversation))).count("call.finished") == 1


async def test_a_kernel_that_was_frozen_and_lost_nothing_goes_on() -> None:
    inside, door = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        inside.set()
        await door.wait()
        return "worked"

    async with lab(Mind(calls(call("wait")), "done"), [wait]) as here:
        asked = asyncio.create_task(here.ask())
        await inside.wait()
        await here.advance(3_600)
        door.set()

        assert (await asked).text == "done"


async def test_wakeups_are_fired_by_whoever_owns_the_log() -> None:
    store, clock = MemoryStore(), ManualClock()
    policy = [PolicyRule(tool="work", verdict="ask")]
    told: dict[str, Any] = {"policy": policy, "approval": "park", "approval_s": 3_600}
    async with lab(Mind(calls(call("work"))), [work], store=store, clock=clock, **told) as owner:
        conversation = await owner.start()
        await conversation.send("go")
        await until(lambda: conversation.state == "parked")
        crash(owner)
        mind = Mind("nobody answered")
        async with lab(mind, [work], store=MemoryStore(store), clock=clock, first_id=500, **told) as heir:
            await heir.kernel.recover()
            await heir.advance(3_599)
            before = (await known_to(heir, conversation)).state
            await heir.advance(2)
            taken = await known_to(heir, conversation)
            await until(lambda: taken.state == "idle")

            assert before == "parked"
            assert await results(taken) == [("denied(approval)", "not run: nobody answered in time")]
            assert "wake.fired" in await kinds(taken)
            assert await heir.kernel.store.wakeups() == []


async def test_recover_begins_the_turn_of_an_input_that_nobody_could_take() -> None:
    """The agent was not there: its input is stored, and no turn is open."""
    store, clock = MemoryStore(), ManualClock()
    async with lab(Mind(), store=store, clock=clock) as owner:
        conversation = await owner.start()
        await owner.kernel.remove("main")
        await owner.kernel.ticker.wait_quiet()
        sent = asyncio.create_task(conversation.send("hello?"))
        await asyncio.wait([sent])
        before = await kinds(conversation)
        crash(owner)
        async with lab(Mind("hello"), store=MemoryStore(store), clock=clock, first_id=500) as heir:
            (taken,) = await heir.kernel.recover()
            await until(lambda: taken.state == "idle")

            assert before[-1] == "input.received"
            assert (await kinds(taken))[-1] == "turn.finished"
            assert await heir.kernel.recover() == []


async def test_a_running_kernel_takes_up_what_dies_beside_it() -> None:
    store, clock = MemoryStore(), ManualClock()
    options = {"settings": Settings(recover_poll_s=5)}
    mind, living_mind = Mind(hang), Mind(hang)
    async with (
        lab(mind, store=store, clock=clock) as dying,
        lab(living_mind, store=MemoryStore(store), clock=clock, first_id=300) as living,
        lab(Mind("taken up"), store=MemoryStore(store), clock=clock, first_id=500, options=options) as heir,
    ):
        left, kept = await dying.start(), await living.start()
        for conversation in (left, kept):
            await conversation.send("go")
        await until(lambda: mind.requests and living_mind.requests)
        await heir.advance(20)
        before = await kinds(left)
        crash(dying)
        await heir.advance(5)
        taken = await known_to(heir, left)
        await until(lambda: taken.state == "idle")

        assert "turn.resumed" not in before
        assert "turn.finished" in await kinds(taken)
        assert "turn.resumed" not in await kinds(kept)


async def test_a_log_that_cannot_be_taken_up_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    store, clock = MemoryStore(), ManualClock()
    options = {"settings": Settings(recover_poll_s=5)}
    mind = Mind(hang, hang)
    async with (
        lab(mind, store=store, clock=clock) as dying,
        lab(Mind("taken up"), store=MemoryStore(store), clock=clock, first_id=500, options=options) as heir,
    ):
        conversations = sorted([await dying.start(), await dying.start()], key=lambda one: one.id)
        for conversation in conversations:
            await conversation.send("go")
        await until(lambda: len(mind.requests) == 2)
        read = heir.kernel.store.entries

        async def damaged(log: str, *more: Any, **rest: Any) -> Any:
            return [] if log == conversations[0].id else await read(log, *more, **rest)

        heir.kernel.store.entries = damaged  # type: ignore[method-assign]
        heir.kernel.ticker.after_tick = None  # it would see the damage, too
        crash(dying)
        await heir.advance(5)
        taken = await known_to(heir, conversations[1])
        await until(lambda: taken.state == "idle")

        assert f"{conversations[0].id} was left behind and cannot be taken up: StoreDamaged" in caplog.text


@pytest.mark.parametrize("sharing", [ToolboxSharing.STATELESS, ToolboxSharing.EXCLUSIVE])
async def test_two_processes_at_one_conversation_at_once_have_whole_turns_alone(sharing: ToolboxSharing) -> None:
    """C49: one runs, the others wait or are told, and every turn in the history is whole."""
    replies: list[Any] = [calls(call("work")), "done"] * 20
    minds = Mind(*replies), Mind(*replies)
    store, clock = MemoryStore(), ManualClock()
    async with (
        lab(minds[0], [work], sharing=sharing, store=store, clock=clock) as one,
        lab(minds[1], [work], sharing=sharing, store=MemoryStore(store), clock=clock, first_id=500) as two_,
    ):
        mine = await one.start()
        theirs = await known_to(two_, mine)
        asked = [handle.ask(f"ask {n}") for n in range(3) for handle in (mine, theirs)]
        sent = [handle.send(f"send {n}", key=f"{n}") for n in range(3) for handle in (mine, theirs)]
        told: list[Any] = await one.moving(asyncio.gather(*asked, *sent, return_exceptions=True))
        await until(lambda: mine.state == "idle")
        found = await kinds(mine)

        assert [type(answer) for answer in told[1:6:2]] == [ConversationBusy] * 3
        assert all(answer.completed for answer in told[0:6:2])
        assert [told[6 + n] for n in (0, 2, 4)] == [told[6 + n] for n in (1, 3, 5)]
        assert found.count("input.received") == 6
        assert minds[1].requests == []
        turns = [kind for kind in found if kind in ("turn.started", "turn.finished")]
        assert turns == ["turn.started", "turn.finished"] * (len(turns) // 2)


async def test_an_open_request_is_answered_after_a_take_over() -> None:
    store, clock = MemoryStore(), ManualClock()
    policy = [PolicyRule(tool="work", verdict="ask")]
    async with lab(
        Mind(calls(call("work"))), [work], store=store, clock=clock, policy=policy, approval="park"
    ) as owner:
        conversation = await owner.start()
        await conversation.send("go")
        await until(lambda: conversation.state == "parked")
        (request,) = open_requests(owner.kernel)
        crash(owner)
        more: dict[str, Any] = {"policy": policy, "approval": "park"}
        async with lab(Mind("thanks"), [work], store=MemoryStore(store), clock=clock, first_id=500, **more) as heir:
            await heir.kernel.answer(request, Verdict.ALLOW)
            taken = await known_to(heir, conversation)
            await until(lambda: taken.state == "idle")

            assert await results(taken) == [("done", "worked")]
