"""The rules of a Chat Completions API for messages: what each may hold, and how calls and results stand together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from agentos.testing.chat_refusal import (
    Refusal,
    Refusals,
    bad_name,
    invalid,
    missing,
    unknown_keys,
    wrong_type,
)

CALL_ID_CHARS_MAX = 40

KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    # The last four stand in what the API itself answers, so clients send them back.
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio", "function_call", "annotations"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}


def message_refusals(messages: object, extra_keys: Collection[str], system_first: bool) -> Refusals:
    """What is wrong with the messages of a request. Pairs are looked at only when each message is sound by itself."""
    if not isinstance(messages, list):
        yield wrong_type("messages", "an array of objects", messages)
        return
    if not messages:
        why = "empty array; a request has 1 message or more"
        yield invalid("messages", why, "empty_array")
    wrong = [refusal for n, one in enumerate(messages) for refusal in _one(one, f"messages[{n}]", extra_keys)]
    yield from wrong
    if not wrong:
        yield from _pairs(messages)
        if system_first:
            yield from _system_first(messages)


def _one(message: object, param: str, extra_keys: Collection[str]) -> Refusals:
    if not isinstance(message, dict):
        yield wrong_type(param, "an object", message)
        return
    role = message.get("role")
    if role is None:
        yield missing(f"{param}.role")
        return
    if not isinstance(role, str) or role not in KEYS:
        known = ", ".join(map(repr, KEYS))
        yield invalid(f"{param}.role", f"{role!r} is no role; supported values are: {known}")
        return
    yield from unknown_keys(message, {*KEYS[role], *extra_keys}, param)
    if "name" in message:
        yield from bad_name(message["name"], f"{param}.name")
    yield from _CHECKS[role](message, param)


def _spoken(message: dict[str, Any], param: str) -> Refusals:
    """A message of the system, the developer or the user always says something."""
    role, content = message["role"], message.get("content")
    if "content" not in message:
        yield missing(f"{param}.content")
    elif isinstance(content, str):
        if not content:
            yield _empty(f"{param}.content")
    else:
        yield from _parts(content, f"{param}.content", PARTS[role])


def _assistant(message: dict[str, Any], param: str) -> Refusals:
    calls, content, refusal = message.get("tool_calls"), message.get("content"), message.get("refusal")
    asks = "tool_calls" in message or message.get("function_call") is not None
    if "tool_calls" in message:
        yield from _calls(calls, f"{param}.tool_calls")
    if refusal is not None and not isinstance(refusal, str):
        yield wrong_type(f"{param}.refusal", "a string", refusal)
    if content is not None and not isinstance(content, str):
        yield from _parts(content, f"{param}.content", PARTS["assistant"])
    elif not content and not asks and not refusal and message.get("audio") is None:
        if content is None:
            why = "expected a string, got null; only a message with 'tool_calls' may have none"
            yield invalid(f"{param}.content", why, "invalid_type")
        else:
            yield _empty(f"{param}.content")


def _tool(message: dict[str, Any], param: str) -> Refusals:
    content = message.get("content")
    if "tool_call_id" not in message:
        yield missing(f"{param}.tool_call_id")
    else:
        yield from _call_id(message["tool_call_id"], f"{param}.tool_call_id")
    if "content" not in message:
        yield missing(f"{param}.content")
    elif not isinstance(content, str):  # an empty string is a result too
        yield from _parts(content, f"{param}.content", PARTS["tool"])


_CHECKS: dict[str, Callable[[dict[str, Any], str], Refusals]] = {
    "system": _spoken,
    "developer": _spoken,
    "user": _spoken,
    "assistant": _assistant,
    "tool": _tool,
}


def _empty(param: str) -> Refusal:
    return invalid(param, "empty string; text content blocks must not be empty", "empty_string")


def _parts(content: object, param: str, kinds: Collection[str]) -> Refusals:
    if not isinstance(content, list):
        yield wrong_type(param, "a string or an array of objects", content)
        return
    if not content:
        yield invalid(param, "empty array; content has 1 part or more", "empty_array")
    for n, part in enumerate(content):
        where = f"{param}[{n}]"
        if not isinstance(part, dict):
            yield wrong_type(where, "an object", part)
            continue
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            known = ", ".join(map(repr, sorted(kinds)))
            yield invalid(f"{where}.type", f"{kind!r} is no part of such a message; supported values are: {known}")
        elif kind not in part:
            yield missing(f"{where}.{kind}")
        elif kind in ("text", "refusal"):
            if not isinstance(part[kind], str):
                yield wrong_type(f"{where}.{kind}", "a string", part[kind])
            elif not part[kind]:
                yield _empty(f"{where}.{kind}")
        elif not isinstance(part[kind], dict):
            yield wrong_type(f"{where}.{kind}", "an object", part[kind])


def _calls(calls: object, param: str) -> Refusals:
    if not isinstance(calls, list):
        yield wrong_type(param, "an array of objects", calls)
        return
    if not calls:
        yield invalid(param, "empty array; leave it out when there is no call", "empty_array")
    for n, call in enumerate(calls):
        where = f"{param}[{n}]"
        if not isinstance(call, dict):
            yield wrong_type(where, "an object", call)
            continue
        yield from unknown_keys(call, {"id", "type", "function"}, where)
        if "id" not in call:
            yield missing(f"{where}.id")
        else:
            yield from _call_id(call["id"], f"{where}.id")
        if call.get("type") != "function":
            yield invalid(f"{where}.type", f"{call.get('type')!r} is no type of call; supported values are: 'function'")
        yield from _function(call.get("function"), f"{where}.function")


def _function(function: object, param: str) -> Refusals:
    if function is None:
        yield missing(param)
    elif not isinstance(function, dict):
        yield wrong_type(param, "an object", function)
    else:
        yield from unknown_keys(function, {"name", "arguments"}, param)
        yield from bad_name(function["name"], f"{param}.name") if "name" in function else (missing(f"{param}.name"),)
        if "arguments" not in function:
            yield missing(f"{param}.arguments")
        elif not isinstance(function["arguments"], str):
            yield wrong_type(f"{param}.arguments", "a string", function["arguments"])


def _call_id(value: object, param: str) -> Refusals:
    if not isinstance(value, str):
        yield wrong_type(param, "a string", value)
    elif not value:
        yield invalid(param, "empty string; a call's id has 1 character or more", "empty_string")
    elif len(value) > CALL_ID_CHARS_MAX:
        why = f"string too long; the maximum length is {CALL_ID_CHARS_MAX}, this one has {len(value)} characters"
        yield invalid(param, why, "string_above_max_length")


def _pairs(messages: list[dict[str, Any]]) -> Refusals:
    """Each call has one result, in the block of tool messages right after it; each result has its call there."""
    seen: dict[str, int] = {}
    waiting: dict[str, None] = {}
    answered: dict[str, int] = {}
    asked = 0
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            yield from _result(message["tool_call_id"], n, waiting, answered)
            continue
        yield from _without_results(waiting, asked)
        waiting, answered, asked = {}, {}, n
        for i, call in enumerate(message.get("tool_calls", ())):
            if call["id"] in seen:
                where = f"messages[{n}].tool_calls[{i}].id"
                why = f"duplicate value of {call['id']!r}, which messages[{seen[call['id']]}] has too"
                yield invalid(where, why)
            seen[call["id"]] = n
            waiting[call["id"]] = None
    yield from _without_results(waiting, asked)


def _result(call: str, n: int, waiting: dict[str, None], answered: dict[str, int]) -> Refusals:
    where = f"messages[{n}].tool_call_id"
    if call in waiting:
        del waiting[call]
        answered[call] = n
    elif call in answered:
        yield invalid(where, f"duplicate value for 'tool_call_id' of {call!r}, in messages[{answered[call]}] too")
    else:
        why = (
            f"messages with role 'tool' must be a response to a preceding message with 'tool_calls'; none asks {call!r}"
        )
        yield Refusal(where, f"Invalid parameter: {why}.")


def _without_results(waiting: dict[str, None], asked: int) -> Refusals:
    if waiting:
        why = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
        )
        yield Refusal(f"messages[{asked}].tool_calls", f"{why}; without a response: {', '.join(waiting)}.")


def _system_first(messages: list[dict[str, Any]]) -> Refusals:
    spoken = False
    for n, message in enumerate(messages):
        if message["role"] not in ("system", "developer"):
            spoken = True
        elif spoken:
            yield Refusal(
                f"messages[{n}].role", "A system message must stand before all other messages.", "invalid_value"
            )
