"""What a script says of itself, and how a call's arguments reach it. See `reading` for how it is read.

`EXE describe` prints one JSON object:

    slug, description     text
    args                  a list of {name, description, type, backing_type, arity, mode}
        backing_type      string, number, integer or boolean; type says what it stands for, for readers
        arity             single (required) or optional
        mode              positional, dashdashspace, dashdashequal, stdin or env
    empty-result          optional: {tag: DoNothing} or {tag: AddMessage, contents: text}
    output-media-type     optional: the output is text unless this says otherwise (image/png)
    effect, access        optional: once, idempotent or pure; read or write
    progress              optional: true to keep the last line that it printed, again and again, as progress of the call
    portal                optional: true to let it call other tools of its agent (see `portal`)
    protocol              optional: the version of all this, 1

`EXE run ARGS` follows the order of args: positional gives the value; dashdashspace --name and the value; dashdashequal
--name=value; stdin arguments are joined, each followed by a newline; env sets a variable of that name. An optional
argument that is absent or null gives nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from agentos.components import Access, EffectClass

PROTOCOL = 1
"""The version of describe and run that this program speaks."""


class Arity(Enum):
    SINGLE = "single"
    OPTIONAL = "optional"


class Mode(Enum):
    POSITIONAL = "positional"
    DASHDASHSPACE = "dashdashspace"
    DASHDASHEQUAL = "dashdashequal"
    STDIN = "stdin"
    ENV = "env"


class Argument(msgspec.Struct, frozen=True):
    name: str
    description: str
    type: str
    backing_type: str
    arity: Arity
    mode: Mode


class EmptyResult(msgspec.Struct, frozen=True):
    """What stands for an empty output: the output as it is (DoNothing), or contents (AddMessage)."""

    tag: str
    contents: str = ""


class ScriptForm(msgspec.Struct, frozen=True, kw_only=True):
    """A script's description of itself, whole and checked."""

    slug: str
    description: str
    args: tuple[Argument, ...]
    empty_result: EmptyResult | None = msgspec.field(name="empty-result", default=None)
    media_type: str | None = msgspec.field(name="output-media-type", default=None)
    effect: EffectClass = EffectClass.ONCE
    access: Access = Access.WRITE
    progress: bool = False
    portal: bool = False
    protocol: int = PROTOCOL


class Invocation(msgspec.Struct, frozen=True):
    """What `run` is given: arguments, the text of stdin or None for none, and added variables."""

    argv: list[str]
    stdin: str | None
    environment: dict[str, str]


def schema_of(form: ScriptForm) -> dict[str, Any]:
    """The JSON Schema of the arguments.

    It bears a number where text is wanted, and the other way about, since each value reaches the script as text.
    """
    return {
        "type": "object",
        "properties": {argument.name: _property(argument) for argument in form.args},
        "required": [argument.name for argument in form.args if argument.arity is Arity.SINGLE],
        "additionalProperties": False,
    }


def invocation_of(form: ScriptForm, values: Mapping[str, Any]) -> Invocation:
    """How these values reach the script.

    Errors: ValueError naming a value that no process can be given, or an argument that is unknown or missing: the gate
    judged the call by what the script said of itself when the turn began, and it may have been edited since.
    """
    _check_names(form, values)
    argv: list[str] = []
    lines: list[str] = []
    environment: dict[str, str] = {}
    for argument in form.args:
        value = values.get(argument.name)
        if value is None:
            continue
        text = _text(argument, value)
        if argument.mode is Mode.STDIN:
            lines.append(f"{text}\n")
        elif argument.mode is Mode.ENV:
            environment[argument.name] = text
        else:
            argv.extend(_words(argument, text))
    return Invocation(argv, "".join(lines) if lines else None, environment)


_TYPES = {
    "number": ["number", "string"],
    "integer": ["integer", "string"],
    "boolean": ["boolean", "string"],
}
_TEXT = ["string", "number", "boolean"]


def _property(argument: Argument) -> dict[str, Any]:
    types = _TYPES.get(argument.backing_type, _TEXT)
    kind = "" if argument.type in ("", argument.backing_type) else f" ({argument.type})"
    return {
        "type": types if argument.arity is Arity.SINGLE else [*types, "null"],
        "description": f"{argument.description}{kind}",
    }


def _check_names(form: ScriptForm, values: Mapping[str, Any]) -> None:
    known = {argument.name for argument in form.args}
    needed = {argument.name for argument in form.args if argument.arity is Arity.SINGLE}
    unknown = sorted(values.keys() - known)
    missing = sorted(name for name in needed if values.get(name) is None)
    if unknown or missing:
        wrong = [*(f"{name} is no argument" for name in unknown), *(f"{name} is missing" for name in missing)]
        raise ValueError(f"{'; '.join(wrong)}; {form.slug} takes {', '.join(sorted(known)) or 'no arguments'}")


def _text(argument: Argument, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text and argument.mode is not Mode.STDIN:
        raise ValueError(f"{argument.name} holds a NUL character, which no process can be given")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{argument.name} holds half of a surrogate pair, which is no text") from error
    return text


def _words(argument: Argument, text: str) -> list[str]:
    if argument.mode is Mode.POSITIONAL:
        return [text]
    if argument.mode is Mode.DASHDASHSPACE:
        return [f"--{argument.name}", text]
    return [f"--{argument.name}={text}"]
