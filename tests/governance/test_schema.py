"""Arguments against a tool's schema (cases C12, C20, C21)."""

from __future__ import annotations

import http.server
import threading
import time
from typing import Any

import pytest

from agentos.components import ToolSpec
from agentos.governance.schema import explain, normalized, problem_of_schema, problems_of
from agentos.ids import Name


def tool(schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name=Name("search"), description="", schema=schema)


FREE = tool({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False})
NEEDY = tool({**FREE.schema, "required": ["a"]})
NODE = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["value"],
        }
    },
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
}


@pytest.mark.parametrize("arguments", ["", "  ", None, {}])
def test_c12_absent_arguments_are_an_empty_object(arguments: object) -> None:
    assert normalized(arguments) == {}
    assert problems_of(FREE, arguments) == []
    assert problems_of(NEEDY, arguments) == ['arguments: "a" is a required property']


def test_arguments_that_fit_have_no_problems_and_stay_as_they_are() -> None:
    arguments = {"a": "x"}

    assert normalized(arguments) is arguments
    assert problems_of(NEEDY, arguments) == []


def test_all_problems_are_named_with_their_paths() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        },
        "required": ["list", "kind"],
        "additionalProperties": False,
    }

    problems = problems_of(tool(schema), {"list": [{"n": 1}, {"n": "two"}], "odd": 1})

    assert sorted(problems) == [
        'arguments: "kind" is a required property',
        "arguments: Additional properties are not allowed ('odd' was unexpected)",
        'list[1].n: "two" is not of type "integer"',
    ]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"a": ', "not valid JSON"),
        ([1], "a list is not an object"),
        (3, "a int is not an object"),
        (True, "a bool is not an object"),
    ],
)
def test_what_is_no_object_is_refused_by_its_kind(arguments: object, kind: str) -> None:
    assert problems_of(FREE, arguments) == [f"arguments: {kind}; send one JSON object"]


def test_an_explanation_numbers_the_problems() -> None:
    assert explain(["one", "two"]) == "1. one\n2. two\nSend the call again with corrected arguments."


def test_a_long_list_of_problems_and_a_long_problem_are_cut() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}

    problems = problems_of(tool(schema), {str(n): "x" * 1_000 for n in range(50)})

    assert len(problems) == 21
    assert problems[-1] == "and more"
    assert max(map(len, problems)) <= 300


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_c20_a_schema_without_properties_takes_an_empty_object(schema: dict[str, Any]) -> None:
    assert problems_of(tool(schema), {}) == []
    assert problem_of_schema(schema) is None


def test_c21_definitions_are_followed_also_in_a_circle() -> None:
    good = {"tree": {"value": 1, "kids": [{"value": 2, "kids": []}]}}
    bad = {"tree": {"value": 1, "kids": [{"value": "x"}]}}

    assert problems_of(tool(NODE), good) == []
    assert problems_of(tool(NODE), bad) == ['tree.kids[0].value: "x" is not of type "integer"']


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    ],
)
def test_c21_a_reference_in_a_circle_ends(schema: dict[str, Any]) -> None:
    assert problems_of(tool(schema), {"a": 1}) == []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "Pointer '/$defs/gone' does not exist"),
        ({"type": "objekt"}, '"objekt" is not valid under any of the schemas'),
        ({"properties": {"a": {"pattern": "("}}}, '"(" is not a "regex"'),
        ({"properties": {"a": {"default": object()}}}, "it is no JSON"),
    ],
)
def test_c21_a_schema_that_does_not_compile_refuses_each_call_with_its_reason(schema: dict[str, Any], why: str) -> None:
    (problem,) = problems_of(tool(schema), {})

    assert problem.startswith("the schema of search cannot be used: ")
    assert why in problem
    assert why in str(problem_of_schema(schema))


def test_c21_a_remote_reference_is_never_fetched() -> None:
    asked: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        schema = {"properties": {"a": {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}}}

        (problem,) = problems_of(tool(schema), {"a": 1})

        assert "nothing remote is fetched" in problem
        thread.join(0.1)
        assert asked == []


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def multiplied(levels: int) -> dict[str, Any]:
    two = {n: {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {f"a{n}": node for n, node in two.items()} | {f"a{levels}": {}}, "$ref": "#/$defs/a0"}


def chained(reference: str) -> dict[str, Any]:
    steps = {f"a{n}": {"$anchor": f"a{n}", "not": {"$ref": reference.format(n + 1)}} for n in range(10_000)}
    return {"$defs": {**steps, "a10000": {"$anchor": "a10000"}}, "$ref": reference.format(0)}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (nested(5_000), "it is nested deeper than 100 levels"),
        (multiplied(30), "its references multiply to over 100,000 checks"),
        (chained("#/$defs/a{}"), "its references are nested deeper than 100 levels"),
        (chained("#a{}"), "its references are nested deeper than 100 levels"),
        ({"description": "x" * 2_000_000}, "it has 2,000,018 bytes, over 1,048,576"),
    ],
    ids=["deep", "multiplied", "chained by pointers", "chained by anchors", "large"],
)
def test_a_schema_made_to_hurt_is_refused_at_once(schema: dict[str, Any], why: str) -> None:
    started = time.process_time()

    (problem,) = problems_of(tool(schema), {})

    assert problem == f"the schema of search cannot be used: {why}"
    assert time.process_time() - started < 1


def test_a_pattern_made_to_hurt_ends() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}

    assert problems_of(tool(schema), {"a": "a" * 40 + "!"}) != []


def test_deep_arguments_are_a_problem_and_no_crash() -> None:
    arguments: dict[str, Any] = {"tree": {"value": 1}}
    inside = arguments["tree"]
    for _ in range(100_000):
        inside["kids"] = [{"value": 1}]
        inside = inside["kids"][0]

    (problem,) = problems_of(tool(NODE), arguments)

    assert problem == "arguments: nested deeper than 200 levels"


def test_a_changed_tool_with_the_same_name_has_its_own_validator() -> None:
    for wanted, value in (("integer", 1), ("string", "x")) * 200:
        fresh = tool({"type": "object", "properties": {"a": {"type": wanted}}})
        assert problems_of(fresh, {"a": value}) == []


def test_a_fitting_call_costs_about_a_microsecond() -> None:
    arguments = {"a": "x"}
    rounds, best_us = 5_000, float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(rounds):
            problems_of(NEEDY, arguments)
        best_us = min(best_us, (time.process_time() - started) / rounds * 1e6)

    assert best_us < 5
