"""Values that have no form in the store: each is the fault of who made it, and nobody else notices."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from agentos.components import Phase, TurnState, Verdict
from agentos.errors import CodecError
from agentos.events.entry import Draft
from agentos.events.kinds import ModelFinished
from agentos.events.model import Finish, ModelReply, ToolCall
from agentos.ids import CallId, Name
from agentos.ports import CallContext, HookVerdict
from agentos.settings import Settings
from agentos.systems.schedule import system
from agentos.world import Decision, View
from tests.support import Mind, call, calls, lab, results, settled

BAD: list[Any] = [math.nan, [math.inf], {"a": object()}, {1: "a"}, {"deep": None}]
deepest: Any = BAD[-1]
for _ in range(400):
    deepest = {"deep": deepest}
BAD[-1] = deepest
ids = ["nan", "infinity", "object", "key", "deep"]


async def take(value: Any = None) -> str:
    """Takes anything."""
    return "taken"


@pytest.mark.parametrize("value", BAD, ids=ids)
async def test_arguments_without_a_form_fail_the_turn_of_their_model_alone(value: Any) -> None:
    mind = Mind(calls(ToolCall("take", {"value": value})), "well again")
    others = {"other": (Mind(calls(call("take", value=1)), "fine"), {"toolboxes": ["box"]})}
    async with lab(mind, [take], others=others) as here:
        bad, good = await here.start(), await here.start("other")
        outcome, other = await asyncio.gather(bad.ask("go"), good.ask("go"))
        again = await bad.ask("go on")

        assert str(outcome) == "failed(model:adapter)"
        assert other.text == "fine"
        assert again.text == "well again"


@pytest.mark.parametrize("value", BAD, ids=ids)
async def test_progress_without_a_form_is_refused_to_the_tool(value: Any) -> None:
    async def work(context: CallContext) -> str:
        context.progress(value)
        return "never"

    async with lab(Mind(calls(call("work")), "I see"), [work]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.text == "I see"
        assert [status for status, _ in await results(conversation)] == ["failed(raised)"]


@pytest.mark.parametrize("value", BAD, ids=ids)
async def test_arguments_of_a_hook_without_a_form_deny(value: Any) -> None:
    class Hook:
        name = Name("hook")

        async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
            return HookVerdict(verdict=Verdict.ALLOW, arguments={"value": value})

    async with lab(Mind(calls(call("take"))), [take], options={"hooks": [Hook()]}) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert [status for status, _ in await results(conversation)] == ["denied(hook)"]


@pytest.mark.parametrize("reply", [None, "a text", ModelReply(text=None)], ids=["none", "str", "no text"])  # type: ignore[arg-type]
async def test_an_adapter_that_returns_no_reply_fails_its_turn_alone(reply: Any) -> None:
    class Odd(Mind):
        async def complete(self, request: Any, on_delta: Any) -> Any:
            return reply

    async with lab(Odd()) as here:
        outcome = await here.ask()

    assert str(outcome) == "failed(model:adapter)"


async def test_a_tool_that_tells_much_progress_at_once_is_heard() -> None:
    async def work(context: CallContext) -> str:
        for n in range(500):
            context.progress(n)
        return "worked"

    async with lab(Mind(calls(call("work"))), [work]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        await settled(here.kernel)
        kinds = [entry.data.kind for entry in await conversation.history()]

        assert kinds.count("call.progress") == 500
        assert kinds.index("call.finished") > kinds.index("call.progress") + 499


async def test_a_tool_that_changes_its_arguments_changes_nothing_that_was_said() -> None:
    async def work(items: list[int], more: dict[str, Any]) -> str:
        items.append(99)
        more.clear()
        return "worked"

    asked = {"items": [1, 2], "more": {"a": [3]}}
    mind = Mind(calls(call("work", **asked)))
    async with lab(mind, [work]) as here:
        await here.ask()

    assert mind.shown[-1][1].calls[0].arguments == {"items": [1, 2], "more": {"a": [3]}}


async def test_a_hook_that_changes_arguments_in_place_changes_nothing() -> None:
    class Hook:
        name = Name("hook")

        async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
            arguments["value"] = "changed"
            return None

    seen: list[Any] = []

    async def note(value: Any) -> str:
        """Notes it."""
        seen.append(value)
        return "noted"

    async with lab(Mind(calls(call("note", value="own"))), [note], options={"hooks": [Hook(), Hook()]}) as here:
        await here.ask()

    assert seen == ["own"]


async def test_a_system_whose_decision_cannot_be_written_costs_its_own_conversation_alone() -> None:
    @system(over=TurnState, phase=Phase.PROMPT, after="admit")
    def odd(view: View, turn: int) -> Decision:
        if view.transcript.messages[-1].text != "odd":
            return Decision.none()
        data = ModelFinished(finish=Finish.ERROR)
        return Decision((Draft(data=data, turn=turn, private=(("text", object()),)),))

    mind = Mind("fine", "fine")
    async with lab(mind, options={"systems": [odd], "settings": Settings(pass_decisions_max=20)}) as here:
        here.kernel.ticker.after_tick = None
        bad, good = await here.start(), await here.start()
        told, other = await asyncio.gather(bad.ask("odd"), good.ask("even"), return_exceptions=True)

        assert isinstance(told, CodecError)
        assert getattr(other, "text", None) == "fine"
        assert (await bad.ask("even")).text == "fine"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


async def test_an_exception_without_words_is_a_failure_like_any_other() -> None:
    async def work() -> None:
        raise Unspeakable

    async with lab(Mind(calls(call("work")), "I see"), [work]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.text == "I see"
        assert [status for status, _ in await results(conversation)] == ["failed(raised)"]
