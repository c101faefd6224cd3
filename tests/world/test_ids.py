"""Ids: their form, what they sort by, and that nothing else is taken for one (C35)."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from agentos.ids import (
    Kind,
    RandomIds,
    RandomSalts,
    agent_id,
    base32,
    call_id,
    conversation_id,
    hashed_id,
    is_id,
    is_name,
    log_and_seq,
    name_of,
    turn_id,
)
from agentos.testing.ids import SequentialIds, SequentialSalts

FORM = re.compile(r"[a-z]+_[0-7][0123456789abcdefghjkmnpqrstvwxyz]{25}")
OWN = [kind for kind in Kind if kind not in (Kind.TURN, Kind.CALL)]
LOG = hashed_id(Kind.CONVERSATION, "x")
anything = st.text(st.characters(codec=None), max_size=40)


@pytest.mark.parametrize("kind", OWN)
def test_a_new_id_is_its_kind_and_26_letters(kind: Kind) -> None:
    for made in (RandomIds().new(kind), SequentialIds().new(kind), hashed_id(kind, "a", "b")):
        assert FORM.fullmatch(made)
        assert is_id(made, kind)
        assert not any(is_id(made, other) for other in Kind if other is not kind)


def test_new_ids_are_all_different_and_sort_by_their_birth() -> None:
    source, counted = RandomIds(), SequentialIds()
    many = [source.new(Kind.AGENT) for _ in range(10_000)]
    few = [counted.new(Kind.AGENT) for _ in range(1_000)]

    assert len(set(many)) == 10_000
    assert many[0] < many[-1]
    assert few == sorted(set(few))


@given(st.integers(0, 2**128 - 1))
def test_letters_keep_the_order_of_numbers(number: int) -> None:
    assert len(base32(number)) == 26
    assert base32(number) <= base32(2**128 - 1)
    if number:
        assert base32(number - 1) < base32(number)


@given(anything, anything)
@example("a", "a\0")
@example("ab", "c")
def test_hashed_ids_are_equal_for_equal_parts_alone(one: str, other: str) -> None:
    first, second = hashed_id(Kind.AGENT, one), hashed_id(Kind.AGENT, other)

    assert (first == second) == (one == other)
    assert hashed_id(Kind.AGENT, one) == first == agent_id(one)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=3), st.lists(st.text(max_size=5), min_size=1, max_size=3))
@example(["a\0b"], ["a", "b"])
@example(["", "a"], ["a", ""])
@example(["a\\", "b"], ["a", "\\b"])
@example(["a\\0b"], ["a\0b"])
def test_parts_are_told_apart_from_each_other(one: list[str], other: list[str]) -> None:
    equal = hashed_id(Kind.AGENT, *one) == hashed_id(Kind.AGENT, *other)

    assert equal == (one == other)


@given(st.integers(1, 10**17))
def test_a_turn_and_a_call_are_named_by_their_log_and_seq(seq: int) -> None:
    for made in (turn_id(LOG, seq), call_id(LOG, seq)):
        assert log_and_seq(made) == (LOG, seq)
    assert is_id(turn_id(LOG, seq), Kind.TURN)
    assert is_id(call_id(LOG, seq), Kind.CALL)


@given(anything)
@example(LOG + "\n")
@example(LOG.upper())
@example(LOG[:-1])
@example(LOG + "0")
@example("conversation_" + "8" + "0" * 25)
@example("conversation_" + "0" * 25 + "i")
@example("../../etc/passwd")
@example("conversation_../../../../../../../etc")
@example(call_id(LOG, 1))
@example(agent_id("x"))
def test_nothing_else_is_the_id_of_a_conversation(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a conversation"):
        conversation_id(text)


@given(anything)
@example(LOG)
@example(call_id(LOG, 1) + "0" * 30)
@example(f"call_{LOG.partition('_')[2]}_0")
@example(f"call_{LOG.partition('_')[2]}_01")
@example(f"call_{LOG.partition('_')[2]}_-1")
@example(f"call_{LOG.partition('_')[2]}_１")
def test_nothing_else_is_the_id_of_a_turn_or_call(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a turn or a call"):
        log_and_seq(text)


def test_an_error_about_an_id_does_not_repeat_a_long_text() -> None:
    with pytest.raises(ValueError, match="is not") as told:
        conversation_id("x" * 10_000)

    assert len(str(told.value)) < 300


@given(anything)
@example("")
@example("a b")
@example("a" * 200)
@example("naïve")
@example("line\nbreak")
def test_any_text_has_a_name_and_a_name_is_its_own(text: str) -> None:
    name = name_of(text)

    assert is_name(name)
    assert name_of(name) == name
    assert (name == text) == is_name(text)


@given(anything, anything)
def test_two_texts_have_two_names(one: str, other: str) -> None:
    assert (name_of(one) == name_of(other)) == (one == other)


def test_salts_are_sixteen_bytes_and_never_the_same() -> None:
    for source in (RandomSalts(), SequentialSalts()):
        salts = [source.salt() for _ in range(1_000)]

        assert {len(salt) for salt in salts} == {16}
        assert len(set(salts)) == 1_000
