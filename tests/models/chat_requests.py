"""Requests for completions made by hand, and good ones that stand beside the bad ones of `chat_refused_requests`."""

from __future__ import annotations

from typing import Any

USER = {"role": "user", "content": "go"}
SYSTEM = {"role": "system", "content": "Be brief."}


def call(id_: str = "c1", name: str = "search", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asks(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def says(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def result(id_: Any = "c1", content: Any = "found", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


def tool(name: Any = "search", parameters: Any = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def of(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages or [USER]), **more}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


WHOLE = of(
    SYSTEM,
    USER,
    asks(call()),
    result(),
    tools=[tool()],
    tool_choice={"type": "function", "function": {"name": "search"}},
    stream=True,
    stream_options={"include_usage": True},
    response_format={"type": "text"},
    metadata={"a": "b"},
    logit_bias={"1": 1},
    stop=["END"],
)

ACCEPTED: dict[str, Any] = {
    "the least": of(),
    "much at once": WHOLE,
    "a system message": of(SYSTEM, USER),
    "a developer message": of({"role": "developer", "content": "Be brief."}, USER),
    "a system message later": of(USER, says("a"), SYSTEM, USER),
    "parts": of({"role": "user", "content": [{"type": "text", "text": "go"}]}),
    "a picture": of({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}),
    "a speaker": of({**USER, "name": "Ann_B-2"}),
    "a blank": of({"role": "user", "content": " "}),
    "what the API itself answered": of(USER, {**says("a"), "refusal": None, "annotations": [], "audio": None}, USER),
    "a refusal sent back": of(USER, {"role": "assistant", "content": None, "refusal": "no"}, USER),
    "a call and its result": of(USER, asks(call()), result()),
    "calls with a text": of(USER, asks(call(), content="Looking."), result()),
    "calls with an empty text": of(USER, asks(call(), content=""), result()),
    "calls without content": of(USER, {"role": "assistant", "tool_calls": [call()]}, result()),
    "results in any order": of(USER, asks(call(), call("c2")), result("c2"), result("c1")),
    "the next step": of(USER, asks(call()), result(), asks(call("c2")), result("c2"), says("done"), USER),
    "an empty result": of(USER, asks(call()), result(content="")),
    "a result in parts": of(USER, asks(call()), result(content=[{"type": "text", "text": "found"}])),
    "a named result": of(USER, asks(call()), result(name="search")),
    "arguments that are no JSON": of(USER, asks(call(arguments='{"a":')), result()),
    "empty arguments": of(USER, asks(call(arguments="")), result()),
    "the longest id": of(USER, asks(call("c" * 40)), result("c" * 40)),
    "a call of a tool that is gone": of(USER, asks(call(name="gone")), result(), tools=[tool()]),
    "the longest name": of(tools=[tool("a" * 64)]),
    "every letter of a name": of(tools=[tool("aZ09_-")]),
    "names that differ in case": of(tools=[tool("a"), tool("A")]),
    "as many tools as may be": of(tools=[tool(f"t{n}") for n in range(128)]),
    "a tool without a schema": of(tools=[{"type": "function", "function": {"name": "a"}}]),
    "a described tool": of(tools=[tool(description="Searches.", strict=False)]),
    "a schema of its own draft": of(
        tools=[tool(parameters={"$schema": "http://json-schema.org/draft-07/schema#", **schema(a={"type": "string"})})]
    ),
    "a schema of a draft that nobody knows": of(
        tools=[tool(parameters={"$schema": "http://127.0.0.1:9/draft", **schema()})]
    ),
    "a recursive schema": of(
        tools=[
            tool(
                parameters={
                    **schema(root={"$ref": "#/$defs/Node"}),
                    "$defs": {"Node": schema(next={"$ref": "#/$defs/Node"}, all={"type": "array", "items": {}})},
                }
            )
        ]
    ),
    "a property named $ref": of(tools=[tool(parameters=schema(**{"$ref": {"type": "string"}}))]),
    "a nested object without properties": of(tools=[tool(parameters=schema(a={"type": "object"}))]),
    "a deep schema": of(tools=[tool(parameters=nested(20))]),
    "a choice": of(tools=[tool()], tool_choice={"type": "function", "function": {"name": "search"}}),
    "a choice of none without tools": of(tool_choice="none"),
    "parallel calls": of(tools=[tool()], tool_choice="required", parallel_tool_calls=False),
    "the bounds of numbers": of(
        temperature=2, top_p=0, n=128, presence_penalty=-2, frequency_penalty=2.0, max_tokens=1
    ),
    "nothing as null": of(temperature=None, stop=None, tools=None, stream_options=None, max_tokens=None, metadata=None),
    "a stream with its usage": of(stream=True, stream_options={"include_usage": True}),
    "four stops": of(stop=["a", "b", "c", "d"]),
    "one stop": of(stop="END"),
    "log probabilities": of(logprobs=True, top_logprobs=20),
    "metadata": of(metadata={"a": "1"}, user="u", seed=-1, store=False, reasoning_effort="low"),
    "a format": of(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}),
}
