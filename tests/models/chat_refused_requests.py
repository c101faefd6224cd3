"""Bad requests for completions, with the refusal that each gets. Each has one fault."""

from __future__ import annotations

from typing import Any

from tests.models.chat_requests import USER, asks, call, nested, of, result, says, schema, tool

# name: (a request, the param of its one refusal, words of it)
REFUSED: dict[str, tuple[Any, str | None, str]] = {
    "a body that is no object": ([USER], None, "must be a JSON object"),
    "no model": ({"messages": [USER]}, "model", "Missing required parameter"),
    "an empty model": (of(model=""), "model", "empty string"),
    "a model that is no text": (of(model=3), "model", "expected a string, but got an integer"),
    "no messages": ({"model": "m"}, "messages", "Missing required parameter"),
    "empty messages": ({"model": "m", "messages": []}, "messages", "empty array"),
    "messages that are no list": ({"model": "m", "messages": "go"}, "messages", "expected an array of objects"),
    "an unknown argument": (of(num_ctx=9), "num_ctx", "Unrecognized request argument supplied: num_ctx"),
    # roles and what each may hold
    "a message that is no object": (of("go"), "messages[0]", "expected an object"),
    "a message without a role": (of({"content": "go"}), "messages[0].role", "Missing required parameter"),
    "an unknown role": (of({"role": "robot", "content": "go"}), "messages[0].role", "'robot' is no role"),
    "a role that is no text": (of({"role": ["user"], "content": "go"}), "messages[0].role", "is no role"),
    "an unknown key in a message": (of({**USER, "colour": 1}), "messages[0].colour", "Unknown parameter"),
    "thinking sent back": (
        of(USER, {**says("a"), "reasoning_content": "t"}),
        "messages[1].reasoning_content",
        "Unknown",
    ),
    "a key of another role": (of({**USER, "tool_call_id": "c1"}), "messages[0].tool_call_id", "Unknown parameter"),
    "a bad speaker": (of({**USER, "name": "Ann B"}), "messages[0].name", "does not match the pattern"),
    # empty blocks
    "an empty user message": (of({"role": "user", "content": ""}), "messages[0].content", "empty string"),
    "an empty system message": (of({"role": "system", "content": ""}, USER), "messages[0].content", "empty string"),
    "a user message without content": (of({"role": "user"}), "messages[0].content", "Missing required parameter"),
    "a user message of null": (of({"role": "user", "content": None}), "messages[0].content", "got null"),
    "an assistant that says nothing": (of(USER, says("")), "messages[1].content", "empty string"),
    "an assistant of null without calls": (of(USER, says(None)), "messages[1].content", "expected a string, got null"),
    "an assistant without anything": (of(USER, {"role": "assistant"}), "messages[1].content", "got null"),
    "no parts": (of({"role": "user", "content": []}), "messages[0].content", "empty array"),
    "an empty part": (
        of({"role": "user", "content": [{"type": "text", "text": ""}]}),
        "messages[0].content[0].text",
        "empty",
    ),
    "a part without its text": (
        of({"role": "user", "content": [{"type": "text"}]}),
        "messages[0].content[0].text",
        "Missing",
    ),
    "a part that is a text": (of({"role": "user", "content": ["go"]}), "messages[0].content[0]", "expected an object"),
    "a part of an unknown type": (
        of({"role": "user", "content": [{"type": "thinking", "thinking": "t"}]}),
        "messages[0].content[0].type",
        "'thinking' is no part",
    ),
    "an image from a tool": (
        of(USER, asks(call()), result(content=[{"type": "image_url", "image_url": {"url": "data:,"}}])),
        "messages[2].content[0].type",
        "'image_url' is no part",
    ),
    # calls
    "an empty list of calls": (of(USER, asks()), "messages[1].tool_calls", "empty array"),
    "calls of null": (
        of(USER, {"role": "assistant", "content": "a", "tool_calls": None}),
        "messages[1].tool_calls",
        "null",
    ),
    "a call without an id": (
        of(USER, asks({"type": "function", "function": {"name": "f", "arguments": "{}"}}), result()),
        "messages[1].tool_calls[0].id",
        "Missing required parameter",
    ),
    "an empty id": (of(USER, asks(call("")), result()), "messages[1].tool_calls[0].id", "empty string"),
    "an id that is too long": (
        of(USER, asks(call("c" * 41)), result()),
        "messages[1].tool_calls[0].id",
        "length is 40",
    ),
    "a call of no type": (
        of(USER, asks({"id": "c1", "function": {"name": "f", "arguments": "{}"}}), result()),
        "messages[1].tool_calls[0].type",
        "None is no type of call",
    ),
    "a call of no function": (
        of(USER, asks({"id": "c1", "type": "function"}), result()),
        "messages[1].tool_calls[0].function",
        "Missing required parameter",
    ),
    "an index sent back": (of(USER, asks(call(index=0)), result()), "messages[1].tool_calls[0].index", "Unknown"),
    "a dot in a called name": (
        of(USER, asks(call(name="a.b")), result()),
        "messages[1].tool_calls[0].function.name",
        "does not match the pattern '^[a-zA-Z0-9_-]{1,64}$'",
    ),
    "arguments as an object": (
        of(USER, asks(call(arguments={"a": 1})), result()),
        "messages[1].tool_calls[0].function.arguments",
        "expected a string, but got an object",
    ),
    "arguments of null": (
        of(USER, asks(call(arguments=None)), result()),
        "messages[1].tool_calls[0].function.arguments",
        "got null",
    ),
    # pairs
    "a result without a call": (
        of(USER, result()),
        "messages[1].tool_call_id",
        "must be a response to a preceding message",
    ),
    "a result of another call": (
        of(USER, asks(call()), result(), result("c9")),
        "messages[3].tool_call_id",
        "none asks 'c9'",
    ),
    "two results of a call": (
        of(USER, asks(call()), result(), result()),
        "messages[3].tool_call_id",
        "duplicate value",
    ),
    "a call without a result": (
        of(USER, asks(call(), call("c2")), result()),
        "messages[1].tool_calls",
        "responding to each 'tool_call_id'; without a response: c2",
    ),
    "a request that ends in a call": (of(USER, asks(call())), "messages[1].tool_calls", "without a response: c1"),
    "two calls of one id": (
        of(USER, asks(call(), call()), result()),
        "messages[1].tool_calls[1].id",
        "duplicate value of 'c1'",
    ),
    "an id of an earlier step": (
        of(USER, asks(call()), result(), asks(call()), result()),
        "messages[3].tool_calls[0].id",
        "which messages[1] has too",
    ),
    "a result without an id": (
        of(USER, asks(call()), {"role": "tool", "content": "found"}),
        "messages[2].tool_call_id",
        "Missing required parameter",
    ),
    "a result without content": (
        of(USER, asks(call()), {"role": "tool", "tool_call_id": "c1"}),
        "messages[2].content",
        "Missing required parameter",
    ),
    # tools
    "no tools in the list": (of(tools=[]), "tools", "empty array"),
    "too many tools": (of(tools=[tool(f"t{n}") for n in range(129)]), "tools", "128 tools at most"),
    "a tool that is no object": (of(tools=["search"]), "tools[0]", "expected an object"),
    "a tool of an unknown type": (of(tools=[{"type": "magic", "function": {"name": "a"}}]), "tools[0].type", "'magic'"),
    "a tool without a function": (of(tools=[{"type": "function"}]), "tools[0].function", "Missing required parameter"),
    "a tool without a name": (of(tools=[{"type": "function", "function": {}}]), "tools[0].function.name", "Missing"),
    "an empty name": (of(tools=[tool("")]), "tools[0].function.name", "empty string"),
    "a name with a dot": (of(tools=[tool("calendar.list")]), "tools[0].function.name", "does not match the pattern"),
    "a name with a slash": (of(tools=[tool("a/b")]), "tools[0].function.name", "does not match the pattern"),
    "a name with a space": (of(tools=[tool("Create Share")]), "tools[0].function.name", "does not match the pattern"),
    "a name with a line break": (of(tools=[tool("search\n")]), "tools[0].function.name", "does not match the pattern"),
    "a name in another script": (of(tools=[tool("日本")]), "tools[0].function.name", "does not match the pattern"),
    "a name that is too long": (of(tools=[tool("a" * 65)]), "tools[0].function.name", "maximum length is 64"),
    "a name that is no text": (of(tools=[tool(7)]), "tools[0].function.name", "expected a string"),
    "a name that stands twice": (of(tools=[tool(), tool()]), "tools[1].function.name", "must be unique"),
    "an unknown key in a function": (of(tools=[tool(effect="once")]), "tools[0].function.effect", "Unknown parameter"),
    "a description that is no text": (of(tools=[tool(description=1)]), "tools[0].function.description", "a string"),
    # schemas
    "a schema that is true": (of(tools=[tool(parameters=True)]), "tools[0].function.parameters", "expected an object"),
    "a schema of a list": (
        of(tools=[tool(parameters={"type": "array", "items": {}})]),
        "tools[0].function.parameters",
        "schema must be a JSON Schema of 'type: \"object\"'",
    ),
    "an empty schema": (of(tools=[tool(parameters={})]), "tools[0].function.parameters", "must be a JSON Schema of"),
    "a schema without properties": (
        of(tools=[tool(parameters={"type": "object"})]),
        "tools[0].function.parameters",
        "object schema missing properties",
    ),
    "a list without items": (
        of(tools=[tool(parameters=schema(a={"type": "array"}))]),
        "tools[0].function.parameters",
        "array schema missing items",
    ),
    "a schema with a made-up type": (
        of(tools=[tool(parameters=schema(a={"type": "text"}))]),
        "tools[0].function.parameters",
        "no valid JSON Schema",
    ),
    "a reference to nothing": (
        of(tools=[tool(parameters=schema(a={"$ref": "#/$defs/Q"}))]),
        "tools[0].function.parameters",
        "reference to '#/$defs/Q'",
    ),
    "a reference to a server": (
        of(tools=[tool(parameters=schema(a={"$ref": "http://127.0.0.1:9/schema"}))]),
        "tools[0].function.parameters",
        "which is not in the schema",
    ),
    "a bottomless schema": (of(tools=[tool(parameters=nested(80))]), "tools[0].function.parameters", "over 64 deep"),
    # which tool
    "a choice without tools": (of(tool_choice="auto"), "tool_choice", "only allowed when 'tools' are specified"),
    "a choice of an unknown tool": (
        of(tools=[tool()], tool_choice={"type": "function", "function": {"name": "other"}}),
        "tool_choice",
        "tool choice 'other' not found in 'tools'",
    ),
    "a made-up choice": (of(tools=[tool()], tool_choice="maybe"), "tool_choice", "'maybe' is no choice"),
    "a choice without a name": (
        of(tools=[tool()], tool_choice={"type": "function"}),
        "tool_choice.function.name",
        "Missing required parameter",
    ),
    "parallel calls without tools": (of(parallel_tool_calls=True), "parallel_tool_calls", "only allowed when 'tools'"),
    # values
    "too hot": (of(temperature=2.1), "temperature", "above the maximum of 2"),
    "too cold": (of(temperature=-0.1), "temperature", "below the minimum of 0"),
    "a temperature that is a text": (of(temperature="1"), "temperature", "expected a number, but got a string"),
    "a temperature that is true": (of(temperature=True), "temperature", "expected a number, but got a boolean"),
    "no choices": (of(n=0), "n", "below the minimum of 1"),
    "too many choices": (of(n=129), "n", "above the maximum of 128"),
    "half a choice": (of(n=1.5), "n", "expected an integer"),
    "top_p": (of(top_p=1.01), "top_p", "above the maximum of 1"),
    "a penalty": (of(presence_penalty=-3), "presence_penalty", "below the minimum of -2"),
    "no tokens": (of(max_tokens=0), "max_tokens", "below the minimum of 1"),
    "two limits of tokens": (of(max_tokens=5, max_completion_tokens=5), "max_tokens", "at the same time"),
    "log probabilities of nothing": (of(top_logprobs=2), "top_logprobs", "only allowed when 'logprobs' is enabled"),
    "a bias": (of(logit_bias={"50256": 200}), "logit_bias.50256", "above the maximum of 100"),
    "a stream that is a text": (of(stream="yes"), "stream", "expected a boolean"),
    "stream options without a stream": (
        of(stream_options={"include_usage": True}),
        "stream_options",
        "'stream' is enabled",
    ),
    "an unknown stream option": (
        of(stream=True, stream_options={"usage": True}),
        "stream_options.usage",
        "Unknown parameter",
    ),
    "five stops": (of(stop=["a", "b", "c", "d", "e"]), "stop", "4 sequences at most"),
    "an empty stop": (of(stop=["a", ""]), "stop[1]", "empty string"),
    "a made-up effort": (of(reasoning_effort="huge"), "reasoning_effort", "'huge'; supported values are"),
    "metadata that is no text": (of(metadata={"a": 1}), "metadata.a", "expected a string"),
    "a made-up format": (of(response_format={"type": "xml"}), "response_format.type", "'xml'"),
    "a schema format without its schema": (
        of(response_format={"type": "json_schema"}),
        "response_format.json_schema",
        "Missing",
    ),
}
