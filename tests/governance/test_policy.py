"""Rules on tools, and names that were perhaps meant (case C44)."""

from __future__ import annotations

import time

import pytest

from agentos.components import AgentContext, ModelRef, Rule, ToolSpec, TurnLimits, Verdict
from agentos.governance.policy import ToolPolicy, judge, near_names
from agentos.ids import Name, agent_id


def context(*rules: tuple[str, Verdict]) -> AgentContext:
    return AgentContext(
        agent=agent_id("tester"),
        slug=Name("tester"),
        prompt=(),
        model=ModelRef(kind="direct"),
        limits=TurnLimits(),
        policy=tuple(Rule(tool=tool, verdict=verdict) for tool, verdict in rules),
    )


def test_without_a_rule_a_tool_is_allowed() -> None:
    assert judge(context(), "search", {}) is Verdict.ALLOW
    assert judge(context(("write", Verdict.DENY)), "search", {}) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("tool", "verdict"),
    [
        ("write_file", Verdict.ASK),
        ("write_secret", Verdict.DENY),
        ("read_file", Verdict.ALLOW),
        ("write", Verdict.ALLOW),
        ("rm", Verdict.DENY),
        ("rmx", Verdict.ALLOW),
        ("a.b", Verdict.DENY),
        ("axb", Verdict.ALLOW),
    ],
)
def test_any_deny_wins_then_any_ask_in_whatever_order_the_rules_stand(tool: str, verdict: Verdict) -> None:
    rules = [
        ("*", Verdict.ALLOW),
        ("*_secret", Verdict.DENY),
        ("write_*", Verdict.ASK),
        ("r?", Verdict.DENY),
        ("a.b", Verdict.DENY),
    ]

    assert judge(context(*rules), tool, {}) is verdict
    assert judge(context(*rules[::-1]), tool, {}) is verdict


def test_a_spec_is_judged_by_its_name() -> None:
    spec = ToolSpec(name=Name("rm"), description="", schema={})

    assert judge(context(("rm", Verdict.DENY)), spec, {}) is Verdict.DENY


def test_a_bracket_in_a_pattern_is_itself() -> None:
    policy = ToolPolicy([Rule(tool="[ab]*", verdict=Verdict.DENY)])

    assert policy.evaluate("[ab]c") is Verdict.DENY
    assert policy.evaluate("ac") is Verdict.ALLOW


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("get_dat", ["get_date"]),
        ("GET_DATE", ["get_date"]),
        ("getDate", ["get_date"]),
        ("xyz", []),
        ("", []),
    ],
)
def test_c44_the_near_names_of_a_made_up_tool(name: str, near: list[str]) -> None:
    assert near_names(name, ["get_date", "write", "search_notes"]) == near


def test_at_most_three_near_names_the_likeliest_first() -> None:
    assert near_names("tool", ["tool_d", "tool1", "tools", "tool_long"])[0] in ("tool1", "tools")
    assert len(near_names("tool", ["tool_d", "tool1", "tools", "tool2", "tool3"])) == 3


def test_a_name_of_a_megabyte_takes_no_time() -> None:
    started = time.thread_time()  # other processes take none of it

    near_names("get_date" * 200_000, ["get_date"] * 200)

    assert time.thread_time() - started < 5
