"""Results of every type and size as the text that a model reads (cases C23, C24)."""

from __future__ import annotations

import base64
import enum
import uuid
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pydantic
import pytest

from agentos.codec import decode_text, encode_body
from agentos.resources.process.partial import attach_partial, partial_of
from agentos.toolboxes.results import Media, ResultRefused, media_text, render, text_of


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    when: date | None = None


class Row(msgspec.Struct):
    name: str
    tags: set[str]


class Model(pydantic.BaseModel):
    amount: Decimal
    inner: list[Point] = []


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(no result)"),
        ("", ""),
        ("as it is", "as it is"),
        ({}, "{}"),
        ({"b": 1, "a": [True, None]}, '{"b": 1, "a": [true, null]}'),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        (10**30, "1" + "0" * 30),
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], '["Infinity", "-Infinity"]'),
        (Decimal("1.10"), "1.10"),
        ({"price": Decimal("1.10")}, '{"price": "1.10"}'),
        (set(), "[]"),
        ({3, 1, 2}, "[1, 2, 3]"),
        ({"b", 1}, '["b", 1]'),
        (frozenset({"b", "a"}), '["a", "b"]'),
        (datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC), "2026-05-04T03:02:01+00:00"),
        (datetime(2026, 5, 4, 3, 2, tzinfo=timezone(timedelta(hours=2))), "2026-05-04T03:02:00+02:00"),
        (datetime(2026, 5, 4, 3, 2, 1), "2026-05-04T03:02:01"),  # noqa: DTZ001 - naive on purpose
        (date(2026, 5, 4), "2026-05-04"),
        (time(3, 2), "03:02:00"),
        (timedelta(minutes=2), "120.0"),
        (b"hello", "(5 bytes, base64) aGVsbG8="),
        (bytearray(b"\xff"), "(1 bytes, base64) /w=="),
        (Colour.RED, "red"),
        ([Level.HIGH], "[3]"),
        (PurePosixPath("a/b"), "a/b"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Point(1, date(2026, 1, 2)), '{"x": 1, "when": "2026-01-02"}'),
        (Row("r", {"b", "a"}), '{"name": "r", "tags": ["a", "b"]}'),
        (Model(amount=Decimal("2.50"), inner=[Point(1)]), '{"amount": "2.50", "inner": [{"x": 1, "when": null}]}'),
        (Pair(1, "x"), '{"left": 1, "right": "x"}'),
        ((1, 2), "[1, 2]"),
        (deque([1, 2]), "[1, 2]"),
        (range(3), "[0, 1, 2]"),
        (OrderedDict(z=1), '{"z": 1}'),
        ({1: "a", None: "b", date(2026, 1, 2): "c"}, '{"1": "a", "(no result)": "b", "2026-01-02": "c"}'),
        ("grüß \0 \ud800", "grüß \0 \ud800"),
        (["\ud800", "ü"], '["\ud800", "ü"]'),
    ],
)
def test_every_value_has_its_documented_text(value: object, text: str) -> None:
    rendered = render(value, 10_000)

    assert (rendered.text, rendered.whole) == (text, None)
    assert decode_text(encode_body(rendered.text)) == text


def cyclic() -> list[Any]:
    inside: list[Any] = []
    inside.append({"again": inside})
    return inside


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None: ...


class Odd: ...


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (cyclic(), "a list that contains itself"),
        (deep(), "a value nested deeper than 100 levels"),
        (generator(), "a value of type generator"),
        (object(), "a value of type object"),
        ({"odd": Odd()}, "a value of type Odd"),
        (Odd, "a value of type type"),
        ({1: "a", "1": "b"}, "a dict with two keys that both read '1'"),
        pytest.param(1 << 100_000, "an integer of 100,001 bits", id="huge integer"),
        (ValueError("returned, not raised"), "a value of type ValueError"),
    ],
)
def test_what_has_no_text_is_refused_by_its_type(value: object, what: str) -> None:
    with pytest.raises(ResultRefused) as caught:
        render(value, 10_000)

    assert caught.value.what == what


def test_a_coroutine_is_refused_and_closed() -> None:
    # Were it left open, Python would warn that it was never awaited, and a warning fails the test.
    with pytest.raises(ResultRefused, match="a value of type coroutine"):
        render(coroutine(), 10_000)


def test_the_same_part_twice_is_no_cycle() -> None:
    part = [1]

    assert render([part, part], 100).text == "[[1], [1]]"


def test_a_huge_result_shows_its_head_its_tail_and_its_true_size() -> None:
    whole = "a" * 3_000_000 + "z" * 2_000_000

    rendered = render(whole, 1_000)

    assert len(rendered.text) <= 1_000
    assert rendered.text.startswith("a" * 700)
    assert rendered.text.endswith("z" * 200)
    assert " of 5,000,000 characters left out here ...]" in rendered.text
    assert rendered.whole == whole


@pytest.mark.parametrize("limit", [1, 10, 59, 60, 61, 62, 63, 64, 65, 99, 100, 101])
def test_the_limit_holds_whatever_it_is(limit: int) -> None:
    rendered = render("x" * 100, limit)

    assert len(rendered.text) <= limit
    assert (rendered.whole is None) == (limit >= 100)


def test_the_number_of_left_out_characters_is_right() -> None:
    text = render("x" * 5_000, 500).text

    left_out = int(text.split("[... ")[1].split(" ")[0].replace(",", ""))
    assert text.count("x") - "characters left out here".count("x") + left_out == 5_000


def test_a_partial_output_is_found_behind_the_timeout_that_replaced_the_cancellation() -> None:
    cancelled = TimeoutError()
    inner = KeyError()
    attach_partial(inner, "so far")
    cancelled.__cause__ = inner

    assert partial_of(cancelled) == "so far"
    assert partial_of(ValueError()) == ""


def test_bytes_of_a_media_type_are_shown_while_they_are_few() -> None:
    picture = Media("image/png", b"\x89PNG", 4)

    assert render(picture, 1_000) == ("image/png (4 bytes, base64) iVBORw==", None)
    assert text_of({"picture": picture}) == '{"picture": "image/png (4 bytes, base64) iVBORw=="}'


def test_many_bytes_of_a_media_type_are_kept_beside_one_line_about_them() -> None:
    data = bytes(range(256)) * 40

    shown = render(Media("image/png", data, len(data)), 1_000)

    assert shown.text == "(image/png, 10,240 bytes that are no text: they are kept with the call, not shown here)"
    assert shown.whole is not None
    head, _, encoded = shown.whole.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(encoded) == data


def test_a_line_about_bytes_keeps_to_the_limit() -> None:
    shown = render(Media("image/png", bytes(1_000), 1_000), 200)

    assert len(shown.text) <= 200
    assert shown.whole == media_text(Media("image/png", bytes(1_000), 1_000))
