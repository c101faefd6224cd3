"""User code that is asked about each call: what it may say, and what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import CallStatus, GivenEnd, Verdict
from agentos.definitions import PolicyRule
from agentos.events.kinds import CallFinished, CallSource, HookDecided
from agentos.history import Identical, replay_log
from agentos.ids import CallId, Name
from agentos.ports import HookVerdict
from tests.support import Life, Mind, call, calls, entries_of, hang, kinds, lab, results, settled, until

ALLOW, ASK, DENY = (HookVerdict(verdict=verdict) for verdict in (Verdict.ALLOW, Verdict.ASK, Verdict.DENY))


class Saying:
    """A hook that says what it is told, or does it."""

    def __init__(self, said: Any, name: str = "guard") -> None:
        self.name = Name(name)
        self.said = said
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
        self.asked.append((tool, arguments))
        if isinstance(self.said, BaseException):
            raise self.said
        if isinstance(self.said, asyncio.Event):
            await self.said.wait()
            return ALLOW
        found: HookVerdict | None = self.said
        return found


async def send(to: str) -> str:
    """Sends it."""
    return f"sent to {to}"


SENDING = calls(call("send", to="ann"))


async def statuses(*hooks: Saying, **spec: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """The ends and the kinds of one turn that wants to send."""
    async with lab(Mind(SENDING), [send], options={"hooks": hooks}, **spec) as here:
        conversation = await here.start()
        await conversation.ask("go")
        return await results(conversation), await kinds(conversation)


async def test_a_hook_that_allows_lets_the_call_run() -> None:
    hook = Saying(ALLOW)
    ended, told = await statuses(hook)

    assert ended == [("done", "sent to ann")]
    assert hook.asked == [("send", {"to": "ann"})]
    assert told.index("call.proposed") < told.index("hook.decided") < told.index("call.started")


async def test_a_hook_that_says_nothing_leaves_the_call_to_the_policy() -> None:
    ended, _ = await statuses(Saying(None), policy=[PolicyRule(tool="send", verdict="deny")])

    assert ended == [("denied(policy)", "not run: a rule denies send")]


async def test_a_hook_that_denies_says_why_to_the_model() -> None:
    ended, told = await statuses(Saying(HookVerdict(verdict=Verdict.DENY, reason="not on a Sunday")))

    assert ended == [("denied(hook)", "not run: not on a Sunday")]
    assert "call.started" not in told


async def test_a_hook_may_satisfy_an_ask_of_the_policy_but_never_a_deny() -> None:
    asked, _ = await statuses(Saying(ALLOW), policy=[PolicyRule(tool="send", verdict="ask")])
    denied, _ = await statuses(Saying(ALLOW), policy=[PolicyRule(tool="send", verdict="deny")])

    assert [status for status, _ in asked] == ["done"]
    assert [status for status, _ in denied] == ["denied(policy)"]


async def test_a_hook_that_asks_needs_a_person() -> None:
    nobody, _ = await statuses(Saying(ASK))
    everybody, _ = await statuses(Saying(ASK), approval="allow")

    assert [status for status, _ in nobody] == ["denied(approval)"]
    assert [status for status, _ in everybody] == ["done"]


async def test_a_hook_that_asks_parks_the_turn_where_a_person_listens() -> None:
    async with lab(Mind(SENDING), [send], options={"hooks": [Saying(ASK)]}, approval="park") as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: conversation.state == "parked")
        (request,) = await entries_of(conversation, "approval.requested")
        await conversation.answer(f"call_{conversation.id.removeprefix('conversation_')}_{request.call}", Verdict.ALLOW)
        await asked

        assert await results(conversation) == [("done", "sent to ann")]


async def test_a_hook_may_change_the_arguments_and_the_next_one_sees_them() -> None:
    changing = Saying(HookVerdict(arguments={"to": "bob"}), "changing")
    later = Saying(None, "later")
    ended, _ = await statuses(changing, later)

    assert ended == [("done", "sent to bob")]
    assert later.asked == [("send", {"to": "bob"})]


async def test_the_changed_arguments_are_stored_and_the_models_own_stay_in_the_history() -> None:
    mind = Mind(SENDING)
    async with lab(mind, [send], options={"hooks": [Saying(HookVerdict(arguments={"to": "bob"}))]}) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (decided,) = await entries_of(conversation, "hook.decided")

        assert dict(decided.private)["arguments"] == {"to": "bob"}
        assert mind.shown[-1][1].calls[0].arguments == {"to": "ann"}


async def test_arguments_of_a_hook_are_checked_like_those_of_a_model() -> None:
    ended, _ = await statuses(Saying(HookVerdict(arguments={"to": 7})))

    ((status, text),) = ended
    assert status == "failed(invalid)"
    assert "a hook's arguments for send are wrong" in text


async def test_a_hook_that_denies_beats_one_that_asks_and_that_beats_one_that_allows() -> None:
    denied, _ = await statuses(Saying(ALLOW, "a"), Saying(DENY, "b"), Saying(ASK, "c"), approval="allow")
    asked, _ = await statuses(Saying(ASK, "a"), Saying(ALLOW, "b"))

    assert [status for status, _ in denied] == ["denied(hook)"]
    assert [status for status, _ in asked] == ["denied(approval)"]


@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit(1), asyncio.CancelledError()])
async def test_a_hook_that_raises_denies(error: BaseException) -> None:
    ended, _ = await statuses(Saying(error))

    assert [status for status, _ in ended] == ["denied(hook)"]


async def test_a_hook_that_never_answers_denies_after_the_time_limit() -> None:
    async with lab(Mind(SENDING), [send], options={"hooks": [Saying(asyncio.Event())]}, tool_s=9) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(9)
        await asked

        assert [status for status, _ in await results(conversation)] == ["denied(hook)"]


async def test_hooks_are_not_asked_about_calls_that_may_not_run_anyway() -> None:
    hook = Saying(ALLOW)
    mind = Mind(calls(call("nothing"), call("send", wrong=1), call("send", to="ann")))
    async with lab(mind, [send], options={"hooks": [hook]}) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert len(hook.asked) == 1
        assert len(mind.results) == 3


async def test_no_call_starts_while_a_hook_thinks_about_another() -> None:
    door = asyncio.Event()
    started: list[Callable[[], bool]] = []

    class Slow(Saying):
        async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
            if arguments["to"] == "ann":
                await door.wait()
            return ALLOW

    async def note(to: str) -> str:
        """Notes it."""
        started.append(lambda: True)
        return to

    mind = Mind(calls(call("note", to="ann"), call("note", to="bob")))
    async with lab(mind, [note], options={"hooks": [Slow(None)]}) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        before = len(started)
        door.set()
        await asked

        assert before == 0
        assert mind.results == ["ann", "bob"]


async def test_an_interrupt_while_a_hook_thinks_ends_the_turn() -> None:
    async with lab(Mind(SENDING), [send], options={"hooks": [Saying(asyncio.Event())]}) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        await conversation.interrupt()
        outcome = await asked

        assert str(outcome) == "cancelled(interrupt)"
        assert [status for status, _ in await results(conversation)] == ["cancelled(not_started)"]


async def test_a_hook_may_give_the_result_and_nothing_runs() -> None:
    mind = Mind(SENDING)
    given = HookVerdict(given=GivenEnd(text="it was sent before"))
    async with lab(mind, [send], options={"hooks": [Saying(given, "record")]}) as here:
        conversation = await here.start()
        await conversation.ask("go")
        (decided,) = await entries_of(conversation, "hook.decided")
        (end,) = await entries_of(conversation, "call.finished")
        replayed = await replay_log(here.kernel.store, conversation.id)

        assert mind.results == ["it was sent before"]
        assert "call.started" not in await kinds(conversation)
        assert isinstance(decided.data, HookDecided)
        assert isinstance(end.data, CallFinished)
        assert (decided.by, decided.data.given, end.by, end.data.source) == ("record", True, "record", CallSource.HOOK)
        assert isinstance(replayed, Identical)


@pytest.mark.parametrize(
    ("given", "ended"),
    [
        (GivenEnd(text="no such", status=CallStatus.FAILED, kind=Name("error")), ("failed(error)", "no such")),
        (GivenEnd(text="x" * 300), ("done", f"{'x' * 172}\n... (300 characters in all)")),
    ],
)
async def test_a_given_end_has_a_status_and_is_shown_as_far_as_any_result(
    given: GivenEnd, ended: tuple[str, str]
) -> None:
    async with lab(
        Mind(SENDING), [send], options={"hooks": [Saying(HookVerdict(given=given))]}, result_chars=200
    ) as here:
        conversation = await here.start()
        await conversation.ask("go")
        replayed = await replay_log(here.kernel.store, conversation.id)

        assert await results(conversation) == [ended]
        assert isinstance(replayed, Identical)


async def test_a_given_result_lifts_no_rule_that_denies() -> None:
    given = Saying(HookVerdict(given=GivenEnd(text="sent")))
    ended, _ = await statuses(given, policy=[PolicyRule(tool="send", verdict="deny")])

    assert [status for status, _ in ended] == ["denied(policy)"]


async def test_a_hook_that_the_turn_pins_and_that_is_gone_denies() -> None:
    life = Life()
    mind = Mind(lambda _request: hang())
    await life.until_killed(mind, [send], lambda _here: mind.requests, options={"hooks": [Saying(ALLOW)]})
    async with life.open(Mind(SENDING), [send]) as here:
        conversation, _ = await life.recovered(here)

        assert await results(conversation) == [
            ("denied(hook)", "not run: hook guard guards this turn, and is not here")
        ]
