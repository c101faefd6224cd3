"""The parts of agents-exe's turns in all their forms: questions, tools, calls, results, pictures."""

from __future__ import annotations

import json
from typing import Any

from agentos.history.sessions.fields import Node, inside, word
from agentos.history.sessions.model import Call, Media, Result, Tool
from agentos.history.sessions.source import arguments_of

UNNAMED = "unknown"
"""The name of a call that names no tool; agents-exe calls it so too."""
_WRAPPER = "_userToolResponse"


def query_of(node: Node) -> tuple[str | None, tuple[Media, ...]]:
    """A text, or an object with text and media; None when nothing was asked."""
    if node.value is None or isinstance(node.value, str):
        return node.value, ()
    return node.get("text").text(), tuple(media_of(one) for one in node.get("media").items())


def media_of(node: Node) -> Media:
    """In an attachment, and in a response."""
    value = node.object()
    data = word(value.get("base64Data"))
    return Media(mime=word(value.get("mimeType")), name=word(value.get("filename")), bytes=_decoded_bytes(data))


def said(media: Media) -> str:
    """What stands for it in a text."""
    return f"[{media.mime}{f' {media.name}' if media.name else ''}, {media.bytes:,} bytes]"


def tool_of(node: Node) -> Tool:
    """V1 with its fields, V0 with the form of the provider alone."""
    tag, contents = node.get("tag").text(), node.get("contents")
    if tag not in ("V0", "V1"):
        node.get("tag").refuse(f"a tool is V0 or V1, not {tag[:40]!r}")
    if tag == "V0":
        return _provider_tool(contents.value)
    inner = _provider_tool(contents.get("raw").value)
    name = contents.get("llmName").text()
    return Tool(
        name=name,
        own_name=contents.get("name").text(),
        description=contents.get("description").text(),
        schema=inner.schema,
    )


def _provider_tool(raw: Any) -> Tool:
    function = inside(raw, "function") or raw
    schema = inside(function, "parameters") or inside(function, "input_schema")
    return Tool(
        name=word(inside(function, "name")) or UNNAMED,
        description=word(inside(function, "description")),
        schema=schema if isinstance(schema, dict) else None,
    )


def call_of(value: Any) -> Call:
    """In the form of a provider: {id, function: {name, arguments}}, or {id, name, arguments or input}."""
    function = inside(value, "function")
    said_in = function if isinstance(function, dict) else value
    name = word(inside(said_in, "name"))
    if not name:
        return Call(name=UNNAMED, arguments=arguments_of(value), id=word(inside(value, "id")))
    arguments = inside(said_in, "arguments")
    if arguments is None:
        arguments = inside(said_in, "input")
    return Call(name=name, arguments=arguments_of(arguments), id=word(inside(value, "id")))


def pair_of(node: Node) -> Result:
    """A call and its response, as a list of two."""
    pair = list(node.items())
    if len(pair) != 2:
        node.refuse(f"a call and its response are needed here, not {len(pair)} values")
    return result_of(call_of(pair[0].value), pair[1])


def result_of(call: Call, node: Node) -> Result:
    """A response: text, json, media or mixed by its tag; else, as older files have it, whatever value, maybe wrapped."""
    value = node.value
    if isinstance(value, dict):
        read = _TAGGED.get(word(value.get("type")))
        if read is not None and (result := read(call, node)) is not None:
            return result
        if _WRAPPER in value:
            value = value[_WRAPPER]
    return _untagged(call, value)


def _untagged(call: Call, value: Any) -> Result:
    return (
        Result(call=call, text=value) if isinstance(value, str) else Result(call=call, text=_json(value), value=value)
    )


def _text(call: Call, node: Node) -> Result | None:
    content = node.object().get("content")
    return Result(call=call, text=content) if isinstance(content, str) else None


def _json_response(call: Call, node: Node) -> Result | None:
    if "content" not in node.object():
        return None
    return _untagged(call, node.object()["content"])


def _media(call: Call, node: Node) -> Result | None:
    if not {"mimeType", "base64Data"} <= node.object().keys():
        return None
    media = media_of(node)
    return Result(call=call, text=said(media), media=(media,))


def _mixed(call: Call, node: Node) -> Result | None:
    """Texts and media in turn; None when a part is neither."""
    if not isinstance(node.object().get("parts"), list):
        return None
    texts: list[str] = []
    media: list[Media] = []
    for part in node.get("parts").items():
        content = inside(part.value, "content")
        if isinstance(content, dict) and "mimeType" in content:
            media.append(media_of(part.get("content")))
            content = said(media[-1])
        if not isinstance(content, str):
            return None
        texts.append(content)
    return Result(call=call, text="\n".join(texts), media=tuple(media))


_TAGGED = {"text": _text, "json": _json_response, "media": _media, "mixed": _mixed}


def _decoded_bytes(data: str) -> int:
    """How many bytes base64 stands for."""
    letters = len(data.rstrip("="))
    return letters * 3 // 4


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
