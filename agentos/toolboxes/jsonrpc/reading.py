"""Reads what a process answers to `describe`: the tools that it offers. What is wrong with one takes no other with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from agentos.codec import encode_json
from agentos.components import Access, EffectClass, ToolSpec
from agentos.errors import CodecError
from agentos.ids import Name, is_name
from agentos.toolboxes.base import ToolboxProblem

PROTOCOL = 1
TOOLS_MAX = 1_000
DESCRIPTION_CHARS_MAX = 30_000
TIMEOUT_S_MAX = 86_400.0
_KEYS = frozenset({"name", "description", "schema", "effect", "access", "timeout_s"})
W = TypeVar("W", bound=Enum)


class Described(NamedTuple):
    """What a process offers: tools by the name that the process knows, tools that are left out, and what is to be said."""

    tools: dict[str, ToolSpec]
    problems: tuple[ToolboxProblem, ...]
    notes: tuple[ToolboxProblem, ...]


class Wanted(NamedTuple):
    """How the tools are to be named and judged: a prefix, and effect classes in place of what they say of themselves."""

    toolbox: Name
    prefix: str
    effects: Mapping[str, EffectClass]
    call_s: float | None = None
    """How long a call may take of a tool that says nothing of it."""


def read_tools(answer: object, wanted: Wanted) -> Described:
    """Raises ValueError when it is no description at all."""
    if not isinstance(answer, dict) or not isinstance(answer.get("tools"), list):
        raise ValueError(f"describe answered {_shown(answer)}, not an object with a list `tools`")
    protocol = answer.get("protocol", PROTOCOL)
    if protocol != PROTOCOL or type(protocol) is not int:
        raise ValueError(f"describe speaks protocol {_shown(protocol)}; {PROTOCOL} is known here")
    if len(answer["tools"]) > TOOLS_MAX:
        raise ValueError(f"describe lists {len(answer['tools']):,} tools, over {TOOLS_MAX:,}")
    tools: dict[str, ToolSpec] = {}
    problems: list[ToolboxProblem] = []
    notes: list[ToolboxProblem] = []
    for number, value in enumerate(answer["tools"]):
        place = f"tools[{number}]"
        try:
            name, spec = _tool(value, wanted)
            if name in tools:
                raise ValueError(f"the name {name!r} stands twice")
        except ValueError as error:
            problems.append(ToolboxProblem(place, str(error)))
            continue
        tools[name] = spec
        notes += [ToolboxProblem(f"{place}.{key[:80]}", "means nothing here") for key in sorted(value.keys() - _KEYS)]
    unknown = sorted(wanted.effects.keys() - tools.keys())
    problems += [ToolboxProblem(f"effects.{name}", "there is no such tool") for name in unknown]
    return Described(tools, tuple(problems), tuple(notes))


def _tool(value: object, wanted: Wanted) -> tuple[str, ToolSpec]:
    if not isinstance(value, dict):
        raise ValueError(f"it is {_shown(value)}, not an object")
    name = value.get("name")
    if not isinstance(name, str) or not is_name(wanted.prefix + name):
        raise ValueError(f"name {_shown(name)} is no name (letters, digits and _.:/@+-, at most 128)")
    return name, ToolSpec(
        name=Name(wanted.prefix + name),
        description=_description(value.get("description", "")),
        schema=_schema(value.get("schema", {"type": "object", "properties": {}})),
        effect=wanted.effects.get(name) or _word(value, "effect", EffectClass, EffectClass.ONCE),
        access=_word(value, "access", Access, Access.WRITE),
        toolbox=wanted.toolbox,
        timeout_s=_timeout_s(value.get("timeout_s"), wanted.call_s),
    )


def _description(value: object) -> str:
    if not isinstance(value, str) or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"description is {_shown(value)}, not a text")
    if len(value) > DESCRIPTION_CHARS_MAX:
        raise ValueError(f"description has {len(value):,} characters, over {DESCRIPTION_CHARS_MAX:,}")
    return value


def _schema(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("type") != "object":
        raise ValueError(f'schema is {_shown(value)}, not that of an object ("type": "object")')
    try:
        encode_json(value)
    except CodecError as error:
        raise ValueError(f"schema: {error}") from error
    return value


def _word(value: Mapping[str, object], key: str, words: type[W], default: W) -> W:
    said = value.get(key)
    if said is None:
        return default
    for word in words:
        if said == word.value:
            return word
    raise ValueError(f"{key} is {_shown(said)}, none of {', '.join(word.value for word in words if word.value)}")


def _timeout_s(value: object, default_s: float | None) -> float | None:
    if value is None:
        return default_s
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= TIMEOUT_S_MAX:
        raise ValueError(f"timeout_s is {_shown(value)}, not a number of seconds up to {TIMEOUT_S_MAX:g}")
    return float(value)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
