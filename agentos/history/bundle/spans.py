"""Call trees as OpenTelemetry spans: OTLP in its JSON form, which trace viewers read as it stands.

A root conversation is one trace. Its turns are `invoke_agent`, its model calls `chat`, its calls `execute_tool`; a
delegated turn stands below the call that it answers, so that parents are unbroken from the root to the deepest subagent.
Ids are hashes of ours: the same conversation has the same spans in every file. No text of a conversation is in them.

Source: opentelemetry-proto trace.proto with the JSON rules of the OTLP specification: ids in hexadecimal, integers of
64 bits as strings, enums as numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from agentos.history.bundle import span_names as names
from agentos.history.bundle.outcomes import CameOut, came_out
from agentos.history.lineage.tree import Node, Tokens, Tree
from agentos.ids import log_and_seq

INTERNAL, CLIENT = 1, 3
UNSET, OK, ERROR = 0, 1, 2
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
SCOPE = "agentos"
_STATUS = {CameOut.WELL: OK, CameOut.BADLY: ERROR, CameOut.OPEN: UNSET}

Span = dict[str, Any]
Value = str | int | bool | list[str]


def spans_json(trees: Sequence[Tree]) -> str:
    """One TracesData message, as JSON. A turn that stands in several of the trees is one span.

    Times are in nanoseconds, exact to the microsecond. What is not over ends, as a span, with the last of what is below
    it, and says that it is open; a call that never began stands where the model asked for it, without length.
    """
    spans: dict[str, Span] = {}
    for tree in trees:
        for span in _Spans(tree).all():
            spans.setdefault(span["spanId"], span)
    scoped = [{"scope": {"name": SCOPE}, "spans": list(spans.values())}]
    resource = {"attributes": _attributes({names.SERVICE: "agentos"})}
    message = {"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}
    return json.dumps(message, ensure_ascii=True, separators=(",", ":"))


class _Spans:
    """The spans of one tree, parents before children, with a stack of its own, so that no tree is too deep."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._trace = trace_id(tree)
        self._waiting: list[tuple[Node, str, int, str]] = []

    def all(self) -> Iterator[Span]:
        root = self._tree.root
        conversation = root.id if root.kind == "conversation" else log_and_seq(root.id)[0]
        self._waiting = [(root, "", _begin(root), conversation)]
        first = True
        while self._waiting:
            node, parent, since, conversation = self._waiting.pop()
            begun = since if node.at is None else _begin(node)
            if node.kind == "conversation" and not first:  # its turns stand right below the call that they answer
                self._below(node, parent, begun, node.id)
                continue
            span = self._span(node, parent, begun, conversation)
            if first:
                span["attributes"] += _attributes(self._of_tree())
            first = False
            yield span
            self._below(node, span["spanId"], begun, conversation)

    def _below(self, node: Node, parent: str, since: int, conversation: str) -> None:
        for child in reversed(node.children):
            if child.kind != "step":
                self._waiting.append((child, parent, since, conversation))
                continue
            asked = _end(child, since)  # calls are asked for by the end of the reply, and are no part of it
            self._waiting += [(call, parent, asked, conversation) for call in reversed(child.children)]
            self._waiting.append((_alone(child, node), parent, since, conversation))

    def _span(self, node: Node, parent: str, begun: int, conversation: str) -> Span:
        span: Span = {"traceId": self._trace, "spanId": span_id(node)}
        if parent:
            span["parentSpanId"] = parent
        operation, about, attributes = _described(node, conversation)
        state = came_out(node)
        if state is CameOut.BADLY:
            attributes[names.ERROR] = node.status.partition(",")[0]
        elif state is CameOut.OPEN:
            attributes[names.OPEN] = True
        span |= {
            "name": f"{operation} {about}".strip(),
            "kind": CLIENT if operation == names.CHAT else INTERNAL,
            "startTimeUnixNano": str(begun * 1_000),
            "endTimeUnixNano": str(max(_end(node, begun), begun) * 1_000),
            "attributes": _attributes({names.OPERATION: operation, **attributes, names.STATUS: node.status}),
            "status": {"code": _STATUS[state]},
        }
        return span

    def _of_tree(self) -> dict[str, Value]:
        """What the first span says of the file: what it was cut out of, and whether there is more."""
        above = self._tree.above
        found: dict[str, Value] = {names.ABOVE: above[-1].entity_id} if above else {}
        return {**found, names.CUT: True} if self._tree.cut else found


def trace_id(tree: Tree) -> str:
    """Of the root conversation, also where the tree is a part of what is below it."""
    root = tree.above[0].entity_id if tree.above else tree.root.id
    return _hash("trace", root, TRACE_ID_BYTES)


def span_id(node: Node) -> str:
    return _hash("span", node.id, SPAN_ID_BYTES)


def _hash(what: str, id_: str, size_bytes: int) -> str:
    return hashlib.sha256(f"agentos {what} {id_}".encode()).digest()[:size_bytes].hex()


def _described(node: Node, conversation: str) -> tuple[str, str, dict[str, Value]]:
    """The operation, what it is about, and the attributes of this kind of node."""
    if node.kind == "conversation":
        return names.INVOKE_WORKFLOW, node.name, {names.WORKFLOW: node.name, names.CONVERSATION: node.id}
    found: dict[str, Value] = {names.CONVERSATION: conversation, names.AGENT: node.agent, names.SEQ: node.seq}
    if node.kind == "turn":
        version: dict[str, Value] = {names.VERSION: node.version} if node.version else {}
        return names.INVOKE_AGENT, node.agent, {**found, **version, **_usage(node.tokens)}
    if node.kind == "step":
        ended = {} if came_out(node) is CameOut.OPEN else {names.FINISH_REASONS: [node.status]}
        return names.CHAT, "", {**found, **ended, **_usage(node.tokens)}
    begun: dict[str, Value] = {} if node.at is not None else {names.BEGUN: False}
    tool: dict[str, Value] = {names.TOOL: node.name, names.TOOL_TYPE: names.FUNCTION, names.TOOL_CALL: node.id}
    return names.EXECUTE_TOOL, node.name, {**found, **tool, **begun}


def _alone(step: Node, turn: Node) -> Node:
    """A step without its calls, under a name that no other turn's has."""
    return Node(
        kind="step",
        id=f"{turn.id} {step.id}",
        status=step.status,
        seq=step.seq,
        ms=step.ms,
        tokens=step.tokens,
        agent=step.agent,
        at=step.at,
    )


def _usage(tokens: Tokens) -> dict[str, Value]:
    return {names.INPUT_TOKENS: tokens.input, names.OUTPUT_TOKENS: tokens.output}


def _end(node: Node, begun: int) -> int:
    """When it ended; a conversation, and what is not over, with the last of what is below. In microseconds."""
    if node.ms is not None and node.at is not None and node.kind != "conversation":
        return node.at + round(node.ms * 1_000)
    last, waiting = begun if node.at is None else node.at, list(node.children)
    while waiting:
        below = waiting.pop()
        if below.at is not None:
            last = max(last, below.at + (round((below.ms or 0) * 1_000) if below.kind != "conversation" else 0))
        waiting += below.children
    return last


def _begin(node: Node) -> int:
    """Of a fork with what it shares, which is older than itself."""
    turns = node.children if node.kind == "conversation" else ()
    return min([node.at or 0, *(turn.at for turn in turns if turn.at is not None)])


def _attributes(values: dict[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": value}
