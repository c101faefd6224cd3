"""The rules of a Chat Completions API for tools: their names, their schemas, and which of them may be asked for."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from agentos.testing.chat_refusal import Refusal, Refusals, bad_name, invalid, missing, unknown_keys, wrong_type

TOOLS_MAX = 128
SCHEMA_DEPTH_MAX = 64
DRAFTS = {
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
}
FUNCTION_KEYS = {"name", "description", "parameters", "strict"}


def tool_refusals(body: dict[str, Any]) -> Refusals:
    """What is wrong with `tools`, `tool_choice` and `parallel_tool_calls`."""
    names: list[str] = []
    if body.get("tools") is not None:
        yield from _tools(body["tools"], names)
    else:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None and body[key] != "none":
                yield invalid(key, f"'{key}' is only allowed when 'tools' are specified")
    if body.get("parallel_tool_calls") is not None and not isinstance(body["parallel_tool_calls"], bool):
        yield wrong_type("parallel_tool_calls", "a boolean", body["parallel_tool_calls"])
    if body.get("tools") is not None and body.get("tool_choice") is not None:
        yield from _choice(body["tool_choice"], names)


def _tools(tools: object, names: list[str]) -> Refusals:
    if not isinstance(tools, list):
        yield wrong_type("tools", "an array of objects", tools)
        return
    if not tools:
        yield invalid("tools", "empty array; leave it out when there is no tool", "empty_array")
    if len(tools) > TOOLS_MAX:
        yield invalid("tools", f"array too long; {TOOLS_MAX} tools at most, not {len(tools)}", "array_above_max_length")
    for n, tool in enumerate(tools):
        param = f"tools[{n}]"
        if not isinstance(tool, dict):
            yield wrong_type(param, "an object", tool)
            continue
        yield from unknown_keys(tool, {"type", "function"}, param)
        if tool.get("type") != "function":
            yield invalid(f"{param}.type", f"{tool.get('type')!r} is no type of tool; supported values are: 'function'")
        function = tool.get("function")
        if function is None:
            yield missing(f"{param}.function")
        elif not isinstance(function, dict):
            yield wrong_type(f"{param}.function", "an object", function)
        else:
            yield from _function(function, f"{param}.function", names)


def _function(function: dict[str, Any], param: str, names: list[str]) -> Refusals:
    yield from unknown_keys(function, FUNCTION_KEYS, param)
    name = function.get("name")
    if "name" not in function:
        yield missing(f"{param}.name")
    else:
        yield from bad_name(name, f"{param}.name")
        if name in names:
            yield invalid(f"{param}.name", f"tool names must be unique, and {name!r} stands here again")
        names.append(name if isinstance(name, str) else "")
    description, strict = function.get("description"), function.get("strict")
    if description is not None and not isinstance(description, str):
        yield wrong_type(f"{param}.description", "a string", description)
    if strict is not None and not isinstance(strict, bool):
        yield wrong_type(f"{param}.strict", "a boolean", strict)
    if function.get("parameters") is not None:
        yield from _schema(function["parameters"], name, f"{param}.parameters")


def _schema(schema: object, function: object, param: str) -> Refusals:
    if not isinstance(schema, dict):
        yield wrong_type(param, "an object", schema)
        return
    wrong = ["schema must be a JSON Schema of 'type: \"object\"'"] if schema.get("type") != "object" else []
    wrong += _wrong_parts(schema, schema, ())
    if not wrong and not jsonschema_rs.meta.is_valid(_without_foreign_draft(schema)):
        wrong = ["it is no valid JSON Schema"]
    for why in wrong[:1]:
        yield Refusal(param, f"Invalid schema for function {function!r}: {why}.", "invalid_function_parameters")


def _without_foreign_draft(schema: dict[str, Any]) -> dict[str, Any]:
    """The library would fetch a draft that it does not know, from wherever a stranger's schema says."""
    draft = schema.get("$schema")
    if isinstance(draft, str) and draft.rstrip("#") not in DRAFTS:
        return {key: value for key, value in schema.items() if key != "$schema"}
    return schema


def _wrong_parts(schema: object, root: dict[str, Any], place: tuple[str, ...]) -> list[str]:
    """What the API asks for beyond JSON Schema: objects name their properties, arrays their items, references lead home."""
    if len(place) > SCHEMA_DEPTH_MAX:
        return [f"it is nested over {SCHEMA_DEPTH_MAX} deep"]
    if isinstance(schema, list):
        return [why for n, one in enumerate(schema) for why in _wrong_parts(one, root, (*place, str(n)))]
    if not isinstance(schema, dict):
        return []
    wrong: list[str] = []
    if schema.get("type") == "object" and not place and not isinstance(schema.get("properties"), dict):
        wrong.append(f"In context={place}, object schema missing properties")
    if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
        wrong.append(f"In context={place}, array schema missing items")
    if isinstance(schema.get("$ref"), str) and not _leads_home(schema["$ref"], root):
        wrong.append(f"In context={place}, reference to {schema['$ref']!r}, which is not in the schema")
    for key in _NAMED & schema.keys():
        if isinstance(schema[key], dict):
            for name, part in schema[key].items():
                wrong += _wrong_parts(part, root, (*place, key, name))
    for key in _PARTS & schema.keys():
        wrong += _wrong_parts(schema[key], root, (*place, key))
    return wrong


_NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
_PARTS = {"items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"}


def _leads_home(reference: str, root: dict[str, Any]) -> bool:
    """True when a reference is a pointer to something within the schema."""
    if not reference.startswith("#"):
        return False
    here: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            return False
    return True


def _choice(choice: object, names: list[str]) -> Refusals:
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            known = "'none', 'auto', 'required' and an object that names a function"
            yield invalid("tool_choice", f"{choice!r} is no choice; supported values are: {known}")
        return
    if not isinstance(choice, dict):
        yield wrong_type("tool_choice", "a string or an object", choice)
        return
    if choice.get("type") != "function":
        yield invalid("tool_choice.type", f"{choice.get('type')!r} is no type; supported values are: 'function'")
        return
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if name is None:
        yield missing("tool_choice.function.name")
    elif name not in names:
        yield invalid("tool_choice", f"tool choice {name!r} not found in 'tools'")
