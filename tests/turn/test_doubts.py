"""A call that a crash left in doubt, and the person who knows what became of it: in time, later, or never."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentos.components import CallStatus, Resolution, ToolboxSharing
from agentos.errors import AlreadyResolved, InputRefused, NotInDoubt, UnknownCall
from agentos.events.intake import Control
from agentos.events.model import Role
from agentos.ids import CallId, Name, call_id
from agentos.kernel import Conversation
from agentos.kernel.doubts import resolve_item
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence.memory import MemoryStore
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.testing.aftermath import problems_of
from agentos.toolboxes.base import Doubt
from agentos.toolboxes.python import PythonToolbox
from tests.support import (
    Lab,
    Life,
    Mind,
    call,
    calls,
    crash,
    entries_of,
    hang,
    kinds,
    lab,
    results,
    settled,
    units,
    until,
)

WAIT: dict[str, Any] = {"doubt_s": 60}


class Bank:
    """A tool that may do harm: its first run dies with its process, later ones come back."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.inside = asyncio.Event()

    @property
    def tools(self) -> list[Callable[..., Awaitable[Any]]]:
        async def pay(n: int) -> str:
            self.ran.append(n)
            if len(self.ran) == 1:
                self.inside.set()
                await hang()
            return f"paid {n}"

        async def look() -> str:
            return "looked"

        return [pay, look]


async def killed(life: Life, bank: Bank, *more: Any, **spec: Any) -> None:
    """A process that dies while `pay` is with its tool."""
    mind = Mind(calls(call("pay", n=17), *more))
    await life.until_killed(mind, bank.tools, lambda here: bank.inside.is_set() and here.kernel.ticker.quiet, **spec)


async def taken_up(here: Lab, life: Life) -> Conversation:
    """The conversation with its open turn, once nothing goes on by itself any more."""
    await here.kernel.recover()
    await settled(here.kernel)
    return await here.kernel.get(life.id)


async def in_doubt(here: Lab) -> CallId:
    (doubt,) = await here.kernel.doubts()
    return doubt.call


async def resolution_of(here: Lab, call_: str) -> object:
    ((found,),) = (await here.kernel.query("select resolution from tool_calls where id = ?", (call_,))).rows
    return found


async def problems(life: Life) -> list[str]:
    """What verify, strict replay and the lineage find wrong in the store."""
    try:
        return await problems_of(life.store)
    finally:
        await life.store.close()


@pytest.fixture
def life() -> Life:
    return Life()


@pytest.fixture
def bank() -> Bank:
    return Bank()


async def test_the_turn_parks_until_a_person_says_what_became_of_the_call(life: Life, bank: Bank) -> None:
    await killed(life, bank, call("look"), **WAIT)
    mind = Mind("thank you")
    async with life.open(mind, bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        state, doubts = conversation.state, await here.kernel.doubts()
        await here.kernel.resolve(doubts[0].call, Resolution.DONE, result="receipt 4", by="ann")
        outcome = await here.kernel.outcome(life.id)
        await settled(here.kernel)

        assert state == "parked"
        assert [(doubt.tool, doubt.state, doubt.arguments, doubt.agent) for doubt in doubts] == [
            ("pay", "waiting", '{"n":17}', "main")
        ]
        assert outcome is None or outcome.completed
        assert bank.ran == [17]
        assert mind.results == ["receipt 4", "looked"]
        assert (await units(conversation))[-4:] == [
            ["turn.resumed", "call.doubted"],
            ["call.doubted"],
            ["call.resolved", "call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]
        assert [entry.by for entry in await entries_of(conversation, "call.resolved")] == ["ann"]
        assert await resolution_of(here, doubts[0].call) == "done"
        assert await here.kernel.store.wakeups() == []
    assert await problems(life) == []


@pytest.mark.parametrize(
    ("resolution", "more", "status", "said"),
    [
        (Resolution.DONE, {}, "done", "it took effect, says user; what it answered is lost"),
        (Resolution.DONE, {"reason": "see the ledger"}, "done", "says user; what it answered is lost: see the ledger"),
        (Resolution.FAILED, {"by": "ann", "reason": "no money"}, "failed(resolved)", "effect, says ann: no money"),
    ],
)
async def test_a_call_that_waits_ends_as_the_person_says(
    life: Life, bank: Bank, resolution: Resolution, more: dict[str, Any], status: str, said: str
) -> None:
    await killed(life, bank, **WAIT)
    mind = Mind()
    async with life.open(mind, bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, resolution, **more)
        await until(lambda: conversation.state == "idle")

        assert [found for found, _ in await results(conversation)] == [status]
        assert mind.results[0].endswith(said)
        assert await resolution_of(here, doubted) == resolution.value
        assert await here.kernel.doubts() == []
    assert await problems(life) == []


async def test_a_retry_starts_the_call_once_more_under_the_same_key_in_one_unit(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, Resolution.RETRY)
        await until(lambda: conversation.state == "idle")

        assert bank.ran == [17, 17]
        assert await results(conversation) == [("lost", "a person has it tried again"), ("done", "paid 17")]
        assert ["call.resolved", "call.finished", "call.started"] in await units(conversation)
        assert [entry.call for entry in await entries_of(conversation, "call.started")] == [
            int(doubted.rpartition("_")[2])
        ] * 2
        assert await here.kernel.doubts() == []
    assert await problems(life) == []


async def test_a_retry_waits_for_room_in_its_toolbox(life: Life, bank: Bank) -> None:
    box: dict[str, Any] = {"sharing": ToolboxSharing.EXCLUSIVE, **WAIT}
    await killed(life, bank, **box)
    door, busy = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        busy.set()
        await door.wait()
        return "held"

    async with life.open(Mind(calls(call("hold")), "held on"), [*bank.tools, hold], **box) as here:
        conversation = await taken_up(here, life)
        other = asyncio.create_task(here.ask())
        await until(busy.is_set)
        await here.kernel.resolve(await in_doubt(here), Resolution.RETRY)
        await settled(here.kernel)
        waited = list(bank.ran)
        door.set()
        await other
        await until(lambda: conversation.state == "idle")

        assert waited == [17]
        assert bank.ran == [17, 17]
        assert (await units(conversation))[-4] == ["call.resolved", "call.finished"]


async def test_a_retry_that_dies_too_is_in_doubt_anew_and_resolved_by_itself(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        await taken_up(here, life)
        await here.advance(50)
        doubted = await in_doubt(here)
        bank.ran.clear()
        await here.kernel.resolve(doubted, Resolution.RETRY, by="ann")
        await until(lambda: bank.ran)
        crash(here)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        (doubt,) = await here.kernel.doubts()
        await here.advance(50)
        still = conversation.state
        await here.kernel.resolve(doubted, Resolution.DONE, by="bob")
        await until(lambda: conversation.state == "idle")

        assert (doubt.call, doubt.attempt, doubt.state) == (doubted, 2, "waiting")
        assert still == "parked"
        assert [entry.by for entry in await entries_of(conversation, "call.resolved")] == ["ann", "bob"]
        assert await resolution_of(here, doubted) == "done"
    assert await problems(life) == []


async def test_nobody_comes_and_the_call_ends_as_unknown(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    mind = Mind()
    async with life.open(mind, bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        await here.advance(59)
        early = conversation.state
        await here.advance(1)

        assert (early, conversation.state) == ("parked", "idle")
        assert [status for status, _ in await results(conversation)] == ["unknown"]
        assert "it was not run again; nobody said within 60 s what became of it" in mind.results[0]
        assert ["wake.fired", "call.finished", "model.requested"] in await units(conversation)
        assert await here.kernel.store.wakeups() == []
    assert await problems(life) == []


async def test_the_wait_goes_on_over_a_restart_and_the_tool_is_not_asked_again(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        await taken_up(here, life)
        await here.advance(40)
        crash(here)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        await here.advance(10)
        early = conversation.state
        await here.advance(10)

        assert (early, conversation.state) == ("parked", "idle")
        assert (await kinds(conversation)).count("call.doubted") == 2
    assert await problems(life) == []


async def test_without_a_person_who_listens_the_call_is_unknown_at_once(life: Life, bank: Bank) -> None:
    await killed(life, bank)
    async with life.open(Mind(), bank.tools) as here:
        conversation = await taken_up(here, life)

        assert [status for status, _ in await results(conversation)] == ["unknown"]
        assert [(doubt.state, doubt.attempt) for doubt in await here.kernel.doubts()] == [("unknown", 1)]


async def test_a_person_who_spoke_before_the_recovery_is_heard_in_time(life: Life, bank: Bank) -> None:
    """Between the crash and the next kernel a call is still `started`; from the doubt on its log has it."""
    asked, door = asyncio.Event(), asyncio.Event()

    class Slow(PythonToolbox):
        async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
            asked.set()
            await door.wait()
            return None

    await killed(life, bank)
    mind = Mind()
    async with life.open(mind, toolboxes=[Slow("box", bank.tools)]) as here:
        await here.kernel.recover()
        await until(asked.is_set)
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE, result="receipt 4")
        await settled(here.kernel)
        conversation = await here.kernel.get(life.id)
        early = conversation.state
        door.set()
        await until(lambda: conversation.state == "idle")

        assert early == "running"
        assert mind.results == ["receipt 4"]
        assert ["call.doubted", "call.resolved", "call.finished", "model.requested"] in await units(conversation)
    assert await problems(life) == []


async def test_what_the_tool_can_tell_goes_before_what_a_person_says(life: Life, bank: Bank) -> None:
    door = asyncio.Event()

    class Telling(PythonToolbox):
        async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
            await door.wait()
            return Doubt(CallStatus.DONE, "receipt 9")

    await killed(life, bank, **WAIT)
    mind = Mind()
    async with life.open(mind, toolboxes=[Telling("box", bank.tools)], **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, Resolution.FAILED)
        await settled(here.kernel)
        door.set()
        await until(lambda: conversation.state == "idle")

        assert mind.results == ["receipt 9"]
        assert "call.resolved" not in await kinds(conversation)
        with pytest.raises(NotInDoubt, match="is not in doubt: it is done"):
            await here.kernel.resolve(doubted, Resolution.DONE)
    assert await problems(life) == []


async def test_a_call_whose_turn_is_ended_meanwhile_is_unknown_and_can_be_resolved_later(
    life: Life, bank: Bank
) -> None:
    await killed(life, bank, **WAIT)
    mind = Mind("I see")
    async with life.open(mind, bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await conversation.interrupt()
        await until(lambda: conversation.state == "idle")
        await here.kernel.resolve(doubted, Resolution.DONE)
        await settled(here.kernel)
        await conversation.ask("and?")

        assert [status for status, _ in await results(conversation)] == ["unknown"]
        assert mind.shown[-1][-2].text.endswith('- pay {"n":17}: it took effect, says user.')
        assert await resolution_of(here, doubted) == "done"
    assert await problems(life) == []


@pytest.mark.parametrize(
    ("resolution", "more", "note"),
    [
        (Resolution.DONE, {"result": "receipt 4"}, "it took effect, says ann. Its result:\nreceipt 4"),
        (Resolution.DONE, {"reason": "in the ledger"}, "it took effect, says ann (in the ledger)."),
        (Resolution.FAILED, {}, "it did not take effect, says ann."),
        (
            Resolution.RETRY,
            {},
            "it did not take effect, says ann. It was not run again: call it again if it is still wanted.",
        ),
    ],
)
async def test_what_is_said_of_an_unknown_call_later_is_told_at_the_beginning_of_the_next_turn_and_stays(
    life: Life, bank: Bank, resolution: Resolution, more: dict[str, Any], note: str
) -> None:
    await killed(life, bank)
    mind = Mind("who knows", "fine", "still fine")
    async with life.open(mind, bank.tools) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, resolution, by="ann", **more)
        await settled(here.kernel)
        await conversation.ask("and?")
        await conversation.ask("sure?")

        told = mind.shown[1]
        assert [message.role for message in told[-2:]] == [Role.USER, Role.USER]
        assert told[-2].text == f'A note on calls of earlier turns whose outcome was unknown:\n- pay {{"n":17}}: {note}'
        assert told[-1].text == "and?"
        assert mind.shown[2][: len(told)] == told
        assert bank.ran == [17]
        assert ["call.resolved"] in await units(conversation)
        assert [status for status, _ in await results(conversation)] == ["unknown"]
        assert await resolution_of(here, doubted) == resolution.value
        assert await here.kernel.doubts() == []
    assert await problems(life) == []


async def test_a_note_waits_over_a_restart_and_for_the_turn_after_the_open_one(life: Life, bank: Bank) -> None:
    door, inside = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        inside.set()
        await door.wait()
        return "waited"

    tools = [*bank.tools, wait]
    await killed(life, bank)
    mind = Mind("who knows", calls(call("wait")), "waited", "I see")
    async with life.open(mind, tools) as here:
        conversation = await taken_up(here, life)
        asked = asyncio.create_task(conversation.ask("wait for it"))
        await until(inside.is_set)
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE)
        await settled(here.kernel)
        door.set()
        await asked

        assert ["call.resolved"] in await units(conversation)
        assert not any("A note" in message.text for message in mind.shown[-1])
    last = Mind("I see")
    async with life.open(last, tools) as here:
        await (await here.kernel.get(life.id)).ask("and?")

        assert [message.text[:6] for message in last.shown[0][-2:]] == ["A note", "and?"]
    assert await problems(life) == []


async def test_a_note_stays_when_the_input_after_it_leaves_with_its_turn(life: Life, bank: Bank) -> None:
    await killed(life, bank)
    mind = Mind()
    async with life.open(mind, bank.tools) as here:
        conversation = await taken_up(here, life)
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE)
        await settled(here.kernel)
        await conversation.ask("by the way", ephemeral=True)
        await conversation.ask("and?")

        texts = [message.text for message in mind.shown[-1]]
        assert "by the way" not in texts
        assert [text[:6] for text in texts[-3:]] == ["A note", "done", "and?"]
    assert await problems(life) == []


async def test_a_closed_conversation_keeps_what_is_said(life: Life, bank: Bank) -> None:
    await killed(life, bank)
    async with life.open(Mind(), bank.tools) as here:
        conversation = await taken_up(here, life)
        await here.kernel.control(life.id, Control.CLOSE)
        await settled(here.kernel)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, Resolution.FAILED)
        await settled(here.kernel)

        assert (await units(conversation))[-1] == ["call.resolved"]
        assert await resolution_of(here, doubted) == "failed"
    assert await problems(life) == []


async def test_only_the_first_resolution_counts_and_the_second_is_told_whose_that_was(life: Life, bank: Bank) -> None:
    await killed(life, bank)
    async with life.open(Mind(), bank.tools) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        both = await asyncio.gather(
            here.kernel.resolve(doubted, Resolution.DONE, by="ann"),
            here.kernel.resolve(doubted, Resolution.FAILED, by="bob"),
            return_exceptions=True,
        )
        await settled(here.kernel)
        with pytest.raises(AlreadyResolved, match="ann resolved it as done; the first one counts") as refused:
            await here.kernel.resolve(doubted, Resolution.RETRY, by="cid")

        assert both[0] is None
        assert isinstance(both[1], AlreadyResolved)
        assert (refused.value.by, refused.value.resolution) == ("ann", "done")
        assert len(await entries_of(conversation, "call.resolved")) == 1


async def test_a_call_that_ended_by_a_resolution_is_not_resolved_again(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        await here.kernel.resolve(doubted, Resolution.FAILED, by="ann")
        await until(lambda: conversation.state == "idle")

        with pytest.raises(AlreadyResolved, match="ann resolved it as failed"):
            await here.kernel.resolve(doubted, Resolution.DONE)


async def test_another_process_resolves_by_the_inbox_of_the_owner(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        doubted = await in_doubt(here)
        async with lab(store=MemoryStore(life.store), first_id=900) as elsewhere:
            await elsewhere.kernel.resolve(doubted, Resolution.DONE, by="ann")
            with pytest.raises(AlreadyResolved, match="a resolution of it is under way"):
                await elsewhere.kernel.resolve(doubted, Resolution.FAILED)
        early = conversation.state
        await here.advance(1)
        await until(lambda: conversation.state == "idle")

        assert early == "parked"
        assert [entry.by for entry in await entries_of(conversation, "call.resolved")] == ["ann"]


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "unknown"])
async def test_what_lies_in_the_inbox_of_a_dead_process_is_taken_by_the_next(
    life: Life, bank: Bank, waits: bool
) -> None:
    spec = WAIT if waits else {}
    await killed(life, bank, **spec)
    async with life.open(Mind(), bank.tools, **spec) as here:
        await taken_up(here, life)
        doubted = await in_doubt(here)
        crash(here)
    other = MemoryStore(life.store)
    await other.open("elsewhere")
    log, key, item = await resolve_item(other, doubted, Resolution.DONE, result="receipt 4", bytes_max=1_000)
    await other.post(inbox_row(log, key, item))
    await other.close()
    mind = Mind()
    async with life.open(mind, bank.tools, **spec) as here:
        conversation = await taken_up(here, life)
        if not waits:
            await conversation.ask("and?")

        assert conversation.state == "idle"
        assert len(await entries_of(conversation, "call.resolved")) == 1
        assert "receipt 4" in (mind.results[0] if waits else mind.shown[-1][-2].text)
        assert await resolution_of(here, doubted) == "done"
    assert await problems(life) == []


async def test_a_crash_right_behind_the_resolution_undoes_nothing(life: Life, bank: Bank) -> None:
    await killed(life, bank, **WAIT)
    async with life.open(Mind(hang), bank.tools, **WAIT) as here:
        conversation = await taken_up(here, life)
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE, result="receipt 4")
        await until(lambda: here.minds["main"].requests)
        crash(here)
    mind = Mind()
    async with life.open(mind, bank.tools, **WAIT) as here:
        conversation, outcome = await life.recovered(here)

        assert outcome == "completed"
        assert mind.results == ["receipt 4"]
        assert len(await entries_of(conversation, "call.resolved")) == 1
    assert await problems(life) == []


async def test_notes_and_waits_are_found_again_from_a_snapshot(life: Life, bank: Bank) -> None:
    options = {"settings": Settings(snapshot_entries=1)}
    await killed(life, bank, options=options, **WAIT)
    async with life.open(Mind(), bank.tools, options=options, **WAIT) as here:
        conversation = await taken_up(here, life)
        crash(here)
    async with life.open(Mind(), bank.tools, options=options, **WAIT) as here:
        conversation = await taken_up(here, life)
        await here.advance(60)
        assert conversation.state == "idle"
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE)
        await settled(here.kernel)
        crash(here)
    mind = Mind()
    async with life.open(mind, bank.tools, options=options, **WAIT) as here:
        await (await here.kernel.get(life.id)).ask("and?")

        assert [message.text[:6] for message in mind.shown[0][-2:]] == ["A note", "and?"]
    assert await problems(life) == []


async def test_a_long_result_is_cut_for_the_model_and_kept_whole(life: Life, bank: Bank) -> None:
    await killed(life, bank, result_chars=300, **WAIT)
    mind = Mind()
    async with life.open(mind, bank.tools, result_chars=300, **WAIT) as here:
        conversation = await taken_up(here, life)
        await here.kernel.resolve(await in_doubt(here), Resolution.DONE, result="x" * 1_000)
        await until(lambda: conversation.state == "idle")
        (end,) = await entries_of(conversation, "call.finished")

        assert len(mind.results[0]) == 300
        assert mind.results[0].endswith("(1000 characters in all)")
        assert dict(end.private)["whole"] == "x" * 1_000
    assert await problems(life) == []


async def test_what_is_not_in_doubt_is_refused_and_says_why(life: Life, bank: Bank) -> None:
    mind = Mind(calls(call("look"), call("ask_helper", task="pay"), call("pay", n=1)))
    inner = Mind(hang)
    async with life.open(mind, bank.tools, others={"helper": (inner, {})}, subagents=["helper"], options={}) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: bank.inside.is_set() and inner.requests)
        await settled(here.kernel)
        found = await here.kernel.query("select tool, id from tool_calls")
        ids = dict(found.rows)

        for call_, why in {
            ids["look"]: "it is done",
            ids["pay"]: "it runs; if its process died, 'agentos run --resume'",
            ids["ask_helper"]: "it is a delegation, and conversation_",
        }.items():
            with pytest.raises(NotInDoubt, match=why):
                await here.kernel.resolve(call_, Resolution.DONE)
        for unknown in ("nonsense", call_id(conversation.id, 999)):
            with pytest.raises(UnknownCall, match="'agentos doubts' lists those in doubt"):
                await here.kernel.resolve(unknown, Resolution.DONE)
        with pytest.raises(InputRefused, match="a result goes with 'done'"):
            await here.kernel.resolve(ids["pay"], Resolution.RETRY, result="x")
        with pytest.raises(InputRefused, match="over input_bytes_max"):
            await here.kernel.resolve(ids["pay"], Resolution.DONE, result="x" * 5_000_000)
        assert await here.kernel.doubts() == []
        await conversation.interrupt()
        await asked


async def test_a_call_that_timed_out_is_in_doubt_too(life: Life, bank: Bank) -> None:
    mind = Mind(calls(call("pay", n=1)))
    async with life.open(mind, bank.tools, tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(bank.inside.is_set)
        await here.advance(5)
        await asked
        await conversation.resolve(await in_doubt(here), Resolution.DONE)
        await settled(here.kernel)

        assert [status for status, _ in await results(conversation)] == ["unknown(timeout)"]
        assert (await units(conversation))[-1] == ["call.resolved"]
    assert await problems(life) == []


async def test_no_person_is_waited_for_about_a_call_whose_result_nobody_would_read(life: Life, bank: Bank) -> None:
    """An inner call: the tool that asked for it is gone."""

    async def outer(context: CallContext) -> str:
        return (await context.call("pay", {"n": 1})).text

    tools = [*bank.tools, outer]
    mind = Mind(calls(call("outer")))
    await life.until_killed(mind, tools, lambda here: bank.inside.is_set() and here.kernel.ticker.quiet, **WAIT)
    async with life.open(Mind(), tools, **WAIT) as here:
        conversation = await taken_up(here, life)

        assert {doubt.tool: doubt.state for doubt in await here.kernel.doubts()} == {
            "pay": "unknown",
            "outer": "waiting",
        }
        for doubt in await here.kernel.doubts():
            await here.kernel.resolve(doubt.call, Resolution.DONE)
        await until(lambda: conversation.state == "idle")
        assert await here.kernel.doubts() == []
    assert await problems(life) == []
