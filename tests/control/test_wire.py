"""Values, entries and errors come out of a line as they went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import errors
from agentos.errors import (
    AgentosError,
    CodecError,
    ControlRefused,
    ConversationBusy,
    EraseHasForks,
    InputRefused,
    KernelClosed,
    SessionRefused,
    StoreBusy,
    UnknownAgent,
)
from agentos.events.entry import ERASED, Entry, RawData, Registry, raw_component
from agentos.events.kinds import InputReceived
from agentos.ids import LogId, Micros, Name
from agentos.kernel.control.faults import REGISTRY, Fault, error_of, fault_from, fault_of
from agentos.kernel.control.wire import Answer, Request, as_entry, line_of, read_line
from agentos.kernel.control.words import WORDS
from agentos.secrets import KeyUnknown

TEXT = st.text(st.characters(codec=None))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)


@given(JSON)
def test_every_value_comes_out_as_it_went_in(value: Any) -> None:
    line = line_of(Answer(1, value=value))

    assert line.count(b"\n") == 1
    read = read_line(line[:-1], Answer)
    assert read.value == value or (value is None and read.value is msgspec.UNSET)


@given(TEXT, JSON)
def test_a_request_keeps_what_it_gives(word: str, value: Any) -> None:
    request = Request(1, word, {"it": value})

    assert read_line(line_of(request)[:-1], Request) == request


@given(st.lists(st.tuples(st.sampled_from(["text", "result"]), JSON | st.just(ERASED)), max_size=3), st.booleans())
def test_an_entry_keeps_its_texts_and_what_this_program_does_not_know(private: Any, known: bool) -> None:
    unknown = RawData(name=Name("star.exploded"), value=msgspec.Raw(b'{"size":9}'))
    entry = Entry(
        data=InputReceived(key=Name("k")) if known else unknown,
        turn=4,
        call=7,
        changes=((0, raw_component("colour", {"hue": 3})), (4, raw_component("mood", [1]))),
        private=tuple(private),
        by=Name("ann"),
        log=LogId("conversation_x"),
        seq=9,
        unit=8,
        at=Micros(1),
        writer=2,
    )

    read = read_line(line_of(Answer(1, item=entry))[:-1], Answer)
    assert as_entry(read.item, Registry()) == entry


SAMPLES: tuple[AgentosError, ...] = (
    UnknownAgent("x", ["a", "b"]),
    ConversationBusy("conversation_x", 3),
    KernelClosed(),
    StoreBusy("sqlite:///x", "locked"),
    SessionRefused("f.json", "no", line=3, column=4),
    EraseHasForks("conversation_x", ["conversation_y"]),
    ControlRefused("no"),
)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_keeps_class_words_and_attributes(error: AgentosError) -> None:
    read = read_line(line_of(Answer(1, error=msgspec.to_builtins(fault_of(error))))[:-1], Answer)
    back = error_of(fault_from(read.error))

    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_class_of_ours_can_come_back(name: str) -> None:
    back = error_of(Fault(name, "words", {"conversation": "x"}))

    assert type(back) is getattr(errors, name)
    assert (str(back), vars(back)["conversation"]) == ("words", "x")


def test_an_attribute_that_no_line_can_say_is_left_out() -> None:
    error = InputRefused("no such weight")
    error.weight, error.limit = float("nan"), 2.5  # type: ignore[attr-defined]

    assert fault_of(error).attributes == {"limit": 2.5}


def test_an_error_of_another_module_comes_as_what_it_is_of_ours() -> None:
    back = error_of(fault_of(KeyUnknown("k", [])))

    assert type(back) is errors.ConfigurationError
    assert "no key 'k'" in str(back)


@pytest.mark.parametrize("name", ["SystemExit", "os.system", "__class__", "AgentosErrorX", ""])
def test_a_class_that_is_not_in_the_registry_is_a_refusal(name: str) -> None:
    assert type(error_of(Fault(name, "words"))) is ControlRefused


def test_attributes_reach_nothing_but_attributes() -> None:
    back = error_of(Fault("KernelClosed", "words", {"__class__": "x", "_hidden": 1, "not a name": 2, "fine": 3}))

    assert type(back) is KernelClosed
    assert vars(back) == {"fine": 3}


@pytest.mark.parametrize("plain", [None, [], {}, {"name": 1, "words": "x"}, {"name": "x"}])
def test_an_error_that_cannot_be_read_says_so(plain: Any) -> None:
    with pytest.raises(CodecError):
        fault_from(plain)


def test_the_page_for_operators_lists_the_words_that_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    listed = page.partition("The words are `")[2].partition("`")[0].split()

    assert sorted(listed) == sorted(WORDS)
