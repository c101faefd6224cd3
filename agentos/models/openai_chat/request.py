"""From the neutral request to the body of a Chat Completions request. Pure: the same request gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentos.components import AgentContext, ToolSpec
from agentos.events.model import Message, ModelRequest, Role, ToolCall
from agentos.ids import base32
from agentos.models.openai_chat.flavors import Flavor
from agentos.models.options import GenerationOptions, ResponseFormat, Thinking
from agentos.models.pairing import paired
from agentos.models.text_pieces import whole_text
from agentos.models.wire_names import WireNames

NO_TEXT = "(empty)"
NO_OUTPUT = "(no output)"
NO_ANSWER = "(no answer)"
INVALID_ARGUMENTS = "invalid_json"
"""Under this name the model sees arguments that it wrote and that were no JSON object; providers refuse any other form."""

_EFFORTS = ((512, "minimal"), (2_048, "low"), (8_192, "medium"))
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768}
"""Budgets in tokens against efforts in words: each is turned into the other where a provider takes only that."""


class ChatRequest(msgspec.Struct, frozen=True):
    """The body to send, and the names of its tools, to read the answer with."""

    body: dict[str, Any]
    names: WireNames


def chat_request(request: ModelRequest, model: str, options: GenerationOptions, flavor: Flavor) -> ChatRequest:
    """The whole body: model, messages, tools, then what the options and the flavor add, and extra_body last."""
    messages = list(paired(request.messages))
    names = WireNames(_names(request.context, messages))
    body: dict[str, Any] = {"model": model, "messages": _messages(request.context, messages, names, flavor)}
    body |= _tools(request.context.tools, names, options, flavor)
    body |= _sampling(options, flavor)
    body |= _thinking(options.thinking, flavor)
    if flavor.cache_key:
        body["prompt_cache_key"] = str(request.conversation)
    body["stream"] = options.stream
    if options.stream and flavor.usage_option:
        body["stream_options"] = {"include_usage": True}
    return ChatRequest(body | options.extra_body, names)


def encoded(body: Mapping[str, Any]) -> bytes:
    """JSON as every server reads it: a lone half of a surrogate pair, which is no text, becomes U+FFFD."""
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return whole_text(text).encode()


def _names(context: AgentContext, messages: Sequence[Message]) -> Iterator[str]:
    """Offered tools first, then those that earlier calls named."""
    for tool in context.tools:
        yield str(tool.name)
    for message in messages:
        for call in message.calls:
            yield call.name


def _messages(
    context: AgentContext, messages: Sequence[Message], names: WireNames, flavor: Flavor
) -> list[dict[str, Any]]:
    """One system message of all layers in their order: many servers take only one, and only at the beginning."""
    said: list[dict[str, Any]] = []
    prompt = "\n\n".join(part for part in context.prompt if part.strip())
    if prompt:
        said.append({"role": "system", "content": prompt})
    before: Role | None = None
    for message in messages:
        if flavor.answers_results and before is Role.TOOL and message.role is Role.USER:
            said.append({"role": "assistant", "content": NO_ANSWER})
        said.append(_FORMS[message.role](message, names, flavor))
        before = message.role
    return said


def _user(message: Message, names: WireNames, flavor: Flavor) -> dict[str, Any]:
    return {"role": "user", "content": _filled(message.text, NO_TEXT)}


def _result(message: Message, names: WireNames, flavor: Flavor) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": _call_id(message.call_id, flavor),
        "content": _filled(message.text, NO_OUTPUT),
    }


def _assistant(message: Message, names: WireNames, flavor: Flavor) -> dict[str, Any]:
    """Thinking goes back to who gave it, beside the text and calls that it led to; nobody else gets it."""
    said: dict[str, Any] = {"role": "assistant"}
    said["content"] = message.text if message.text.strip() else None if message.calls else NO_TEXT
    if flavor.returns_thinking:
        said["reasoning_content"] = message.thinking if message.kept_for == flavor.family else ""
    if message.calls:
        said["tool_calls"] = [_call(call, names, flavor) for call in message.calls]
    return said


_FORMS = {Role.USER: _user, Role.ASSISTANT: _assistant, Role.TOOL: _result}


def _call(call: ToolCall, names: WireNames, flavor: Flavor) -> dict[str, Any]:
    given = call.arguments
    arguments = given if isinstance(given, dict) else {INVALID_ARGUMENTS: given} if given not in (None, "") else {}
    return {
        "id": _call_id(call.id, flavor),
        "type": "function",
        "function": {"name": names.to_wire(call.name), "arguments": encoded(arguments).decode()},
    }


def _call_id(id_: str, flavor: Flavor) -> str:
    if not flavor.short_ids:
        return id_
    return base32(int.from_bytes(hashlib.sha256(id_.encode("utf-8", "surrogatepass")).digest()[:16], "big"))[-9:]


def _filled(text: str, stand_in: str) -> str:
    """Providers refuse an empty text, and some a blank one."""
    return text if text.strip() else stand_in


def _tools(tools: Sequence[ToolSpec], names: WireNames, options: GenerationOptions, flavor: Flavor) -> dict[str, Any]:
    if not tools:
        return {}
    said: dict[str, Any] = {"tools": [_tool(tool, names) for tool in tools]}
    choice = options.tool_choice or flavor.tool_choice
    if choice is not None:
        said["tool_choice"] = _choice(choice, tools, names, flavor)
    parallel = options.parallel_tool_calls if options.parallel_tool_calls is not None else flavor.parallel
    if parallel is not None:
        said["parallel_tool_calls"] = parallel
    return said


def _tool(tool: ToolSpec, names: WireNames) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": names.to_wire(str(tool.name)),
            "description": tool.description,
            "parameters": object_schema(tool.schema),
        },
    }


def object_schema(schema: object) -> dict[str, Any]:
    """The schema as one of an object with properties, whatever was given; all else in it stays, `$defs` too."""
    given = dict(schema) if isinstance(schema, Mapping) else {}
    given["type"] = "object"
    if not isinstance(given.get("properties"), Mapping):
        given["properties"] = {}
    return given


def _choice(choice: str, tools: Sequence[ToolSpec], names: WireNames, flavor: Flavor) -> Any:
    """A tool that this agent is not offered cannot be forced; then the model chooses."""
    if choice == "required":
        return flavor.forced_word
    if any(tool.name == choice for tool in tools):
        return {"type": "function", "function": {"name": names.to_wire(choice)}}
    return choice if choice in ("auto", "none") else "auto"


def _sampling(options: GenerationOptions, flavor: Flavor) -> dict[str, Any]:
    stops = list(options.stops)
    said = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        flavor.limit_name: options.max_tokens,
        flavor.seed_name: options.seed,
        "stop": stops or None,
        "response_format": _format(options.response_format),
    }
    return {name: value for name, value in said.items() if value is not None}


def _format(form: ResponseFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if form.type != "json_schema":
        return {"type": form.type}
    return {
        "type": "json_schema",
        "json_schema": {"name": form.name, "strict": form.strict, "schema": form.schema},
    }


def _thinking(thinking: Thinking | None, flavor: Flavor) -> dict[str, Any]:
    """What the flavor takes of it: a budget, a switch, or an effort, which a budget is turned into."""
    if flavor.thinking == "budget":
        return _budget(thinking, flavor)
    if thinking is None or flavor.thinking == "none":
        return {}
    if flavor.thinking == "switch":
        return {"thinking": {"type": "enabled" if thinking.enabled else "disabled"}}
    return {"reasoning_effort": _effort(thinking)}


def thinking_budget(thinking: Thinking | None, flavor: Flavor) -> int | None:
    """The tokens that a flavor of budgets gives to thinking; None for one that thinks otherwise, or not at all."""
    if flavor.thinking != "budget" or (thinking is not None and not thinking.enabled):
        return None
    if thinking is None or (thinking.budget_tokens is None and thinking.effort is None):
        return flavor.thinks_by_default
    return thinking.budget_tokens or _BUDGETS.get(str(thinking.effort))


def _budget(thinking: Thinking | None, flavor: Flavor) -> dict[str, Any]:
    tokens = thinking_budget(thinking, flavor)
    if tokens is None:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def _effort(thinking: Thinking) -> str:
    if not thinking.enabled:
        return "none"
    if thinking.effort is not None:
        return thinking.effort
    tokens = thinking.budget_tokens
    if tokens is None:
        return "medium"
    return next((word for most, word in _EFFORTS if tokens <= most), "high")
