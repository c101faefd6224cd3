"""Strict replay is identical for whatever a conversation went through."""

from __future__ import annotations

import asyncio

import pytest

from agentos.components import Phase, ToolboxSharing, TurnState, Verdict
from agentos.errors import ModelError
from agentos.events.model import Finish, ModelReply, ModelRequest, Role, ToolCall
from agentos.history import Identical
from agentos.persistence.base import Store
from agentos.settings import Settings
from agentos.systems import SCHEDULE, system
from agentos.testing.clock import ManualClock
from agentos.world import Decision, View
from tests.history.support import (
    Desk,
    Reply,
    advance,
    assert_history_holds,
    crash,
    kinds_of,
    office,
    replayed,
    settled,
    until,
)


def calls_then_answer(*calls: ToolCall) -> Reply:
    """A model that makes these calls at once, and then answers."""

    def reply(request: ModelRequest) -> ModelReply:
        if request.messages[-1].role is Role.TOOL:
            return ModelReply("done")
        return ModelReply(calls=calls, finish=Finish.TOOL_USE)

    return reply


async def test_a_single_turn_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("note text=one")

        assert outcome.completed
        await assert_history_holds(store)
        [result] = await replayed(store)
        assert isinstance(result, Identical)
        assert (str(result.log), result.entries, result.units) == (clerk.id, 11, 5)


async def test_parallel_calls_that_end_in_any_order_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a\nnote text=b\nwait text=c\nfail text=d"))
        await desk.until_started(2)
        desk.gate.set()

        assert (await asking).completed
        await assert_history_holds(store)


async def test_calls_that_wait_for_a_slot_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk, sharing=ToolboxSharing.EXCLUSIVE) as kernel:
        desk.gate.set()
        clerks = [await kernel.start("clerk") for _ in range(3)]
        outcomes = await asyncio.gather(
            *(clerk.ask("wait text=a\nnote text=b\nask_aide task='note text=c'") for clerk in clerks)
        )

        assert all(outcome.completed for outcome in outcomes)
        await assert_history_holds(store)


async def test_a_delegation_is_decided_again_in_all_its_conversations(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("ask_helper task='ask_aide task=\"note text=deep\"'\nnote text=beside")

        assert outcome.completed
        assert desk.notes == ["beside", "deep"]
        await assert_history_holds(store)
        assert len(await replayed(store)) == 3


async def test_a_child_that_is_used_again_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("ask_helper task='note text=one'\nask_helper task='note text=two'")
        await clerk.ask("ask_helper task='note text=three'")

        assert sorted(desk.notes) == ["one", "three", "two"]
        await assert_history_holds(store)
        assert len(await replayed(store)) == 2


async def test_denied_invalid_and_unknown_calls_are_decided_again(store: Store, desk: Desk) -> None:
    reply = calls_then_answer(
        ToolCall("note", {"text": 7}),
        ToolCall("note", "no object", "id 1"),
        ToolCall("no such tool", {}),
        ToolCall("fail", {"text": "x"}),
        ToolCall("note", {"text": "fine"}),
    )
    rules = {"policy": [{"tool": "fail", "verdict": "deny"}]}
    async with office(store, desk, reply=reply, clerk=rules) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("go")

        assert outcome.completed
        assert desk.notes == ["fine"]
        await assert_history_holds(store)


async def test_retries_of_the_model_are_decided_again(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    faults = [
        ModelError("overloaded", "too much", retry_after_s=3),
        ModelError("cut", "cut off", text="half an ans"),
    ]

    def reply(request: ModelRequest) -> ModelReply:
        if faults:
            raise faults.pop(0)
        return ModelReply("at last", thinking="hm")

    async with office(store, desk, reply=reply, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("go"))
        while not asking.done():
            await advance(clock, 10)

        assert asking.result().text == "at last"
        assert (await kinds_of(kernel, clerk.id)).count("wake.fired") == 2
        await assert_history_holds(store)


async def test_empty_and_refused_replies_are_decided_again(store: Store, desk: Desk) -> None:
    replies = [ModelReply(), ModelReply("no", finish=Finish.REFUSAL), ModelReply("lon", finish=Finish.LENGTH)]
    async with office(store, desk, reply=lambda request: replies.pop(0)) as kernel:
        clerk = await kernel.start("clerk")
        outcomes = [str(await clerk.ask("go")), str(await clerk.ask("go on"))]

        assert outcomes == ["refused", "truncated"]
        await assert_history_holds(store)


async def test_a_cancelled_turn_with_running_calls_and_a_child_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a\npeek text=b\nask_aide task='wait text=c'\nnote text=d"))
        await desk.until_started(3)
        await clerk.interrupt()

        assert str(await asking) == "cancelled(interrupt)"
        await settled(kernel, await kernel.conversations())
        await assert_history_holds(store)


async def test_every_limit_is_decided_again(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    limits = {"step_limit": 2, "call_limit": 3, "turn_s": 60.0, "unknown_tool_limit": 2, "context_tokens": 400}

    def reply(request: ModelRequest) -> ModelReply:
        word = next(message.text for message in reversed(request.messages) if message.role is Role.USER)
        calls = {
            "steps": [ToolCall("note", {"text": "x"})],
            "calls": [ToolCall("note", {"text": "x"})] * 5,
            "unknown": [ToolCall("nothing")] * 3,
            "time": [ToolCall("wait", {"text": "x"})],
        }
        return ModelReply(calls=tuple(calls[word.split()[0]]), finish=Finish.TOOL_USE)

    outcomes = []
    async with office(store, desk, reply=reply, clock=clock, clerk=limits) as kernel:
        for word in ("steps", "calls", "unknown", "time", "context " + "x" * 2_000):
            clerk = await kernel.start("clerk")
            asking = asyncio.ensure_future(clerk.ask(word))
            while not asking.done():
                await advance(clock, 20)
            outcomes.append(str(asking.result()))

        assert outcomes == ["limit(steps)", "limit(calls)", "limit(unknown_tool)", "limit(time)", "limit(context)"]
        await assert_history_holds(store)


async def test_inputs_that_wait_for_the_next_turn_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a"))
        await desk.until_started(1)
        waiting = [asyncio.ensure_future(clerk.ask(f"note text={n}")) for n in range(3)]
        await clerk.send("note text=keyed", key="k1")
        desk.gate.set()
        await asyncio.gather(asking, *waiting)

        assert (await kinds_of(kernel, clerk.id)).count("turn.started") == 2
        await assert_history_holds(store)


async def test_ephemeral_inputs_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(4):
            await clerk.ask(f"note text={n}", ephemeral=n % 2 == 0)

        await assert_history_holds(store)


async def test_paused_closed_and_unpaused_conversations_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.pause()
        await clerk.send("note text=later")
        assert not desk.notes
        await clerk.unpause()
        await clerk.ask("note text=last")
        await clerk.close()
        await kernel.ticker.wait_quiet()

        assert desk.notes == ["later", "last"]
        assert kernel.state_of(clerk.id) == "closed"
        await assert_history_holds(store)


async def test_an_approval_that_parks_the_turn_is_decided_again(store: Store, desk: Desk) -> None:
    ask = {"policy": [{"tool": "note", "verdict": "ask"}], "approval": "park"}
    async with office(store, desk, clerk=ask) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("note text=a\nnote text=b"))
        await until(lambda: kernel.state_of(clerk.id) == "parked")
        requests = [entry.call for entry in await kernel.history(clerk.id) if entry.data.kind == "approval.requested"]
        for seq, verdict in zip(requests, (Verdict.ALLOW, Verdict.DENY), strict=True):
            await clerk.answer(f"call_{clerk.id.partition('_')[2]}_{seq}", verdict, reason="because", by="ann")

        assert (await asking).completed
        assert desk.notes == ["a"]
        await assert_history_holds(store)


@pytest.mark.parametrize("text", ["wait text=a\npeek text=b\nnote text=c", "ask_helper task='wait text=deep'"])
async def test_a_crash_and_what_is_resumed_after_it_are_decided_again(store: Store, desk: Desk, text: str) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask(text))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        found = await crash(kernel)
        await asyncio.gather(asking, return_exceptions=True)
    await assert_history_holds(found)

    desk.gate.set()
    async with office(found, desk) as kernel:
        await kernel.recover()
        await settled(kernel, await kernel.conversations())

        kinds = [kind for id_ in await kernel.conversations() for kind in await kinds_of(kernel, id_)]
        assert "turn.resumed" in kinds
        await assert_history_holds(found)


async def test_a_raising_user_system_is_decided_again(store: Store, desk: Desk) -> None:
    @system(over=TurnState, phase=Phase.PROMPT, after="recover")
    def stumble(view: View, turn: int) -> Decision:
        if view.get(turn, TurnState).step_index == 1:
            raise RuntimeError("a bug of a user")
        return Decision.none()

    async with office(store, desk, systems=[stumble]) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("note text=a")

        assert str(outcome) == "failed(system:stumble)"
        await assert_history_holds(store, SCHEDULE.with_systems([stumble]))


async def test_a_conversation_of_a_removed_agent_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        await kernel.remove("clerk")
        with pytest.raises(Exception, match="clerk"):
            await clerk.ask("note text=b")

        await assert_history_holds(store)


async def test_a_long_conversation_with_snapshots_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk, settings=Settings(snapshot_entries=20)) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(12):
            await clerk.ask(f"note text={n}\nnote text={n}b", ephemeral=n % 5 == 1)

        assert (await kinds_of(kernel, clerk.id)).count("snapshot") > 3
        await assert_history_holds(store)


async def test_conversations_evicted_in_the_middle_are_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk, settings=Settings(live_conversations_max=2, snapshot_entries=20)) as kernel:
        clerks = [await kernel.start("clerk") for _ in range(5)]
        for n in range(4):
            for clerk in clerks:
                await clerk.ask(f"note text={n}\nask_helper task='note text=h{n}'")

        assert len(kernel.ticker.loaded) < 10
        await assert_history_holds(store)
