"""Spans are what the protocol says they are, hang together from the root down, and tell no text of a conversation."""

from __future__ import annotations

import json
import re
from typing import Any

from agentos.history.bundle.spans import CLIENT, ERROR, INTERNAL, OK, UNSET, spans_json
from agentos.history.lineage.tree import Tree
from tests.bundle.trees import busy_tree, deep_tree, nodes, open_tree, wide_tree

_TRACE_ID, _SPAN_ID, _INTEGER = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}"), re.compile("-?[0-9]+")
_SPAN_KEYS = {
    "traceId",
    "spanId",
    "parentSpanId",
    "name",
    "kind",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "attributes",
    "status",
}
_VALUES = {"stringValue": str, "intValue": str, "boolValue": bool, "arrayValue": dict}


def spans_of(*trees: Tree) -> list[dict[str, Any]]:
    (resource,) = json.loads(spans_json(trees))["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def by_id(spans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {span["spanId"]: span for span in spans}


def chain(spans: list[dict[str, Any]], span: dict[str, Any]) -> list[str]:
    """The names from a span up to its root."""
    names, known = [span["name"]], by_id(spans)
    while "parentSpanId" in span:
        span = known[span["parentSpanId"]]
        names.append(span["name"])
    return names


async def test_every_span_is_one_by_the_rules_of_its_protocol() -> None:
    for span in spans_of(await busy_tree(), await open_tree()):
        assert set(span) <= _SPAN_KEYS
        assert _TRACE_ID.fullmatch(span["traceId"])
        assert _SPAN_ID.fullmatch(span["spanId"])
        assert span["traceId"] != "0" * 32
        assert span["kind"] in (INTERNAL, CLIENT)
        assert span["status"]["code"] in (UNSET, OK, ERROR)
        begin, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
        assert isinstance(begin, str)
        assert isinstance(end, str)
        assert 0 < int(begin) <= int(end) < 2**64
        for one in span["attributes"]:
            ((kind, value),) = one["value"].items()
            assert isinstance(value, _VALUES[kind])
            assert kind != "intValue" or _INTEGER.fullmatch(str(value))
        keys = [one["key"] for one in span["attributes"]]
        assert len(keys) == len(set(keys))


async def test_parents_are_unbroken_through_subagents() -> None:
    tree = await busy_tree()
    spans = spans_of(tree)
    roots = [span for span in spans if "parentSpanId" not in span]
    deep = [
        span
        for span in spans
        if attributes(span).get("gen_ai.agent.name") == "aide" and span["name"] == "execute_tool note"
    ]

    assert [span["name"] for span in roots] == ["invoke_workflow clerk"]
    assert len({span["traceId"] for span in spans}) == 1
    assert len(by_id(spans)) == len(spans)
    assert chain(spans, deep[0]) == [
        "execute_tool note",
        "invoke_agent aide",
        "execute_tool ask_aide",
        "invoke_agent helper",
        "execute_tool ask_helper",
        "invoke_agent clerk",
        "invoke_workflow clerk",
    ]
    shown = sum(one.kind != "conversation" for one in nodes(tree.root)) + 1
    assert len(spans) == shown


async def test_children_lie_within_the_times_of_their_parents() -> None:
    for tree in (await busy_tree(), await open_tree()):
        spans = spans_of(tree)
        known = by_id(spans)
        for span in spans:
            parent = known.get(span.get("parentSpanId", ""))
            if parent is not None:
                assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
                assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])


async def test_operations_tokens_and_outcomes_are_those_of_the_tree() -> None:
    tree = await busy_tree()
    spans = spans_of(tree)
    chats = [attributes(span) for span in spans if span["name"] == "chat"]
    calls = {attributes(span)["gen_ai.tool.call.id"]: span for span in spans if span["name"].startswith("execute_tool")}
    failed = {one.id for one in nodes(tree.root) if one.kind == "call" and one.status == "failed(raised)"}
    denied = {one.id for one in nodes(tree.root) if one.kind == "call" and one.status.startswith("denied")}

    assert sum(int(chat["gen_ai.usage.input_tokens"]) for chat in chats) == tree.root.total.input
    assert sum(int(chat["gen_ai.usage.output_tokens"]) for chat in chats) == tree.root.total.output
    assert {span["kind"] for span in spans if span["name"] == "chat"} == {CLIENT}
    assert len(failed) == 2
    assert len(denied) == 1
    for id_ in failed | denied:
        assert calls[id_]["status"] == {"code": ERROR}
        assert attributes(calls[id_])["error.type"]
    assert attributes(calls[denied.pop()])["agentos.begun"] is False
    assert sum(span["status"]["code"] == ERROR for span in spans) == 3


async def test_what_is_not_over_says_so_and_is_no_error() -> None:
    spans = spans_of(await open_tree())
    opened = [span["name"] for span in spans if attributes(span).get("agentos.open")]

    assert "invoke_agent clerk" in opened
    assert "execute_tool ask_aide" in opened
    assert "execute_tool wait" in opened
    assert not any(span["status"]["code"] == ERROR for span in spans)


async def test_a_tree_gives_the_same_spans_each_time_and_twice_is_once() -> None:
    tree = await busy_tree()

    assert spans_json([tree]) == spans_json([tree])
    assert spans_of(tree, tree) == spans_of(tree)


async def test_no_text_of_a_conversation_is_in_them() -> None:
    assert "secret" not in spans_json([await busy_tree()])


def test_a_tree_that_was_cut_says_so_and_ten_thousand_calls_are_no_matter() -> None:
    tree = wide_tree(10_000)

    spans = spans_of(Tree(root=tree.root, cut=True))

    assert len(spans) == 10_003
    assert attributes(spans[0])["agentos.cut"] is True


def test_no_tree_is_too_deep() -> None:
    spans = spans_of(deep_tree(300))

    assert chain(spans, spans[-1])[-1] == "invoke_workflow main"


def test_no_trees_are_no_spans() -> None:
    assert spans_of() == []
