"""A line of a file store is one line whatever it holds, gives back what went in, and shows any byte that changed."""

from __future__ import annotations

import json

import msgspec
import pytest

from agentos.persistence.base import LogRow, Unit
from agentos.persistence.file.lines import (
    Claim,
    Whole,
    decode_brief,
    decode_whole,
    encode_line,
    is_whole,
)
from agentos.persistence.file.units import line_of, stored_entries, unit_of
from agentos.testing.log_units import SALT, LogUnits, post_of, wakeup_of

HEADS = [
    '{"at":1,"kind":"x"}',
    '{"a": "b",\r "c":1}',
    '{"a":\n1}',
    '{"a":1} ',
    '{"a":1}\n',
    '{"a":"\\u0000"}',
    '{"crc":"00000000","op":"unit"}',
    '{"a":NaN}',
    '{"a":',
    '{"a":1}{"b":2}',
    '"a text"',
    '[{"a":1}]',
    "not JSON \0 \x7f \u2028 žluťoučký 🐎",
    "",
    "{}",
]


def full_unit() -> Unit:
    """A unit that brings something of every kind."""
    log = LogUnits("a", 3)
    unit = log.unit("input.received", "snapshot", "call.finished", text='say "hello"\n\0 🐎')
    unit.payloads = [(1, 1, "arguments", SALT, '{"a":\n1}'), (2, 0, "text", None, None)]
    unit.conversation = log.conversation(open_turn=2)
    unit.turns = [(2, "open", None, None, 0, 0, 0, 0, 1, None, "c0ffee")]
    unit.calls = [(3, 2, 0, 0, "note", None, "once", "done", None, 1, None, 1, None, 3, 0, None, None)]
    unit.components = [(log.id, "conversation_state", "{}")]
    unit.resolved = [(3, "done")]
    unit.posts = [post_of("conversation_other", "k\n", '{"x":1}')]
    unit.taken = ["one", "two"]
    unit.wakeups, unit.woken = [wakeup_of(log.id, "retry", 5)], [wakeup_of(log.id, "deadline", 6)]
    unit.definitions = [("d", "agent", '{"prompt":"be\\nkind"}')]
    return unit


def plain(unit: Unit) -> object:
    """A unit without the difference between a list and a tuple."""
    return msgspec.to_builtins(unit)


def read_back(data: bytes) -> Whole:
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert is_whole(data[:-1])
    line = decode_whole(data[:-1])
    assert isinstance(line, Whole)
    return line


def test_a_unit_comes_back_as_it_was() -> None:
    unit = full_unit()
    again = unit_of(read_back(encode_line(line_of(unit))))

    assert plain(again) == plain(unit)
    assert again.entries == unit.entries
    assert again.payloads == unit.payloads
    assert again.messages == unit.messages


@pytest.mark.parametrize("head", HEADS)
def test_a_head_comes_back_byte_for_byte(head: str) -> None:
    unit = LogUnits("a", 1).unit()
    unit.entries = [(*unit.entries[0][:6], head, unit.entries[0][7])]
    data = encode_line(line_of(unit))
    line = read_back(data)

    assert stored_entries(line)[0].head == head
    assert unit_of(line).entries == unit.entries
    assert json.loads(data)["op"] == "unit"


def test_a_person_reads_the_head_as_the_object_that_it_is() -> None:
    unit = LogUnits("a", 1).unit("input.received", text="hello")
    shown = json.loads(encode_line(line_of(unit)))

    assert shown["entries"][0]["head"]["kind"] == "input.received"
    assert [(said["role"], said["text"]) for said in shown["messages"]] == [("user", "hello")]
    assert list(shown)[:4] == ["crc", "op", "log", "seq"]


def test_what_is_read_without_the_texts_says_the_same_of_the_log() -> None:
    unit = full_unit()
    brief = decode_brief(encode_line(line_of(unit))[:-1])

    for name in ("log", "seq", "digest", "previous_seq", "previous", "owner", "epoch", "create", "conversation"):
        assert getattr(brief, name) == getattr(unit, name)
    assert msgspec.to_builtins((brief.posts, brief.taken, brief.wakeups)) == msgspec.to_builtins(  # type: ignore[union-attr]
        (unit.posts, unit.taken, unit.wakeups)
    )
    assert brief.snapshots == (2,)  # type: ignore[union-attr]
    assert [(said.seq, said.role) for said in brief.messages] == [(1, "user")]  # type: ignore[union-attr]


def test_no_byte_of_a_line_can_change_unseen() -> None:
    line = encode_line(Claim(log="conversation_a", owner=1, epoch=2, seq=3, digest=bytes(32)))[:-1]

    for place in range(len(line)):
        for bit in (0x01, 0x80):
            assert not is_whole(line[:place] + bytes([line[place] ^ bit]) + line[place + 1 :])
        assert not is_whole(line[:place])


def test_an_erased_value_fits_in_the_place_of_the_value() -> None:
    """What the format promises to a later erase: same length, still JSON, and both parts are gone."""
    unit = LogUnits("a", 1).unit(text="x")
    line = encode_line(line_of(unit))
    (said,) = json.loads(line)["messages"]
    salt, text = json.dumps(said["salt"]).encode(), json.dumps(said["text"]).encode()
    erased = line.replace(salt, b"null".ljust(len(salt))).replace(
        b'"text":' + text, b'"text":' + b'""'.ljust(len(text))
    )
    (after,) = json.loads(erased)["messages"]

    assert len(erased) == len(line)
    assert (after["salt"], after["text"]) == (None, "")


def test_the_row_of_a_new_log_is_kept_whole() -> None:
    unit = LogUnits("a", 1).unit()
    unit.create = LogRow(
        id=unit.log, kind="agent", owner=1, epoch=1, seq=0, digest=b"\0\xff", root="r", parent_call="call_x",
        tenant="t", forked_from="conversation_b", upto=7,
    )  # fmt: skip

    assert unit_of(read_back(encode_line(line_of(unit)))).create == unit.create
