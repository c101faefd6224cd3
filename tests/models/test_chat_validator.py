"""The judge of Chat Completions requests refuses each thing that the API refuses, and nothing beside it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.testing import chat_validator
from agentos.testing.chat_validator import problems_of_request, refusals_of_request
from tests.models.chat_refused_requests import REFUSED
from tests.models.chat_requests import ACCEPTED, SYSTEM, USER, WHOLE, asks, call, of, result, says, tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_request_is_refused_for_its_fault_alone(name: str) -> None:
    body, param, words = REFUSED[name]

    refusals = refusals_of_request(body)

    assert [refusal.param for refusal in refusals] == [param]
    assert words in refusals[0].message


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_request_passes(name: str) -> None:
    assert problems_of_request(ACCEPTED[name]) == []


@pytest.mark.parametrize(
    ("messages", "params"),
    [
        ([USER, result(), asks(call())], ["messages[1].tool_call_id", "messages[2].tool_calls"]),
        ([USER, asks(call()), USER, result()], ["messages[1].tool_calls", "messages[3].tool_call_id"]),
        ([USER, asks(call()), says("a"), result()], ["messages[1].tool_calls", "messages[3].tool_call_id"]),
        ([USER, asks(call()), asks(call("c2")), result("c2")], ["messages[1].tool_calls"]),
    ],
)
def test_a_result_out_of_the_block_of_its_call_is_refused_and_the_call_has_none(
    messages: Sequence[Mapping[str, Any]], params: list[str]
) -> None:
    assert [refusal.param for refusal in refusals_of_request(of(*messages))] == params


def test_all_faults_of_a_request_are_told_at_once() -> None:
    body = of({"role": "user", "content": ""}, temperature=3, tools=[tool("a b"), tool("c.d")])

    problems = problems_of_request(body)

    assert [problem.partition(":")[0] for problem in problems] == [
        "temperature",
        "messages[0].content",
        "tools[0].function.name",
        "tools[1].function.name",
    ]


def test_a_server_that_knows_more_lets_its_own_keys_pass() -> None:
    body = of(USER, {**says("a"), "reasoning_content": "t"}, USER, top_k=3)

    assert len(problems_of_request(body)) == 2
    assert problems_of_request(body, extra_keys=("reasoning_content", "top_k")) == []


def test_a_server_that_wants_the_system_message_first_refuses_a_later_one() -> None:
    late = of(USER, says("a"), SYSTEM, USER)

    assert problems_of_request(late, system_first=True) == [
        "messages[2].role: A system message must stand before all other messages."
    ]
    assert problems_of_request(of(SYSTEM, SYSTEM, USER), system_first=True) == []


@given(data=st.data(), value=JSON)
def test_whatever_stands_in_a_place_of_a_request_is_judged_and_never_raises(data: st.DataObject, value: Any) -> None:
    body = copy.deepcopy(WHOLE)
    places = list(_places(body))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = value

    assert all(isinstance(problem, str) for problem in problems_of_request(body))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each key and index of a value, with what holds it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def test_the_judge_shares_nothing_with_the_adapters_it_judges() -> None:
    folder = Path(chat_validator.__file__).parent
    files = [folder / f"chat_{name}.py" for name in ("validator", "refusal", "message_rules", "tool_rules")]

    imported = {
        node.module or ""
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    }

    ours = {name for name in imported if name.startswith("agentos")}
    assert ours == {f"agentos.testing.chat_{name}" for name in ("refusal", "message_rules", "tool_rules")}
