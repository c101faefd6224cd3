"""The one way to bytes: what goes in comes out, and what cannot is refused before anything is stored."""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import Any, ClassVar, NewType

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import example, given

from agentos import codec
from agentos.components import STORED, Component
from agentos.errors import CodecError
from agentos.events.entry import Registry
from agentos.ids import Address, ConversationId, Digest, Name

texts = st.text(st.characters(codec=None), max_size=20)
"""Any text at all: NUL, lone surrogates, what no encoding knows."""
TAGS = ["$text", "$bytes", "$int", "$object", "$", "$other", "plain", "nul\0", "\ud800"]
keys = st.one_of(st.sampled_from(TAGS), texts)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**300), max_value=2**300),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from(TAGS),
    st.binary(max_size=20),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal, also in type: 1 is not True, and not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other) and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))


@given(values)
@example({"$text": "aGk="})
@example({"$int": "0x1"})
@example({"$object": [["a", 1]]})
@example({"a": {"$bytes": 1}, "$text": None})
@example(2**63)
@example(-(2**63) - 1)
@example(-0.0)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert same(codec.decode_json(codec.encode_json(value)), value)


@given(values)
def test_a_body_is_json_that_every_database_takes(value: Any) -> None:
    body = codec.encode_json(value)

    json.loads(body)
    assert "\0" not in body
    body.encode()


@given(texts)
@example('{"$text":"aGk="}')
@example('{"$text":')
@example('{"$other": 1}')
def test_any_text_comes_back_as_it_was(text: str) -> None:
    body = codec.encode_body(text)

    assert codec.decode_text(body) == text
    assert "\0" not in body
    body.encode()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])).filter(lambda text: text[:1] != "{"))
def test_plain_text_stands_in_its_body_as_people_read_it(text: str) -> None:
    assert codec.encode_body(text) == text


@given(st.dictionaries(texts, st.integers(), min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert codec.encode_json(value) == codec.encode_json(dict(reversed(value.items())))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(number: float) -> None:
    for value in (number, [number], {"a": {"b": [1, number]}}):
        with pytest.raises(CodecError, match="no JSON form"):
            codec.encode_json(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, {1: "a"}, {None: 1}, print, 1j])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        codec.encode_json([value])


@pytest.mark.parametrize("key", ["a", "$a"])
def test_everything_that_may_be_written_may_be_read(key: str) -> None:
    """Nesting is bounded where it is written, so that reading it back never overflows."""
    value: Any = 1
    depth = 0
    while True:
        value = [{key: value}]
        depth += 2
        try:
            body = codec.encode_json(value)
        except CodecError:
            break
        assert same(codec.decode_json(body), value)

    assert depth > codec.DEPTH_MAX


@pytest.mark.parametrize(
    "level", [("[", "]"), ('{"a":', "}"), ('{"$object":[["$a",', "]]}")], ids=["lists", "objects", "tags"]
)
def test_reading_has_a_bound_of_its_own_whatever_this_python_could_bear(level: tuple[str, str]) -> None:
    begin, end = level

    def body(levels: int) -> str:
        return begin * levels + "1" + end * levels

    assert codec.decode_json(body(codec.READ_DEPTH_MAX)) is not None
    with pytest.raises(CodecError, match=f"deeper than {codec.READ_DEPTH_MAX} levels"):
        codec.decode_json(body(codec.READ_DEPTH_MAX + 1))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[1,]",
        "nan",
        "[" * 100_000,
        '{"$int":5}',
        '{"$int":"many"}',
        '{"$text":7}',
        '{"$text":"%%%"}',
        '{"$text":"gA=="}',
        '{"$bytes":["a"]}',
        '{"$bytes":"a"}',
        '{"$object":7}',
        '{"$object":[["a"]]}',
        '{"$object":[[["a"],1]]}',
    ],
)
def test_a_body_that_was_tampered_with_is_an_error_of_ours(body: str) -> None:
    with pytest.raises(CodecError):
        codec.decode_json(body)


def test_a_body_over_the_limit_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "BODY_BYTES_MAX", 10)

    with pytest.raises(CodecError, match="over the limit"):
        codec.decode_json('"12345678901"')


class Colour(Enum):
    RED = "red"


class Inner(msgspec.Struct, frozen=True):
    """A part that holds plain text."""

    text: str


Alias = NewType("Alias", str)


class Good(Component, frozen=True, kw_only=True):
    component: ClassVar[str] = "good"
    name: Name
    digest: Digest
    at: Address
    where: ConversationId | None = None
    colour: Colour = Colour.RED
    counts: dict[Name, int] = {}
    numbers: tuple[int, ...] = ()
    share: float = 0.0
    flag: bool = False


def component(hint: Any) -> Any:
    made: Any = msgspec.defstruct("Bad", [("value", hint)], bases=(Component,), frozen=True, kw_only=True)
    made.component = "bad"
    return made


def test_a_type_of_ids_words_and_numbers_may_be_registered() -> None:
    Registry([*STORED, Good])


@pytest.mark.parametrize(
    "hint",
    [
        str,
        str | None,
        list[str],
        dict[str, int],
        dict[Name, str],
        tuple[int, str],
        Any,
        object,
        bytes,
        list,
        dict,
        dict[Name, list[Any]],
        Inner,
        tuple[Inner, ...],
        Inner | None,
        msgspec.Raw,
    ],
    ids=str,
)
def test_a_type_that_could_carry_private_text_is_refused(hint: Any) -> None:
    with pytest.raises(CodecError, match="Bad"):
        Registry([component(hint)])


def test_two_types_of_one_name_are_refused() -> None:
    other = component(int)
    other.component = "good"

    with pytest.raises(CodecError, match="'good' is registered by Good already"):
        Registry([Good, other])
