"""What is kept of a process's output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.resources.process.output import Output


@given(chunks=st.lists(st.binary(max_size=40)), limit=st.integers(min_value=8, max_value=64))
def test_the_head_the_tail_and_the_true_size_are_kept(chunks: list[bytes], limit: int) -> None:
    whole, output = b"".join(chunks), Output(limit)
    for chunk in chunks:
        output.add(chunk)

    kept = output.data()

    head, tail = limit - limit // 4, limit // 4
    assert output.total == len(whole)
    assert kept[:head] == whole[:head]
    assert kept[len(kept) - tail :] == whole[len(whole) - tail :] if len(whole) > limit else kept == whole
    assert len(kept) <= limit


@given(text=st.text(min_size=60, max_size=300), size=st.integers(min_value=1, max_value=30))
def test_a_gap_never_breaks_a_character_apart(text: str, size: int) -> None:
    data, output = text.encode(), Output(64)
    for at in range(0, len(data), size):
        output.add(data[at : at + size])

    shown = output.take_text()

    if len(data) <= 64:
        assert shown == text
    elif "[... " in shown:
        head, _, rest = shown.partition("\n[... ")
        tail = rest.partition("bytes left out here ...]\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)
        left_out = int(rest.split(" ")[0].replace(",", ""))
        assert len(head.encode()) + len(tail.encode()) + left_out == len(data)


@pytest.mark.parametrize(
    ("data", "limit", "end"), [(b"abc", 10, "abc"), (b"abcdef", 3, "[...] def"), ("äöü".encode(), 3, "äöü")]
)
def test_the_end_says_when_it_is_not_all(data: bytes, limit: int, end: str) -> None:
    output = Output(100)
    output.add(data)

    assert output.end(limit) == end


@given(chunks=st.lists(st.binary(max_size=40)), limit=st.integers(min_value=8, max_value=64))
def test_bytes_are_all_or_the_first_of_them(chunks: list[bytes], limit: int) -> None:
    whole, output = b"".join(chunks), Output(limit)
    for chunk in chunks:
        output.add(chunk)

    taken = output.take_bytes()

    assert taken == (whole if len(whole) <= limit else whole[: limit - limit // 4])


@given(data=st.binary(min_size=1, max_size=200))
def test_what_is_no_utf_8_is_taken_as_bytes(data: bytes) -> None:
    output = Output(1_000)
    output.add(data)

    taken = output.take()

    assert taken == data if isinstance(taken, bytes) else taken.encode() == data
    assert isinstance(taken, bytes) == (data.decode(errors="ignore").encode() != data)


def test_of_a_long_output_that_is_no_utf_8_the_first_bytes_are_taken() -> None:
    output = Output(16)
    output.add(b"a\xffb" * 100)

    assert output.take() == b"a\xffb" * 4
