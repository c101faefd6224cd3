"""A model without a model: it makes the calls that the user's message spells out, then says what came of them.

    word_count path=README.md
    search pattern="to be done" limit:=5 where={"in": ["docs"]}

Each line that begins with the name of an offered tool is one call; all calls go out at once. A value is text where the
tool takes text, else JSON where it reads as a number, true, false, null, a list or an object; a quoted value is text,
and name:=value is JSON always. Other lines are repeated in the answer. `help` lists the tools, `word_count?` tells of
that one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentos.components import ToolSpec
from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall
from agentos.models.base import OnDelta
from agentos.models.script import last_input
from agentos.models.tokens import usage_of

PIECE_CHARS = 24
PIECES_MAX = 64
_HELP = ("help", "?", "tools", "tool?", "tools?")


class LineProblem(ValueError):
    """A line that begins like a call and is none; says why."""


class DirectModel:
    """Reads calls from the last message. Needs no network, no key and no state."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        reply = self._reply(request)
        for piece in _pieces(reply.text):
            on_delta(piece)
        return msgspec.structs.replace(reply, usage=usage_of(request, reply))

    async def close(self) -> None:
        return None

    def _reply(self, request: ModelRequest) -> ModelReply:
        tools = {str(tool.name): tool for tool in request.context.tools}
        calls, said = _read(last_input(request), tools)
        results = _results(request.messages)
        if results:
            return ModelReply("\n".join([*results, *said]))
        if calls:
            return ModelReply(calls=tuple(calls), finish=Finish.TOOL_USE)
        if not said:
            said = ["Nothing was asked for. 'help' lists the tools."]
        return ModelReply("\n".join(said))


def _read(text: str, tools: Mapping[str, ToolSpec]) -> tuple[list[ToolCall], list[str]]:
    """The calls that a message spells out, and what is to be said of its other lines."""
    calls: list[ToolCall] = []
    said: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name = line.split(None, 1)[0]
        if line.lower() in _HELP:
            said.extend(_listed(tools))
        elif name in tools:
            try:
                calls.append(ToolCall(name, _arguments(line[len(name) :], tools[name])))
            except LineProblem as problem:
                said.append(f"{line}\n  not called: {problem}; {_usage(tools[name])}")
        elif line.endswith("?") and line[:-1] in tools:
            said.append(_described(tools[line[:-1]]))
        else:
            said.append(line)
    return calls, said


def _arguments(text: str, tool: ToolSpec) -> dict[str, Any]:
    """name=value pairs. Raises LineProblem."""
    properties = tool.schema.get("properties", {})
    arguments: dict[str, Any] = {}
    while text := text.lstrip():
        name, mark, rest = _name(text)
        value, text = _value(rest, forced=mark == ":=", as_text=_takes_text(properties.get(name)))
        arguments[name] = value
    return arguments


def _name(text: str) -> tuple[str, str, str]:
    word = text.split(None, 1)[0]
    name, equals, _ = word.partition("=")
    mark = ":=" if name.endswith(":") else "="
    name = name.removesuffix(":")
    if not equals or not name:
        raise LineProblem(f"{word!r} is not name=value")
    return name, mark, text[len(name) + len(mark) :]


def _value(text: str, *, forced: bool, as_text: bool) -> tuple[Any, str]:
    """The value that a text begins with, and what comes after it. Raises LineProblem."""
    if text[:1] in ("{", "[") or forced:
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError) as error:
            if forced:
                raise LineProblem(f"no JSON after ':=': {error}") from error
        else:
            if not as_text or forced:
                return value, _after(text, end)
    quoted = text[:1] in ("'", '"')
    word, rest = _word(text)
    return word if quoted or as_text else _json_or_text(word), rest


def _after(text: str, end: int) -> str:
    if text[end : end + 1].strip():
        raise LineProblem(f"{text[end:].split(maxsplit=1)[0]!r} follows a value without a space")
    return text[end:]


def _word(text: str) -> tuple[str, str]:
    """One word as a shell would read it; a backslash outside of quotes is itself."""
    if not text or text[0].isspace():
        return "", text
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    if text[0] == '"':
        lexer.escape = "\\"
    try:
        word = lexer.get_token()
    except ValueError as error:
        raise LineProblem("a quote is never closed") from error
    stream: Any = lexer.instream
    return word or "", text[stream.tell() :]


def _json_or_text(word: str) -> Any:
    """A number, true, false or null, else the text. NaN and Infinity are text."""
    try:
        return msgspec.json.decode(word)
    except msgspec.DecodeError:
        return word


def _takes_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    types = schema.get("type")
    if types == "string" or (isinstance(types, Sequence) and "string" in types):
        return True
    return any(_takes_text(option) for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())))


def _results(messages: Sequence[Message]) -> list[str]:
    """What to say of each result after the last reply, in the order of the calls."""
    results: list[Message] = []
    for message in reversed(messages):
        if message.role is not Role.TOOL:
            asked = {call.id: call for call in message.calls}
            return [_result(result, asked.get(result.call_id)) for result in reversed(results)]
        results.append(message)
    return []


def _result(message: Message, call: ToolCall | None) -> str:
    arguments = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    asked = " ".join([message.name, *(f"{name}={json.dumps(value)}" for name, value in arguments.items())])
    lines = message.text.rstrip("\n").split("\n")
    return f"{asked}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{asked}:", *(f"  {line}" for line in lines)])


def _listed(tools: Mapping[str, ToolSpec]) -> Iterator[str]:
    yield "Tools:" if tools else "This agent has no tools."
    for tool in tools.values():
        about = tool.description.strip().split("\n")[0]
        yield f"  {_usage(tool)}" + (f"  - {about}" if about else "")


def _usage(tool: ToolSpec) -> str:
    """name argument=type [argument=type]"""
    needed = tool.schema.get("required", ())
    words = [f"{name}={_type(schema)}" for name, schema in tool.schema.get("properties", {}).items()]
    marked = [word if word.partition("=")[0] in needed else f"[{word}]" for word in words]
    return " ".join([tool.name, *marked])


def _described(tool: ToolSpec) -> str:
    lines = [_usage(tool), *(f"  {line}" for line in tool.description.strip().splitlines())]
    for name, schema in tool.schema.get("properties", {}).items():
        about = schema.get("description") if isinstance(schema, Mapping) else None
        lines.append(f"  {name}: {about or _type(schema)}")
    return "\n".join(lines)


def _type(schema: Any) -> str:
    """The type of an argument in a word or two."""
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    types = schema.get("type")
    if isinstance(types, str):
        return types
    if isinstance(types, Sequence):
        return str(types[0])
    options = [_type(option) for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))]
    return "|".join(option for option in options if option != "null") or "any"


def _pieces(text: str) -> Iterator[str]:
    size = max(PIECE_CHARS, -(-len(text) // PIECES_MAX))
    for start in range(0, len(text), size):
        yield text[start : start + size]
