"""Turns at once: how many are at work, who waits, and that the wait is bounded, fair and stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agentos.components import Verdict
from agentos.errors import ConversationBusy
from agentos.events.model import ModelRequest
from agentos.history import Identical, replay_all
from agentos.kernel import Conversation, RunOutcome
from agentos.ports import CallContext
from agentos.settings import Settings
from tests.support import Lab, Life, Mind, call, calls, crash, hang, kinds, lab, settled

Others = dict[str, tuple[Mind, Mapping[str, Any]]]


class Desk:
    """A model that answers when it is told to, one request after the other."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = self._now = 0
        self._doors: list[asyncio.Future[None]] = []

    async def reply(self, request: ModelRequest) -> Any:
        self.asked.append(request.messages[-1].text)
        self._now += 1
        self.most = max(self.most, self._now)
        door: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._doors.append(door)
        try:
            await door
        finally:
            self._now -= 1
        return "done"

    def answer(self) -> bool:
        """Lets the oldest request end. False when there is none."""
        while self._doors:
            door = self._doors.pop(0)
            if not door.done():
                door.set_result(None)
                return True
        return False

    def mind(self, replies: int = 100) -> Mind:
        return Mind(*[self.reply] * replies)


async def asking(
    here: Lab, *texts: str, agent: str = "main"
) -> tuple[list[Conversation], list[asyncio.Task[RunOutcome]]]:
    """A new conversation for each text, asked in this order."""
    conversations = [await here.kernel.start(agent) for _ in texts]
    asked = []
    for conversation, text in zip(conversations, texts, strict=True):
        asked.append(asyncio.create_task(conversation.ask(text)))
        await settled(here.kernel)
    return conversations, asked


async def answer_all(here: Lab, *desks: Desk) -> None:
    while sum(desk.answer() for desk in desks):
        await settled(here.kernel)


def bounded(**settings: Any) -> dict[str, Any]:
    return {"settings": Settings(**settings)}


async def test_no_more_turns_are_at_work_than_turns_max_and_the_others_begin_in_their_order() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=2)) as here:
        conversations, asked = await asking(here, *"abcde")
        states = [await here.kernel.state_now(one.id) for one in conversations]
        await answer_all(here, desk)
        outcomes = await asyncio.gather(*asked)

        assert states == ["running", "running", "waiting", "waiting", "waiting"]
        assert (desk.most, desk.asked) == (2, list("abcde"))
        assert {outcome.outcome.value for outcome in outcomes} == {"completed"}


async def test_an_input_is_stored_while_its_turn_waits_and_the_turn_has_not_begun() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=1)) as here:
        (_, second), asked = await asking(here, "a", "b")
        stored = await kinds(second)
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        assert stored == ["conversation.started", "input.received"]
        assert (await kinds(second))[2:] == ["turn.started", "model.requested", "model.finished", "turn.finished"]


async def test_a_turn_that_waited_replays_as_it_was() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=1)) as here:
        conversations, asked = await asking(here, "a", "b")
        await conversations[0].send("a2")
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        replayed = [one async for one in replay_all(here.kernel.store)]
        assert [type(one) for one in replayed].count(Identical) == 2


async def test_a_parked_turn_holds_no_place_and_waits_for_one_before_it_goes_on() -> None:
    ran: list[str] = []

    async def pay() -> str:
        ran.append("pay")
        return "paid"

    desk = Desk()
    mind = Mind(calls(call("pay")), *[desk.reply] * 10)
    policy = [{"tool": "pay", "verdict": "ask"}]
    async with lab(mind, [pay], options=bounded(turns_max=1), policy=policy, approval="park") as here:
        (first,), (one,) = await asking(here, "buy")
        parked = await here.kernel.state_now(first.id)
        (second,), (two,) = await asking(here, "chat")
        request = (await here.kernel.query("select id from tool_calls")).rows[0][0]
        await here.kernel.answer(str(request), Verdict.ALLOW)
        await settled(here.kernel)
        held = (await here.kernel.state_now(first.id), await here.kernel.state_now(second.id), list(ran))
        await answer_all(here, desk)
        await asyncio.gather(one, two)

        assert parked == "parked"
        assert held == ("waiting", "running", [])
        assert (ran, desk.most) == (["pay"], 1)


async def test_an_input_to_a_parked_turn_is_stored_at_once_also_while_its_answer_waits() -> None:
    async def pay() -> str:
        return "paid"

    desk = Desk()
    mind = Mind(calls(call("pay")), *[desk.reply] * 10)
    policy = [{"tool": "pay", "verdict": "ask"}]
    async with lab(mind, [pay], options=bounded(turns_max=1), policy=policy, approval="park") as here:
        (first,), (one,) = await asking(here, "buy")
        _, (two,) = await asking(here, "chat")
        request = (await here.kernel.query("select id from tool_calls")).rows[0][0]
        await here.kernel.answer(str(request), Verdict.ALLOW)
        seq = await first.send("and hurry")
        last = (await first.history())[-1]
        await answer_all(here, desk)
        await asyncio.gather(one, two)
        await answer_all(here, desk)

        assert (last.seq, last.data.kind) == (seq, "input.received")
        assert (await kinds(first)).count("turn.finished") == 2


async def test_a_delegating_turn_gives_its_place_to_the_one_that_it_waits_for() -> None:
    helper = Mind("helped")
    mind = Mind(calls(call("ask_helper", task="help")), "thanks")
    others: Others = {"helper": (helper, {})}
    async with lab(mind, options=bounded(turns_max=1), others=others, subagents=["helper"]) as here:
        outcome = await here.ask()

        assert (outcome.outcome.value, outcome.text) == ("completed", "thanks")


async def test_what_a_running_call_asks_of_others_goes_by_its_place_or_nobody_could_go_on() -> None:
    async def delegate(ctx: CallContext) -> str:
        return (await ctx.call("ask_helper", {"task": "help"})).text

    helper = Mind(calls(call("ask_third", task="more")), "helped")
    others: Others = {"helper": (helper, {"subagents": ["third"]}), "third": (Mind("third"), {})}
    mind = Mind(calls(call("delegate")), "thanks")
    options = bounded(turns_max=1, calls_max=1)
    async with lab(mind, [delegate], options=options, others=others, subagents=["helper"]) as here:
        outcome = await here.ask()

        assert (outcome.outcome.value, outcome.text) == ("completed", "thanks")
        assert [mind.results for mind in (mind, helper)] == [["helped"], ["third"]]


async def test_a_turn_that_waits_is_cancelled_paused_and_closed_without_a_place() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=1)) as here:
        conversations, asked = await asking(here, "a", "b", "c")
        await conversations[1].pause()
        await settled(here.kernel)
        states = [await here.kernel.state_now(one.id) for one in conversations]
        await answer_all(here, desk)
        await conversations[1].unpause()
        await settled(here.kernel)
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        assert states == ["running", "paused", "waiting"]
        assert desk.asked == ["a", "c", "b"]


async def test_one_more_waiting_turn_than_waiting_turns_max_is_refused_and_nothing_is_stored() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=1, waiting_turns_max=2)) as here:
        conversations, asked = await asking(here, "a", "b", "c")
        late = await here.start()
        with pytest.raises(ConversationBusy) as refused:
            await late.send("d")
        await conversations[1].send("b2")  # it waits already
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        assert (refused.value.waiting, refused.value.turns_max) == (2, 2)
        for words in (late.id, "waiting_turns_max", "raise turns_max", "send again"):
            assert words in str(refused.value)
        assert await kinds(late) == ["conversation.started"]


async def test_the_bound_of_an_agent_file_holds_for_its_turns_alone() -> None:
    desk, other = Desk(), Desk()
    others: Others = {"other": (other.mind(), {})}
    async with lab(desk.mind(), others=others, turns_at_once=1) as here:
        _, mine = await asking(here, *"abc")
        _, theirs = await asking(here, *"xyz", agent="other")
        now = (desk.most, other.most)
        await answer_all(here, desk, other)
        await asyncio.gather(*mine, *theirs)

        assert (now, desk.most) == ((1, 3), 1)


async def test_an_agent_with_many_turns_delays_the_one_of_another_by_its_fair_share() -> None:
    noisy, quiet = Desk(), Desk()
    others: Others = {"quiet": (quiet.mind(), {})}
    async with lab(noisy.mind(), others=others, options=bounded(turns_max=2)) as here:
        _, many = await asking(here, *map(str, range(40)))
        _, (one,) = await asking(here, "please", agent="quiet")
        before, waiting = len(noisy.asked), here.kernel.turns_waiting
        while not quiet.asked:
            noisy.answer()
            await settled(here.kernel)
        later = len(noisy.asked) - before
        await answer_all(here, noisy, quiet)
        await asyncio.gather(*many, one)

        assert (waiting, later) == (39, 1)


async def test_an_ended_turn_lets_those_who_wait_come_before_the_next_of_its_conversation() -> None:
    desk = Desk()
    async with lab(desk.mind(), options=bounded(turns_max=1)) as here:
        conversations, asked = await asking(here, "a1", "b1")
        await conversations[0].send("a2")
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        assert desk.asked == ["a1", "b1", "a2"]


async def test_turns_of_a_dead_process_are_taken_up_within_the_bound() -> None:
    life, desk = Life(), Desk()
    options = bounded(turns_max=1)
    asked: list[asyncio.Task[RunOutcome]] = []
    async with life.open(Mind(*[hang] * 5)) as here:
        conversations, asked = await asking(here, *"abc")
        crash(here)
    await asyncio.gather(*asked, return_exceptions=True)
    async with life.open(desk.mind(), options=options) as here:
        await here.kernel.recover()
        await settled(here.kernel)
        first = len(desk.asked)
        await answer_all(here, desk)
        states = [await here.kernel.state_now(one.id) for one in conversations]

        assert (first, desk.most, len(desk.asked)) == (1, 1, 3)
        assert states == ["idle"] * 3
