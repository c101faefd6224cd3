"""What is decided on a call before it runs: grant, schema, policy; and what the model reads when it may not."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.components import ToolboxBinding, ToolboxSharing
from agentos.definitions import PolicyRule
from agentos.errors import ConfigurationError
from agentos.events.model import ToolCall
from agentos.ids import Kind, agent_id
from agentos.toolboxes.python import PythonToolbox
from tests.support import Mind, call, calls, kinds, lab, results

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def get_date(zone: str = "UTC") -> str:
    """Tells the date."""
    ran.append(zone)
    return f"today in {zone}"


async def get_time(zone: str) -> str:
    """Tells the time."""
    ran.append(zone)
    return f"now in {zone}"


async def send(to: str) -> str:
    """Sends it."""
    ran.append(to)
    return "sent"


TOOLS = [get_date, get_time, send]


async def test_all_calls_of_a_reply_are_judged_before_any_starts() -> None:
    mind = Mind(calls(call("get_date"), call("get_tiem", zone="x"), call("send", to="ann")))
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        await conversation.ask("go")
        told = await kinds(conversation)

        assert told.index("call.started") > max(n for n, kind in enumerate(told) if kind == "call.proposed")
        assert [status for status, _ in await results(conversation)] == ["failed(unknown_tool)", "done", "done"]
        assert mind.results[0] == "today in UTC"


async def test_a_reply_with_nothing_but_refused_calls_goes_straight_back_to_the_model() -> None:
    mind = Mind(calls(call("nothing"), call("nobody")), "sorry")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.text == "sorry"
        assert len(mind.results) == 2
        assert "call.started" not in await kinds(conversation)


async def test_c44_an_unknown_tool_is_answered_with_near_names_and_all_names() -> None:
    mind = Mind(calls(call("get_dat")), calls(call("get_date")), "there")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        (_, text), *_ = await results(conversation)
        assert "no tool 'get_dat'" in text
        assert "Did you mean get_date" in text
        assert "The tools are: get_date, get_time, send" in text
        assert outcome.text == "there"


@pytest.mark.parametrize("name", ["GET_DATE", "box.get_date", "", "a b", "x" * 600, "get_date\0", "日付"])
async def test_f47_a_name_that_only_looks_like_a_tool_is_unknown(name: str) -> None:
    mind = Mind(calls(ToolCall(name)), "never mind")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert ran == []
        assert [status for status, _ in await results(conversation)] == ["failed(unknown_tool)"]


async def test_f47_the_tool_of_another_agent_is_unknown() -> None:
    mind = Mind(calls(call("send", to="ann")))
    async with lab(mind, TOOLS) as here:
        here.kernel.unbind("main", "box")
        conversation = await here.start()
        await conversation.ask("go")

        ((status, text),) = await results(conversation)
        assert status == "failed(unknown_tool)"
        assert "The tools are: none" in text
        assert ran == []


async def test_a_tool_that_is_shown_but_not_granted_is_denied() -> None:
    mind = Mind(calls(call("send", to="ann"), call("get_date")))
    async with lab(mind, TOOLS) as here:
        here.kernel.bind("main", "box", expose=["*"], grant=["get_*"])
        conversation = await here.start()
        await conversation.ask("go")

        assert [tool.name for tool in mind.requests[0].context.tools] == ["get_date", "get_time", "send"]
        assert [status for status, _ in await results(conversation)] == ["denied(grant)", "done"]
        assert mind.results[0] == "not run: this agent may not call send"
        assert ran == ["UTC"]


async def test_a_tool_that_is_granted_but_not_shown_runs() -> None:
    mind = Mind(calls(call("send", to="ann")))
    async with lab(mind, TOOLS) as here:
        here.kernel.bind("main", "box", expose=["get_date"], grant=["*"])
        conversation = await here.start()
        await conversation.ask("go")

        assert [tool.name for tool in mind.requests[0].context.tools] == ["get_date"]
        assert await results(conversation) == [("done", "sent")]


@pytest.mark.parametrize("empty", ["", "  \n", None, {}])
async def test_c12_empty_arguments_of_any_form_are_no_arguments(empty: Any) -> None:
    mind = Mind(calls(ToolCall("get_date", empty)))
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert await results(conversation) == [("done", "today in UTC")]


@pytest.mark.parametrize("empty", ["", "  \n", None, {}])
async def test_c12_empty_arguments_name_the_parameter_that_is_missing(empty: Any) -> None:
    mind = Mind(calls(ToolCall("get_time", empty)), "I see")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        ((status, text),) = await results(conversation)
        assert status == "failed(invalid)"
        assert '"zone" is a required property' in text
        assert outcome.completed
        assert ran == []


@pytest.mark.parametrize(
    "arguments", ["{", "[]", "[1]", "null", 7, ["zone"], {"zone": 7}, {"zone": "UTC", "more": 1}, '{"zone": "UTC"}{}']
)
async def test_arguments_that_do_not_fit_run_nothing(arguments: Any) -> None:
    mind = Mind(calls(ToolCall("get_time", arguments)), "I see")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["failed(invalid)"]
        assert outcome.completed
        assert ran == []


async def test_a_rule_that_denies_goes_before_all_others() -> None:
    policy = [PolicyRule(tool="*", verdict="allow"), PolicyRule(tool="se?d", verdict="deny")]
    mind = Mind(calls(call("send", to="ann"), call("get_date")))
    async with lab(mind, TOOLS, policy=policy) as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["denied(policy)", "done"]
        assert mind.results[0] == "not run: a rule denies send"


async def test_arguments_are_checked_before_rules_and_rules_before_anybody_is_asked() -> None:
    policy = [PolicyRule(tool="*", verdict="deny")]
    mind = Mind(calls(ToolCall("get_time", {"zone": 7})))
    async with lab(mind, TOOLS, policy=policy, approval="park") as here:
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["failed(invalid)"]


async def test_an_edited_agent_is_in_force_from_its_next_turn_on() -> None:
    async def edit(_: object) -> Any:
        here.kernel.unbind("main", "box")
        return calls(call("get_date"))

    mind = Mind(edit, "one", calls(call("get_date")), "two")
    async with lab(mind, TOOLS) as here:
        conversation = await here.start()
        await conversation.ask("go")
        await conversation.ask("go on")

        assert [status for status, _ in await results(conversation)] == ["done", "failed(unknown_tool)"]


async def test_two_tools_of_one_name_are_never_silent() -> None:
    other = PythonToolbox("other", [get_date], ToolboxSharing.STATELESS)
    async with lab(Mind("hi"), TOOLS, toolboxes=[other]) as here:
        with pytest.raises(ConfigurationError, match="named get_date: of toolbox other and of toolbox box"):
            await here.ask()


async def test_the_world_tells_which_toolboxes_an_agent_is_bound_to() -> None:
    async with lab(Mind(), [get_date]) as here:
        (box,) = here.kernel.world.entities(Kind.TOOLBOX)
        bound = here.kernel.world.get(agent_id("main"), ToolboxBinding)
        here.kernel.unbind("main", "box")
        unbound = here.kernel.world.get(agent_id("main"), ToolboxBinding)

        assert bound is not None
        assert unbound is not None
        assert (bound.toolboxes, unbound.toolboxes) == ((box,), ())
