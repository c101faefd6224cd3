"""What `describe` prints is read as it was meant, and each assumption is told; what may mean two things is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agentos.components import Access, EffectClass
from agentos.toolboxes.script.form import Argument, Arity, EmptyResult, Mode, invocation_of, schema_of
from agentos.toolboxes.script.reading import Described, read_description

WHOLE = {
    "name": "text",
    "description": "the text",
    "type": "string",
    "backing_type": "string",
    "arity": "single",
    "mode": "positional",
}


def said(**more: Any) -> dict[str, Any]:
    return {"slug": "tool", "description": "Works.", "args": [WHOLE], **more}


def read(value: Any) -> Described:
    return read_description(json.dumps(value).encode())


def argument(**more: Any) -> tuple[Argument, tuple[str, ...]]:
    """One argument that says only these keys, and the notes."""
    described = read(said(args=[{"name": "text", "description": "the text", **more}]))
    return described.form.args[0], described.notes


def test_a_whole_description_needs_no_note() -> None:
    described = read(
        said(
            **{"empty-result": {"tag": "AddMessage", "contents": "none"}, "output-media-type": "image/png"},
            effect="pure",
            access="read",
            progress=True,
            portal=True,
            protocol=1,
        )
    )

    form = described.form
    assert described.notes == ()
    assert form.args == (Argument("text", "the text", "string", "string", Arity.SINGLE, Mode.POSITIONAL),)
    assert (form.empty_result, form.media_type) == (EmptyResult("AddMessage", "none"), "image/png")
    assert (form.effect, form.access) == (EffectClass.PURE, Access.READ)
    assert (form.progress, form.portal, form.protocol) == (True, True, 1)


def test_a_script_has_neither_progress_nor_a_portal_unless_it_asks() -> None:
    form = read(said()).form

    assert (form.progress, form.portal) == (False, False)


def test_required_in_place_of_backing_type_arity_and_mode_is_the_older_form_of_positional_arguments() -> None:
    """As the skill scripts of agents-exe have it, which read $1 and $2."""
    described = read(
        {
            "slug": "to-images",
            "description": "Turns pages into pictures.",
            "args": [
                {"name": "pdf", "description": "the file", "type": "string", "required": True},
                {"name": "folder", "description": "where to", "type": "string", "required": False},
            ],
        }
    )

    assert [(arg.arity, arg.mode, arg.backing_type) for arg in described.form.args] == [
        (Arity.SINGLE, Mode.POSITIONAL, "string"),
        (Arity.OPTIONAL, Mode.POSITIONAL, "string"),
    ]
    assert schema_of(described.form)["required"] == ["pdf"]
    assert invocation_of(described.form, {"pdf": "a.pdf"}).argv == ["a.pdf"]
    assert described.notes == (
        "argument 'pdf': no backing_type; string was assumed",
        "argument 'pdf': no arity; single was assumed",
        "argument 'pdf': no mode; positional was assumed",
        "argument 'folder': no backing_type; string was assumed",
        "argument 'folder': no arity; optional was assumed",
        "argument 'folder': no mode; positional was assumed",
    )


@pytest.mark.parametrize(
    ("type_", "backing"),
    [("int", "integer"), ("number", "number"), ("Bool", "boolean"), ("filepath", "string"), ("text", "string")],
)
def test_a_backing_type_that_is_not_said_follows_the_type(type_: str, backing: str) -> None:
    found, notes = argument(type=type_, arity="single", mode="stdin")

    assert (found.type, found.backing_type) == (type_, backing)
    assert notes == (f"argument 'text': no backing_type; {backing} was assumed",)


def test_an_unknown_backing_type_is_text() -> None:
    found, notes = argument(type="filepath", backing_type="path", arity="single", mode="stdin")

    assert found.backing_type == "string"
    assert notes == ("argument 'text': backing_type 'path'; string was assumed",)


@pytest.mark.parametrize(
    ("key", "word", "meant"),
    [
        ("arity", "Optional", "optional"),
        ("arity", "SINGLE", "single"),
        ("mode", "DashDashSpace", "dashdashspace"),
        ("mode", "dash-dash-equal", "dashdashequal"),
        ("mode", "STDIN", "stdin"),
    ],
)
def test_a_word_in_another_spelling_is_the_word(key: str, word: str, meant: str) -> None:
    found, notes = argument(type="string", backing_type="string", **{"arity": "single", "mode": "stdin", key: word})

    assert getattr(found, key).value == meant
    assert notes == (f"argument 'text': {key} {word!r} was read as {meant!r}",)


def test_a_key_in_another_spelling_is_the_key() -> None:
    described = read(said(emptyResult={"Tag": "doNothing"}, output_media_type="text/csv", Effect="Pure"))

    assert described.form.empty_result == EmptyResult("DoNothing")
    assert described.form.media_type == "text/csv"
    assert described.form.effect is EffectClass.PURE
    assert "describe: 'emptyResult' was read as 'empty-result'" in described.notes
    assert "empty-result: tag 'doNothing' was read as 'DoNothing'" in described.notes


def test_a_bare_do_nothing_stands_for_its_object() -> None:
    described = read(said(**{"empty-result": "DoNothing"}))

    assert described.form.empty_result == EmptyResult("DoNothing")
    assert len(described.notes) == 1


def test_what_is_not_said_is_nothing_and_told() -> None:
    described = read({"slug": "tool"})

    assert (described.form.description, described.form.args) == ("", ())
    assert described.notes == (
        "describe: no description: whoever reads it knows the name alone",
        "describe: no args: a tool without arguments was assumed",
    )


def test_a_key_that_means_nothing_is_told() -> None:
    assert read(said(efect="pure")).notes == ("describe: the key 'efect' means nothing here and is left out",)


def test_a_slug_that_not_every_provider_takes_is_told() -> None:
    assert "some providers take only" in read(said(slug="notes.find")).notes[0]


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"\xef\xbb\xbf", b"", "describe: a byte order mark stands before the object"),
        (b"loading...\n", b"", "describe: printed 11 characters before the object, which were left out"),
        (b"", b"\nbye {}", "describe: printed 7 characters after the object, which were left out"),
        (b'{"level": "info"}\n{', b"\nbye", "describe: printed 19 characters before and 4 characters after"),
    ],
)
def test_what_is_printed_around_the_object_is_left_out_and_told(before: bytes, after: bytes, note: str) -> None:
    described = read_description(before + json.dumps(said()).encode() + after)

    assert described.form == read(said()).form
    assert described.notes[0].startswith(note)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "describe printed [], not an object"),
        ({"description": "no slug"}, "describe: the key 'slug' is missing"),
        (said(slug="two words"), "describe: slug 'two words' is no name"),
        (said(slug=7), "describe: slug is 7, not a text"),
        (said(args={"text": WHOLE}), "describe: args is {"),
        (said(args=["text"]), 'describe: args: number 1 is "text", not an object'),
        (said(args=[WHOLE, WHOLE]), "describe: args: two arguments are named 'text'"),
        (said(args=[{**WHOLE, "name": ""}]), "argument 1: the key 'name' is missing or blank"),
        (said(args=[{**WHOLE, "name": "a\nb"}]), "its name has characters that cannot be shown"),
        (said(args=[{**WHOLE, "arity": "many"}]), "argument 'text': arity is \"many\", none of single, optional"),
        (said(args=[{**WHOLE, "mode": "json"}]), "none of positional, dashdashspace, dashdashequal, stdin, env"),
        (said(args=[{**WHOLE, "required": False}]), "which contradict each other"),
        (said(args=[{"name": "a", "Mode": "stdin", "MODE": "env"}]), "'Mode' and 'MODE' may both be 'mode'"),
        (said(args=[{**WHOLE, "name": "--depth", "mode": "dashdashspace"}]), "its name cannot stand after --"),
        (said(args=[{**WHOLE, "name": "a=b", "mode": "dashdashequal"}]), "its name cannot stand after --"),
        (said(args=[{**WHOLE, "name": "a-b", "mode": "env"}]), "its name cannot be that of an environment variable"),
        (said(effect="maybe"), 'describe: effect is "maybe", none of pure, idempotent, once'),
        (said(**{"empty-result": "nothing found"}), 'empty-result is "nothing found", not an object with a tag'),
        (said(**{"empty-result": {}}), "empty-result: the key 'tag' is missing: DoNothing or AddMessage"),
        (said(**{"empty-result": {"tag": "Say"}}), 'empty-result: tag is "Say", none of DoNothing, AddMessage'),
        (said(**{"empty-result": {"tag": "AddMessage"}}), "empty-result: AddMessage needs contents"),
        (said(**{"output-media-type": "png"}), "output-media-type 'png' is no media type"),
        (said(portal="yes"), 'describe: portal is "yes", neither true nor false'),
        (said(protocol=2), "the script speaks protocol 2, this program up to 1; use a newer agentos"),
        (said(protocol="one"), 'protocol is "one"; the only one is 1'),
        (said(protocol=True), "protocol is true; the only one is 1"),
    ],
)
def test_what_is_wrong_or_unclear_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read(value)


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "PYTHONSTARTUP", "AGENTOS_PORTAL", "ld_library_path", "IFS"])
def test_no_model_sets_a_variable_that_other_programs_obey(name: str) -> None:
    with pytest.raises(ValueError, match="other programs obey"):
        read(said(args=[{**WHOLE, "name": name, "mode": "env"}]))


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (b"", "describe printed nothing"),
        (b"usage: tool FILE", "describe did not print a description: Expecting value at line 1, column 1"),
        (b'{"slug": "tool", "args": [', "describe did not print a description"),
        (b'{"slug": "a"}\n{"slug": "b"}', "describe printed 2 descriptions; one is needed"),
        (b'{"slug": "a", "slug": "b"}', "the key 'slug' stands twice in one object"),
        (b'log\n{"slug": "a", "slug": "b"}', "the key 'slug' stands twice in one object"),
        (b'{"slug": "caf\xe9"}', "describe did not print UTF-8: byte 13 is 0xe9"),
        (json.dumps({"slug": "a"}).encode("utf-16"), "describe did not print UTF-8: byte 0 is 0xff"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"slug": "a", "description": "\\ud800"}', "description holds half of a surrogate pair"),
    ],
)
def test_what_is_no_description_is_refused(printed: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_description(printed)


def test_a_flood_of_braces_is_searched_within_a_bound() -> None:
    with pytest.raises(ValueError, match="did not print a description"):
        read_description(b"{" * 100_000 + json.dumps(said()).encode())
