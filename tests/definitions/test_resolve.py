"""From agents and toolboxes to the context that a turn pins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentos import codec
from agentos.components import AgentContext, ApprovalMode, EffectClass, Narrowing, Rule, TurnLimits, Verdict
from agentos.definitions import AgentSpec, SubagentUse, ToolboxUse, wire
from agentos.definitions.narrowing import narrowed
from agentos.definitions.resolve import TASK_SCHEMA, resolve
from agentos.errors import ConfigurationError, UnknownToolbox
from agentos.ids import Digest, Name, agent_id
from agentos.settings import Settings
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.python import PythonToolbox, tool
from agentos.toolboxes.unavailable import UnavailableToolbox


@tool(effect="idempotent")
def write(text: str) -> None:
    """Writes."""


def read() -> None:
    """Reads."""


def read_all() -> None:
    """Reads all."""


def box(name: str, *functions: Any) -> tuple[Name, Toolbox]:
    return Name(name), PythonToolbox(name, functions)


BOXES = dict([box("notes", write, read, read_all), box("other", lambda_named := tool(name="count")(lambda: 1))])


def resolved(spec: AgentSpec, *others: AgentSpec, boxes: Mapping[Name, Toolbox] = BOXES, **more: Any) -> AgentContext:
    agents = {Name(other.slug): other for other in (spec, *others)}
    return resolve(spec, toolboxes=boxes, agents=agents, settings=Settings(), **more)


def names(tools: Any) -> list[str]:
    return [tool.name for tool in tools]


def test_the_context_holds_all_that_a_turn_needs() -> None:
    spec = AgentSpec(
        slug="lead",
        system_prompt="Lead.",
        toolboxes=["other", "notes"],
        step_limit=3,
        policy=[{"tool": "write", "verdict": "ask"}],  # type: ignore[list-item]
        approval=ApprovalMode.PARK,
    )

    context = resolved(spec, rules=Digest("r"))

    assert (context.agent, context.slug, context.prompt) == (agent_id("lead"), "lead", ("Lead.",))
    assert context.limits == TurnLimits(step_limit=3)
    assert names(context.tools) == ["count", "read", "read_all", "write"]
    assert [tool.toolbox for tool in context.tools] == ["other", "notes", "notes", "notes"]
    assert context.granted == ("count", "read", "read_all", "write")
    assert context.hidden == ()
    assert context.policy == (Rule(tool="write", verdict=Verdict.ASK),)
    assert (context.approval, context.depth_max, context.rules) == (ApprovalMode.PARK, Settings().depth_max, "r")


def test_exposed_and_granted_are_two_sets() -> None:
    use = ToolboxUse(name="notes", expose=["read*"], grant=["read", "write"])

    context = resolved(AgentSpec(slug="a", toolboxes=[use]))

    assert names(context.tools) == ["read", "read_all"]
    assert names(context.hidden) == ["write"]
    assert context.granted == ("read", "write")


def test_what_is_exposed_is_granted_unless_told_otherwise() -> None:
    context = resolved(AgentSpec(slug="a", toolboxes=[ToolboxUse(name="notes", expose=["read"])]))

    assert (names(context.tools), context.hidden, context.granted) == (["read"], (), ("read",))


def test_each_subagent_is_a_tool_that_takes_a_task() -> None:
    spec = AgentSpec(slug="a", subagents=["b", SubagentUse(slug="c", session="reuse", description="See c.")])  # type: ignore[arg-type]
    others = AgentSpec(slug="b", announce="Knows birds."), AgentSpec(slug="c", announce="Knows cats.")

    one, two = resolved(spec, *others).tools

    assert (one.name, one.description, one.subagent, one.toolbox, one.reuse) == (
        "ask_b",
        "Knows birds.",
        "b",
        None,
        False,
    )
    assert (two.name, two.description, two.subagent, two.reuse) == ("ask_c", "See c.", "c", True)
    assert one.schema == TASK_SCHEMA


def test_a_subagents_tool_may_have_another_name_and_carry_what_it_leaves_to_the_child() -> None:
    use = SubagentUse(slug="b", tool="io_prompt_agent_b", grant=["read*"], input="history", history_messages=7)

    (one,) = resolved(AgentSpec(slug="a", subagents=[use]), AgentSpec(slug="b", toolboxes=["notes"])).tools

    assert (one.name, one.history) == ("io_prompt_agent_b", 7)
    assert one.narrowing == Narrowing(grant=(Name("read*"),))


def test_a_subagent_without_narrowing_and_history_is_as_it_was_in_older_stores() -> None:
    (one,) = resolved(AgentSpec(slug="a", subagents=["b"]), AgentSpec(slug="b")).tools

    assert codec.decode_json(codec.encode_struct(one).decode()).keys() == {"name", "description", "schema", "subagent"}


def test_agents_may_ask_each_other_and_themselves() -> None:
    one, two = AgentSpec(slug="a", subagents=["a", "b"]), AgentSpec(slug="b", subagents=["a"])

    assert names(resolved(one, two).tools) == ["ask_a", "ask_b"]
    assert names(resolved(two, one).tools) == ["ask_a"]
    assert resolved(one, two).tools[0].description == "Asks the agent a."


def test_a_leaf_asks_nobody_and_keeps_its_other_tools() -> None:
    context = resolved(AgentSpec(slug="a", subagents=["a"], toolboxes=["other"]), leaf=True)

    assert names(context.tools) == ["count"]
    assert context.granted == ("count",)


def test_effects_can_be_overridden_by_the_agent() -> None:
    context = resolved(AgentSpec(slug="a", toolboxes=["notes"], effects={"read": EffectClass.PURE}))

    assert {tool.name: tool.effect for tool in context.tools} == {
        "read": EffectClass.PURE,
        "read_all": EffectClass.ONCE,
        "write": EffectClass.IDEMPOTENT,
    }


def test_the_context_is_the_same_again_and_survives_storing() -> None:
    spec = AgentSpec(slug="a", toolboxes=["notes", "other"], subagents=["a"])

    body = codec.encode_struct(resolved(spec))

    assert body == codec.encode_struct(resolved(spec))
    assert codec.convert(codec.decode_json(body.decode()), AgentContext) == resolved(spec)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (AgentSpec(slug="a", toolboxes=["note"]), "agent a: no toolbox 'note' is open; open: notes, other"),
        (AgentSpec(slug="a", subagents=["aa"]), "agent a: no subagent 'aa' is installed; did you mean a"),
        (
            AgentSpec(slug="a", toolboxes=[ToolboxUse(name="notes", expose=["reed"])]),
            "agent a: expose: toolbox notes has no tool 'reed'; did you mean read",
        ),
        (
            AgentSpec(slug="a", toolboxes=[ToolboxUse(name="notes", grant=["x"])]),
            "agent a: grant: toolbox notes has no tool 'x'",
        ),
        (
            AgentSpec(slug="a", toolboxes=["notes"], effects={"wrte": EffectClass.PURE}),
            "agent a: effects: this agent has no tool 'wrte'; did you mean write",
        ),
        (
            AgentSpec(slug="a", toolboxes=["notes", "notes"]),
            "agent a: two tools are named read: of toolbox notes and of toolbox notes",
        ),
        (
            AgentSpec(slug="a", toolboxes=["notes"], subagents=[SubagentUse(slug="a", grant=["reed"])]),
            "agent a: grant: agent a has no tool 'reed'; did you mean read",
        ),
        (
            AgentSpec(slug="a", toolboxes=["notes"], subagents=[SubagentUse(slug="a", expose=["ask_b"])]),
            "agent a: expose: agent a has no tool 'ask_b'; did you mean ask_a",
        ),
        (
            AgentSpec(slug="a", subagents=[SubagentUse(slug="a", tool="x"), SubagentUse(slug="a", tool="x")]),
            "agent a: two tools are named x: of subagent a and of subagent a",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(spec: AgentSpec, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolved(spec)

    assert str(caught.value).startswith(why)


def test_an_unknown_toolbox_has_its_own_error() -> None:
    with pytest.raises(UnknownToolbox) as caught:
        resolved(AgentSpec(slug="a", toolboxes=["gone"]))

    assert caught.value.toolbox == "gone"


def test_one_name_in_two_places_is_an_error_that_names_both() -> None:
    boxes = dict([box("one", read), box("two", read), box("three", tool(name="ask_a")(lambda: None))])

    with pytest.raises(ConfigurationError, match="two tools are named read: of toolbox one and of toolbox two"):
        resolved(AgentSpec(slug="a", toolboxes=["one", "two"]), boxes=boxes)
    with pytest.raises(ConfigurationError, match="two tools are named ask_a: of toolbox three and of subagent a"):
        resolved(AgentSpec(slug="a", toolboxes=["three"], subagents=["a"]), boxes=boxes)


def test_two_boxes_may_share_a_name_that_only_one_of_them_shows() -> None:
    boxes = dict([box("one", read, write), box("two", read)])
    spec = AgentSpec(slug="a", toolboxes=[ToolboxUse(name="one", expose=["write"]), "two"])

    assert [(tool.name, tool.toolbox) for tool in resolved(spec, boxes=boxes).tools] == [
        ("read", "two"),
        ("write", "one"),
    ]


def test_wiring_tells_the_problems_of_all_agents() -> None:
    agents = {Name("a"): AgentSpec(slug="a", toolboxes=["x"]), Name("b"): AgentSpec(slug="b", subagents=["y", "a"])}

    with pytest.raises(ConfigurationError) as caught:
        wire(agents, toolboxes=BOXES, settings=Settings())

    assert [line.split(";")[0] for line in str(caught.value).splitlines()] == [
        "agent a: no toolbox 'x' is open",
        "agent b: no subagent 'y' is installed",
    ]


def test_wiring_resolves_all_agents() -> None:
    agents = {Name("a"): AgentSpec(slug="a", subagents=["b"]), Name("b"): AgentSpec(slug="b", subagents=["a"])}

    contexts = wire(agents, toolboxes={}, settings=Settings())

    assert {slug: names(context.tools) for slug, context in contexts.items()} == {"a": ["ask_b"], "b": ["ask_a"]}


def test_a_toolbox_in_state_error_has_no_tools_and_what_is_said_of_them_is_no_error() -> None:
    boxes = {**BOXES, Name("far"): UnavailableToolbox("far", "mcp", "not in this version")}
    spec = AgentSpec(
        slug="a",
        toolboxes=["other", ToolboxUse(name="far", expose=["look"], grant=["look"])],
        effects={"look": EffectClass.PURE},
        subagents=[SubagentUse(slug="a", grant=["look"])],
    )

    assert names(resolved(spec, boxes=boxes).tools) == ["ask_a", "count"]


@pytest.mark.parametrize(
    ("narrowings", "tools", "hidden", "granted"),
    [
        ([], ["read", "read_all"], ["write"], ("read", "write")),
        ([Narrowing(grant=(Name("read"),))], ["read"], ["read_all", "write"], ("read",)),
        ([Narrowing(grant=(Name("*"),))], ["read", "read_all"], ["write"], ("read", "write")),
        (
            [Narrowing(grant=(Name("r*"),)), Narrowing(grant=(Name("*l"), Name("write")))],
            ["read_all"],
            ["read", "write"],
            (),
        ),
        ([Narrowing(expose=(Name("?ead"),), grant=(Name("*"),))], ["read"], ["read_all", "write"], ("read", "write")),
        ([Narrowing(expose=(), grant=())], [], ["read", "read_all", "write"], ()),
        ([Narrowing(grant=(Name("READ"), Name("rea"), Name("read|write")))], [], ["read", "read_all", "write"], ()),
    ],
)
def test_narrowings_leave_what_all_of_them_leave(
    narrowings: list[Narrowing], tools: list[str], hidden: list[str], granted: tuple[str, ...]
) -> None:
    use = ToolboxUse(name="notes", expose=["read*"], grant=["read", "write"])

    context = narrowed(resolved(AgentSpec(slug="a", toolboxes=[use])), narrowings)

    assert (names(context.tools), names(context.hidden), context.granted) == (tools, hidden, granted)
