"""The part of the contract of stores about values: each comes back as it was, and what has no form never goes in; see
`store_contract`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from agentos import codec
from agentos.errors import CodecError
from agentos.persistence.base import PayloadRow, Store, StoredEntry, Unit, Verdict
from agentos.testing.log_units import SALT, LogUnits, append, opened

EXAMPLES_MAX = 15
"""How many lists of made-up values each adapter is given."""

_TEXTS = st.text(st.characters(codec=None), max_size=20)
_TAGS = st.sampled_from(["$text", "$bytes", "$int", "$object", "$", "$other", "plain", "nul\0", "\ud800", "\udfff🐎"])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**300), 2**300),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXTS,
    _TAGS,
    st.binary(max_size=20),
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(_TAGS, _TEXTS), inner, max_size=4)),
    max_leaves=15,
)
"""Any private value: text of every kind, numbers of every size, bytes, and lists and objects of these."""


def nested(depth: int, key: str | None = None) -> Any:
    """Lists in lists, or objects in objects, so many levels deep."""
    value: Any = 0
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


KNOWN: dict[str, Any] = {
    "NUL": "a\0b",
    "a lone high surrogate": "a\ud800b",
    "a lone low surrogate": "\udc00",
    "an emoji": "🐎 and \U0010ffff",
    "no text": "",
    "a text like a tag": '{"$text":"aGk="}',
    "a text like JSON": '{"a": [1, null]}',
    "line ends": "a\r\nb\rc\u2028d\x0be",
    "a byte order mark": "\ufeffa",
    "text in two forms": ["\u00e9", "e\u0301"],
    "bytes": bytes(range(256)),
    "no bytes": b"",
    "the largest of 64 bits": [2**63 - 1, -(2**63)],
    "beyond 64 bits": [2**63, -(2**63) - 1, 2**64, 10**1_000],
    "negative zero": -0.0,
    "a subnormal number": 5e-324,
    "large and small numbers": [1.7976931348623157e308, 2.2250738585072014e-308, 0.1, 1e22, 1e16],
    "one three times": [1, 1.0, True],
    "nothing three times": [None, False, 0],
    "an object like a tag": {"$text": "aGk="},
    "objects like tags": [{"$int": "0x1"}, {"$object": [["a", 1]]}, {"$bytes": 1}, {"$other": {"$text": None}}],
    "keys of every kind": {"": 1, "$": 2, "a\0": 3, "\ud800": 4, "b": 5, "A": 6},
    "lists to the bound": nested(codec.DEPTH_MAX),
    "objects to the bound": nested(codec.DEPTH_MAX, "a"),
    "tagged objects to the bound": nested(codec.DEPTH_MAX, "$a"),
    "a stored constructor": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "id"}},
    "a pickle": b"cos\nsystem\n(S'echo harm'\ntR.",
    "a pickle as text": "cos\nsystem\n(S'echo harm'\ntR.",
    "a tag of Python": "!!python/object/apply:os.system ['id']",
}
"""Values that other programs have lost, changed, or run."""


class CodecContract:
    """Private values through payloads, messages and what waits."""

    @pytest.mark.parametrize("value", KNOWN.values(), ids=KNOWN.keys())
    async def test_a_value_that_others_have_lost_comes_back_as_it_was(
        self, store_factory: Callable[[], Store], value: Any
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            assert await append(store, unit_of(log, [value])) == [Verdict.STORED]

            (found,) = values_in(await store.entries(log.id))
            assert same(found, value)
            if isinstance(value, str):
                await append(store, log.unit(text=codec.encode_body(value)))
                ((_, _, _, body),) = (await store.entries(log.id))[-1].payloads
                assert codec.decode_text(body or "") == value

    @settings(
        max_examples=EXAMPLES_MAX,
        deadline=None,
        suppress_health_check=[
            *(HealthCheck.function_scoped_fixture, HealthCheck.differing_executors),
            HealthCheck.too_slow,  # a slow machine is no failure
        ],
    )
    @given(values=st.lists(VALUES, min_size=1, max_size=12), texts=st.lists(_TEXTS, min_size=1, max_size=6))
    async def test_any_values_come_back_as_they_were(
        self, store_factory: Callable[[], Store], values: list[Any], texts: list[str]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits(f"writer {writer}", writer)
            batch = [unit_of(log, values), *(log.unit(text=codec.encode_body(text)) for text in texts)]
            await append(store, *batch)
            entries = await store.entries(log.id)

            found = values_in(entries[:1])
            assert [same(one, other) for one, other in zip(found, values, strict=True)] == [True] * len(values)
            assert [codec.decode_text(entry.payloads[0][3] or "") for entry in entries[1:]] == texts

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    async def test_a_number_that_is_none_is_refused_before_anything_is_stored(
        self, store_factory: Callable[[], Store], number: float
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            for value in (number, [number], {"a": {"b": [1, number]}}):
                with pytest.raises(CodecError, match="no JSON form"):
                    unit_of(log, [value])

            assert await store.logs() == []

    async def test_a_value_that_is_too_deep_is_refused_before_anything_is_stored(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            for value in (nested(codec.DEPTH_MAX + 1), nested(100_000), nested(codec.DEPTH_MAX + 1, "$a")):
                with pytest.raises(CodecError, match=f"deeper than {codec.DEPTH_MAX} levels"):
                    unit_of(log, [value])

            assert await store.logs() == []

    @pytest.mark.parametrize(
        "body",
        [
            "[" * 100_000 + "]" * 100_000,
            '{"a":' * 100_000 + "1" + "}" * 100_000,
            "[1e999]",
            "[NaN]",
            "-Infinity",
            '{"$int":"' + "9" * 10_000 + '"',
            '{"$text":"%%%"}',
            '{"$object":[["a"]]}',
            "\x80\x04\x95",
        ],
        ids=["deep lists", "deep objects", "too large", "NaN", "Infinity", "cut", "no text", "no pair", "a pickle"],
    )
    async def test_a_body_that_was_tampered_with_is_raw_text_to_the_store_and_an_error_to_its_reader(
        self, store_factory: Callable[[], Store], body: str
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(payloads=[(1, 0, "result", SALT, body)]))
            ((_, _, _, found),) = (await store.entries(log.id))[0].payloads

            assert found == body
            with pytest.raises(CodecError):
                codec.decode_json(body)

    async def test_a_body_over_the_limit_is_refused_before_it_is_parsed(
        self, store_factory: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, unit_of(log, ["x" * 1_000]))
            monkeypatch.setattr(codec, "BODY_BYTES_MAX", 1_000)
            entries = await store.entries(log.id)

            with pytest.raises(CodecError, match="1002 characters is over the limit of 1000"):
                values_in(entries)

    @pytest.mark.parametrize("type_", ["os.system", "subprocess.Popen", "builtins.eval", "agentos.codec.decode_json"])
    async def test_a_component_of_an_unknown_type_stays_raw(
        self, store_factory: Callable[[], Store], type_: str
    ) -> None:
        body = '{"lc":1,"type":"constructor","id":["os","system"],"kwargs":{"command":"id"}}'
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(components=[(log.id, type_, body)]))

            assert (await store.query("select type, body from entities")).rows == [(type_, body)]


def unit_of(log: LogUnits, values: list[Any]) -> Unit:
    """The next unit of a log, whose entry holds these values. Raises CodecError, and then the log is as it was."""
    payloads: list[PayloadRow] = [(log.seq + 1, i, "result", SALT, codec.encode_json(v)) for i, v in enumerate(values)]
    return log.unit(payloads=payloads)


def values_in(entries: list[StoredEntry]) -> list[Any]:
    """The values that entries of `unit_of` hold. Raises CodecError."""
    return [codec.decode_json(body or "") for entry in entries for _, _, _, body in entry.payloads]


def same(one: Any, other: Any) -> bool:
    """Equal, also in type and in the sign of zero: 1 is not True, and not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other) and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))
