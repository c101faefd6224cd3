"""Reads what `EXE describe` printed, and bears with what its author must have meant.

Whatever had to be assumed is a note, and the tool works:

    said                                          read as
    a byte order mark; text around the object     the one object in it that has a slug
    Single, DASHDASHSPACE, dash-dash-space        the word in its own form
    emptyResult, output_media_type                empty-result, output-media-type
    no description or type                        nothing, and the backing type
    no args                                       none
    no backing_type                               what type says, else string
    no arity                                      single, or optional when `required` is false
    no mode                                       positional: scripts that leave it out read $1, $2
    empty-result: "DoNothing"                     {tag: DoNothing}
    a key that means nothing here                 left out

What might mean several things is refused: two descriptions, a key or an argument twice, a word near no other, `required`
against `arity`, a name that its mode cannot carry or that other programs obey, a newer protocol.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from agentos.components import Access, EffectClass
from agentos.ids import is_name
from agentos.toolboxes.script.describe_json import Keys, object_with, shown, squeezed
from agentos.toolboxes.script.form import PROTOCOL, Argument, Arity, EmptyResult, Mode, ScriptForm

NAME_CHARS_MAX = 128

_BACKING = {"string": "string", "number": "number", "integer": "integer", "boolean": "boolean"}
_BACKING_MEANT = {**_BACKING, "str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean"}
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]*/[A-Za-z0-9][\w.+-]*( *;.*)?")
_EVERYWHERE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OPTION = re.compile(r"[^\s=\x00-\x1f\x7f-][^\s=\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OBEYED = re.compile(
    r"(AGENT_|AGENTOS_|LD_|DYLD_|LC_|GIT_|PYTHON|PERL5|RUBY|NODE_|BASH).*"
    r"|PATH|HOME|IFS|ENV|CDPATH|SHELLOPTS|PS4|SHELL|USER|LANG|TMPDIR"
)
"""Variables that the system, a shell or an interpreter acts on: no model may set them."""


class Described(msgspec.Struct, frozen=True):
    """A description, and what had to be assumed for it."""

    form: ScriptForm
    notes: tuple[str, ...]


def read_description(printed: bytes) -> Described:
    """Raises ValueError saying what is wrong with it."""
    notes: list[str] = []
    form = _form(Keys(object_with("slug", printed, notes), "describe", notes))
    return Described(form, tuple(notes))


def _form(keys: Keys) -> ScriptForm:
    _check_protocol(keys)
    slug = keys.text("slug")
    if slug is None:
        raise keys.wrong("the key 'slug' is missing")
    if not is_name(slug):
        raise keys.wrong(f"slug {slug[:80]!r} is no name (letters, digits and _.:/@+-)")
    if not _EVERYWHERE.fullmatch(slug):
        keys.note(f"slug {slug[:80]!r}: some providers take only letters, digits, _ and -, at most 64 of them")
    form = ScriptForm(
        slug=slug,
        description=_description(keys),
        args=_arguments(keys),
        empty_result=_empty_result(keys),
        media_type=_media_type(keys),
        effect=keys.word("effect", EffectClass, EffectClass.ONCE),
        access=keys.word("access", Access, Access.WRITE),
        progress=keys.switch("progress") or False,
        portal=keys.switch("portal") or False,
    )
    keys.rest()
    return form


def _check_protocol(keys: Keys) -> None:
    version = keys.get("protocol")
    if version is None or (version == PROTOCOL and not isinstance(version, bool)):
        return
    if isinstance(version, int) and not isinstance(version, bool) and version > PROTOCOL:
        raise keys.wrong(f"the script speaks protocol {version}, this program up to {PROTOCOL}; use a newer agentos")
    raise keys.wrong(f"protocol is {shown(version)}; the only one is {PROTOCOL}")


def _description(keys: Keys) -> str:
    text = keys.text("description")
    if text is None:
        keys.note("no description: whoever reads it knows the name alone")
    return text or ""


def _arguments(keys: Keys) -> tuple[Argument, ...]:
    said = keys.get("args")
    if said is None:
        keys.note("no args: a tool without arguments was assumed")
        return ()
    if not isinstance(said, list):
        raise keys.wrong(f"args is {shown(said)}, not a list")
    found: dict[str, Argument] = {}
    for number, value in enumerate(said, 1):
        if not isinstance(value, dict):
            raise keys.wrong(f"args: number {number} is {shown(value)}, not an object")
        argument = _argument(Keys(value, f"argument {number}", keys.notes))
        if argument.name in found:
            raise keys.wrong(f"args: two arguments are named {argument.name!r}")
        found[argument.name] = argument
    return tuple(found.values())


def _argument(keys: Keys) -> Argument:
    name = keys.text("name")
    if not name:
        raise keys.wrong("the key 'name' is missing or blank")
    keys.place = f"argument {name[:80]!r}"
    type_ = keys.text("type")
    backing = _backing_type(keys, type_)
    argument = Argument(
        name=name,
        description=_description(keys),
        type=backing if type_ is None else type_,
        backing_type=backing,
        arity=_arity(keys),
        mode=_mode(keys),
    )
    _check_name(keys, argument)
    keys.rest()
    return argument


def _backing_type(keys: Keys, type_: str | None) -> str:
    said = keys.text("backing_type")
    if said in _BACKING:
        return said
    meant = _BACKING_MEANT.get((said if said is not None else type_ or "").lower(), "string")
    keys.note(f"{'no backing_type' if said is None else f'backing_type {said[:80]!r}'}; {meant} was assumed")
    return meant


def _arity(keys: Keys) -> Arity:
    required = keys.switch("required")
    default = Arity.OPTIONAL if required is False else Arity.SINGLE
    if (said := keys.get("arity")) is None:
        keys.note(f"no arity; {default.value} was assumed")
        return default
    arity = keys.word("arity", Arity, default)
    if required is not None and arity is not default:
        raise keys.wrong(f"arity is {shown(said)} and required is {shown(required)}, which contradict each other")
    return arity


def _mode(keys: Keys) -> Mode:
    if keys.get("mode") is None:
        keys.note("no mode; positional was assumed")
    return keys.word("mode", Mode, Mode.POSITIONAL)


def _check_name(keys: Keys, argument: Argument) -> None:
    name, mode = argument.name, argument.mode
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise keys.wrong(f"its name has characters that cannot be shown, or over {NAME_CHARS_MAX} of them")
    if mode in (Mode.DASHDASHSPACE, Mode.DASHDASHEQUAL) and not _OPTION.fullmatch(name):
        raise keys.wrong(f"its name cannot stand after --: no blank, no = and no - at its begin ({mode.value})")
    if mode is Mode.ENV and not _VARIABLE.fullmatch(name):
        raise keys.wrong("its name cannot be that of an environment variable")
    if mode is Mode.ENV and _OBEYED.fullmatch(name.upper()):
        raise keys.wrong("its name is that of a variable which other programs obey; choose another one")


def _empty_result(keys: Keys) -> EmptyResult | None:
    said = keys.get("empty-result")
    if said is None:
        return None
    if isinstance(said, str) and squeezed(said) == "donothing":
        keys.note(f"empty-result {said!r} was read as {{tag: DoNothing}}")
        return EmptyResult("DoNothing")
    if not isinstance(said, dict):
        raise keys.wrong(f"empty-result is {shown(said)}, not an object with a tag")
    inside = Keys(said, "empty-result", keys.notes)
    tag = inside.word("tag", _Tag, _Tag.MISSING)
    contents = inside.text("contents")
    inside.rest()
    if tag is _Tag.MISSING:
        raise inside.wrong("the key 'tag' is missing: DoNothing or AddMessage")
    if tag is _Tag.ADD_MESSAGE and contents is None:
        raise inside.wrong("AddMessage needs contents")
    return EmptyResult(tag.value, contents or "")


class _Tag(Enum):
    DO_NOTHING = "DoNothing"
    ADD_MESSAGE = "AddMessage"
    MISSING = ""


def _media_type(keys: Keys) -> str | None:
    said = keys.text("output-media-type")
    if said is None:
        return None
    if not _MEDIA_TYPE.fullmatch(said.strip()):
        raise keys.wrong(f"output-media-type {said[:80]!r} is no media type such as text/plain or image/png")
    return said.partition(";")[0].strip().lower()
