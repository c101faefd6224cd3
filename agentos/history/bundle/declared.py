"""What the definitions of a bundle would have run where they came from: told to whoever imports it, and never run by that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentos import codec
from agentos.components import AgentContext
from agentos.errors import CodecError
from agentos.history.lineage.tree import printable

NAMES_MAX = 200
"""How many of each are told."""
SHOWN_CHARS = 200
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_COMMANDS = frozenset({"command", "args", "path", "paths"})
_HOSTS = frozenset({"url", "base_url", "openapi", "endpoint"})
_VARIABLES = frozenset({"env", "environment", "api_key_env", "key_env"})


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """Names alone, sorted, each once: no value of a variable, and of a URL only its host.

    toolboxes stand with their kind; commands are programs and the files that toolboxes are made of; hosts are those of
    servers; environment are the variables that would be read.
    """

    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    toolboxes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


def declared_by(definitions: Iterable[tuple[str, str]]) -> Declared:
    """definitions are kind and body. One that cannot be read declares nothing."""
    found: dict[str, set[str]] = {name: set() for name in Declared.__struct_fields__}
    for kind, body in definitions:
        try:
            value = codec.decode_json(body)
        except CodecError:
            continue
        if kind == "context":
            _note_context(value, found)
        for what, text in _walk(value):
            found[what].add(text)
    return Declared(**{what: _shown(texts) for what, texts in found.items()})


def _note_context(value: Any, found: dict[str, set[str]]) -> None:
    try:
        context = codec.convert(value, AgentContext)
    except CodecError:
        return
    found["agents"].add(context.slug)
    found["models"].add(" ".join(filter(None, (context.model.kind, context.model.name))))
    found["toolboxes"].update(tool.toolbox for tool in context.tools if tool.toolbox is not None)


def _walk(value: Any) -> Iterator[tuple[str, str]]:
    """What stands under the keys that name something to run, at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield from _under(key, inner)
            waiting += [inner for key, inner in value.items() if key != "schema"]


def _under(key: str, value: Any) -> Iterator[tuple[str, str]]:
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    if key in _COMMANDS and texts:
        yield "commands", " ".join(texts)
    elif key in _HOSTS:
        yield from (("hosts", host) for text in texts if (host := _host(text)))
    elif key in _VARIABLES:
        names = value if isinstance(value, dict) else texts
        yield from (("environment", str(name)) for name in names)
    for text in texts if key in _COMMANDS | _HOSTS else ():
        yield from (("environment", name) for name in _VARIABLE.findall(text))


def _host(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def _shown(texts: set[str]) -> tuple[str, ...]:
    return tuple(printable(text[:SHOWN_CHARS]) for text in sorted(texts)[:NAMES_MAX] if text)
