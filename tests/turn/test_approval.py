"""Calls that need a person: who may answer, when, and what becomes of a request that nobody answers."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from agentos.components import ApprovalMode, Verdict
from agentos.definitions import PolicyRule
from agentos.errors import ConfigurationError, KernelClosed
from agentos.governance.approval import AllowAll, DenyAll
from agentos.ids import CallId, call_id
from agentos.kernel import Conversation, RunOutcome
from agentos.kernel.rest import open_requests
from agentos.persistence.memory import MemoryStore
from agentos.ports import ApprovalRequest
from tests.support import Lab, Mind, call, calls, entries_of, kinds, lab, results, settled, until

ASK = [PolicyRule(tool="send", verdict="ask")]
SENDING = calls(call("send", to="ann"))


async def send(to: str) -> str:
    """Sends it."""
    return f"sent to {to}"


async def look() -> str:
    """Looks."""
    return "seen"


async def parked(here: Lab) -> tuple[Conversation, asyncio.Task[RunOutcome], CallId]:
    """A turn that waits for a person, and the request."""
    conversation = await here.start()
    asked = asyncio.create_task(conversation.ask("go"))
    await until(lambda: conversation.state == "parked")
    (request,) = await entries_of(conversation, "approval.requested")
    return conversation, asked, call_id(conversation.id, request.call)


async def test_nobody_listens_means_no() -> None:
    mind = Mind(SENDING)
    async with lab(mind, [send], policy=ASK) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["denied(approval)"]
        assert "nobody listens" in mind.results[0]


async def test_allow_mode_asks_nobody() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="allow") as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "sent to ann")]
        assert "approval.requested" not in await kinds(conversation)


async def test_park_mode_waits_without_a_task() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park") as here:
        _, asked, request = await parked(here)

        assert len(here.kernel.runner) == 0
        assert open_requests(here.kernel) == [request]
        asked.cancel()


async def test_an_allowed_call_runs_and_says_who_allowed_it() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park") as here:
        conversation, asked, request = await parked(here)
        await conversation.answer(request, Verdict.ALLOW, by="ann")
        await asked
        (decided,) = await entries_of(conversation, "approval.decided")

        assert await results(conversation) == [("done", "sent to ann")]
        assert decided.by == "ann"


async def test_a_denied_call_does_not_run_and_the_model_reads_why() -> None:
    mind = Mind(SENDING)
    async with lab(mind, [send], policy=ASK, approval="park") as here:
        conversation, asked, request = await parked(here)
        await conversation.answer(request, Verdict.DENY, reason="too late")
        outcome = await asked

        assert outcome.completed
        assert mind.results == ["not run: denied: too late"]


async def test_the_first_answer_counts() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park") as here:
        conversation, asked, request = await parked(here)
        await conversation.answer(request, Verdict.ALLOW)
        await conversation.answer(request, Verdict.DENY)
        await asked
        await conversation.answer(request, Verdict.DENY)

        assert await results(conversation) == [("done", "sent to ann")]
        assert len(await entries_of(conversation, "approval.decided")) == 1


async def test_an_answer_to_no_request_is_refused_or_does_nothing() -> None:
    async with lab(Mind("hi")) as here:
        conversation = await here.start()
        await conversation.ask("go")
        before = await kinds(conversation)
        await conversation.answer(call_id(conversation.id, 99), Verdict.ALLOW)
        await settled(here.kernel)

        assert await kinds(conversation) == before
        with pytest.raises(ConfigurationError, match="no approval request 'yes please'"):
            await conversation.answer("yes please", Verdict.ALLOW)


async def test_a_request_that_nobody_answers_in_time_is_denied() -> None:
    mind = Mind(SENDING)
    async with lab(mind, [send], policy=ASK, approval="park", approval_s=60) as here:
        conversation, asked, _ = await parked(here)
        await here.advance(59)
        early = asked.done()
        await here.advance(1)
        outcome = await asked

        assert not early
        assert outcome.completed
        assert mind.results == ["not run: nobody answered in time"]
        assert "wake.fired" in await kinds(conversation)


async def test_an_answered_request_does_not_expire() -> None:
    door = asyncio.Event()

    async def send(to: str) -> str:
        """Sends it."""
        await door.wait()
        return f"sent to {to}"

    async with lab(Mind(SENDING), [send], policy=ASK, approval="park", approval_s=60) as here:
        conversation, asked, request = await parked(here)
        await conversation.answer(request, Verdict.ALLOW)
        await here.advance(100)
        door.set()
        await asked

        assert await results(conversation) == [("done", "sent to ann")]


async def test_a_parked_turn_ends_at_its_time_limit() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park", turn_s=60) as here:
        conversation, asked, _ = await parked(here)
        await here.advance(60)

        assert str(await asked) == "limit(time)"
        assert [status for status, _ in await results(conversation)] == ["cancelled(not_started)"]


async def test_a_parked_turn_can_be_interrupted() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park") as here:
        conversation, asked, request = await parked(here)
        await conversation.interrupt()
        outcome = await asked
        await conversation.answer(request, Verdict.ALLOW)

        assert str(outcome) == "cancelled(interrupt)"
        assert [status for status, _ in await results(conversation)] == ["cancelled(not_started)"]


async def test_no_call_of_a_reply_starts_before_all_are_decided() -> None:
    mind = Mind(calls(call("look"), call("send", to="ann"), call("send", to="bob")))
    async with lab(mind, [look, send], policy=ASK, approval="park") as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: conversation.state == "parked")
        first, second = open_requests(here.kernel)
        await conversation.answer(second, Verdict.DENY)
        await settled(here.kernel)
        halfway = await kinds(conversation)
        await conversation.answer(first, Verdict.ALLOW)
        await asked

        assert "call.started" not in halfway
        assert mind.results == ["seen", "sent to ann", "not run: denied"]


async def test_c06_a_request_stays_open_and_listed_beside_a_call_that_fails() -> None:
    async def boom() -> None:
        raise RuntimeError("broken")

    mind = Mind(calls(call("send", to="ann"), call("boom")), calls(call("send", to="bob"), call("nobody")))
    async with lab(mind, [send, boom], policy=ASK, approval="park") as here:
        conversation, asked, request = await parked(here)
        listed = open_requests(here.kernel)
        await conversation.answer(request, Verdict.ALLOW)
        await until(lambda: open_requests(here.kernel) not in ([], [request]))
        again = conversation.state
        await conversation.answer(open_requests(here.kernel)[0], Verdict.ALLOW)
        outcome = await asked

        assert listed == [request]
        assert again == "parked"
        assert outcome.completed


async def test_a_request_waits_over_a_restart_and_is_answered_by_another_process() -> None:
    store = MemoryStore()
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park", store=store) as here:
        conversation, asked, request = await parked(here)
    with pytest.raises(KernelClosed):
        await asked
    async with lab(Mind("sent, I hear"), [send], policy=ASK, approval="park", store=store, first_id=50) as here:
        (again,) = await here.kernel.recover()
        await until(lambda: again.state == "parked")
        await here.kernel.answer(request, Verdict.ALLOW)
        outcome = await here.kernel.outcome(again.id)

        assert again.id == conversation.id
        assert outcome is not None
        assert outcome.text == "sent, I hear"
        assert await results(again) == [("done", "sent to ann")]


class Person:
    """The port of this process; says what it is told."""

    def __init__(self, mode: ApprovalMode, verdict: Verdict | None = None) -> None:
        self.mode, self._verdict = mode, verdict
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Verdict | None:
        self.asked.append(request)
        return self._verdict


@pytest.mark.parametrize(("verdict", "status"), [(Verdict.ALLOW, "done"), (Verdict.DENY, "denied(approval)")])
async def test_the_port_of_the_process_answers_by_the_same_road(verdict: Verdict, status: str) -> None:
    person = Person(ApprovalMode.PARK, verdict)
    async with lab(Mind(SENDING), [send], policy=ASK, options={"approval": person}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [found for found, _ in await results(conversation)] == [status]
        assert [(request.tool, request.arguments) for request in person.asked] == [("send", {"to": "ann"})]


async def test_the_port_goes_before_the_mode_of_the_agent() -> None:
    person = Person(ApprovalMode.DENY)
    async with lab(Mind(SENDING), [send], policy=ASK, approval="allow", options={"approval": person}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [found for found, _ in await results(conversation)] == ["denied(approval)"]
        assert person.asked == []


async def test_a_port_that_raises_leaves_the_request_to_others() -> None:
    class Broken(Person):
        async def decide(self, request: ApprovalRequest) -> Verdict | None:
            raise RuntimeError("no terminal")

    options: dict[str, Any] = {"approval": Broken(ApprovalMode.PARK)}
    async with lab(Mind(SENDING), [send], policy=ASK, options=options) as here:
        conversation, asked, request = await parked(here)
        await settled(here.kernel)
        still = conversation.state
        await conversation.answer(request, Verdict.ALLOW)

        assert still == "parked"
        assert (await asked).completed


async def test_the_port_of_the_next_process_is_asked_about_what_still_waits() -> None:
    store = MemoryStore()
    async with lab(Mind(SENDING), [send], policy=ASK, approval="park", store=store) as here:
        _, asked, _ = await parked(here)
    with pytest.raises(KernelClosed):
        await asked
    options = {"approval": Person(ApprovalMode.PARK, Verdict.ALLOW)}
    async with lab(Mind(), [send], policy=ASK, store=store, first_id=50, options=options) as here:
        (again,) = await here.kernel.recover()
        await here.kernel.outcome(again.id)

        assert await results(again) == [("done", "sent to ann")]


async def test_the_port_that_allows_all_overrules_an_agent_that_has_nobody_listening() -> None:
    async with lab(Mind(SENDING), [send], policy=ASK, approval="deny", options={"approval": AllowAll()}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "sent to ann")]


async def test_the_port_that_denies_all_tells_the_agent_so() -> None:
    mind = Mind(SENDING)
    async with lab(mind, [send], policy=ASK, approval="allow", options={"approval": DenyAll()}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert "nobody listens" in mind.results[0]


async def test_a_port_that_allows_all_does_not_allow_what_a_rule_denies() -> None:
    mind = Mind(SENDING)
    rules = [PolicyRule(tool="send", verdict="deny")]
    async with lab(mind, [send], policy=rules, options={"approval": AllowAll()}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert "a rule denies send" in mind.results[0]


async def test_who_stopped_waiting_for_a_parked_turn_leaves_no_error_behind_when_the_kernel_closes() -> None:
    """An error that nobody hears any more would be told by the loop, as a fault of this program."""
    told: list[str] = []

    async def waited_for_a_while() -> None:
        async with lab(Mind(SENDING), [send], policy=ASK, approval=ApprovalMode.PARK) as here:
            conversation = await here.start()
            await conversation.send("go")
            await until(lambda: conversation.state == "parked")
            waits = asyncio.create_task(here.kernel.outcome(conversation.id))
            await settled(here.kernel)
            waits.cancel()
            await asyncio.wait([waits])

    gc.collect()  # what others left is no business of this test
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    await waited_for_a_while()
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)

    assert told == []
