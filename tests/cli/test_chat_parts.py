"""The parts of a chat that need no terminal: messages of lines, answers of pieces, the gutter, the history, verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.components import Verdict
from agentos.events.model import ModelDelta
from agentos.ids import LogId
from agentos.interfaces.cli.chat.answer import COLUMNS_MIN, Ending, Gutter, Pieces
from agentos.interfaces.cli.chat.approval import arguments_shown, meant
from agentos.interfaces.cli.chat.commands import is_command
from agentos.interfaces.cli.chat.history import LINE_CHARS_MAX, History
from agentos.interfaces.cli.chat.message import MessageBuilder
from agentos.interfaces.cli.output import visible, width


def messages(*lines: str) -> list[str]:
    builder = MessageBuilder()
    return [message for line in lines if (message := builder.add(line)) is not None]


def test_lines_become_messages() -> None:
    assert messages("one", "", "two\\", "three", '"""', "four\\", "", '"""', "five") == [
        "one",
        "",
        "two\nthree",
        "four\\\n",
        "five",
    ]


def test_a_block_may_begin_and_end_within_its_lines() -> None:
    assert messages('"""one line"""', '  """two', 'lines"""  ', 'no """ block') == [
        "one line",
        "two\nlines",
        'no """ block',
    ]


def test_what_was_begun_can_be_dropped() -> None:
    builder = MessageBuilder()
    builder.add('"""')
    builder.add("half")
    begun = builder.open

    builder.drop()

    assert (begun, builder.open, builder.add("whole")) == (True, False, "whole")


def test_a_command_begins_at_the_edge_and_has_one_line() -> None:
    assert [is_command(text) for text in ("/help", " /help", "a /b", "/a\n/b")] == [True, False, False, False]


def piece(index: int, text: str, request: int = 4) -> ModelDelta:
    return ModelDelta(LogId("conversation_x"), request, 1, index, text)


@given(st.lists(st.text(max_size=5), max_size=8), st.text(max_size=5))
def test_pieces_and_rest_are_the_answer_once(texts: list[str], rest: str) -> None:
    pieces = Pieces()
    pieces.begin(4)

    shown = [pieces.add(piece(n, text)) for n, text in enumerate(texts)]
    ending = pieces.end("".join(texts) + rest, counts=True)

    assert "".join(shown) + ending.rest == "".join(texts) + rest
    assert not ending.void


@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=8), st.data())
def test_after_a_lost_piece_the_whole_answer_comes_at_the_end(texts: list[str], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(texts) - 1))
    pieces = Pieces()
    pieces.begin(4)

    shown = [pieces.add(piece(n, text)) for n, text in enumerate(texts) if n != lost]
    ending = pieces.end("".join(texts), counts=True)

    assert "".join(shown) == "".join(texts[:lost])
    assert ending == Ending("".join(texts[lost:]))


def test_pieces_that_were_cut_are_void_and_those_of_another_request_are_not_shown() -> None:
    pieces = Pieces()
    pieces.begin(4)
    first = pieces.add(piece(0, "Half an ans"))
    cut = pieces.end("Half an ans", counts=False)
    pieces.begin(7)
    late = pieces.add(piece(1, "wer", request=4))
    second = pieces.add(piece(0, "Whole", request=7))

    assert (first, cut) == ("Half an ans", Ending("", void=True))
    assert (late, second, pieces.end("Whole.", counts=True)) == ("", "Whole", Ending("."))


def test_an_answer_that_is_another_than_its_pieces_is_told_anew() -> None:
    pieces = Pieces()
    pieces.begin(4)
    pieces.add(piece(0, "One"))

    assert pieces.end("Another", counts=True) == Ending("Another", void=True, again=True)


@given(st.lists(st.text(max_size=30), max_size=6), st.integers(COLUMNS_MIN, 60))
def test_no_line_of_an_answer_begins_at_the_edge_or_is_broken_by_the_terminal(texts: list[str], columns: int) -> None:
    gutter = Gutter(columns)

    shown = "".join([gutter.feed(text) for text in texts]) + gutter.end()

    lines = shown.split("\n")
    assert all(line == "" or line.startswith("  ") for line in lines)
    assert all(width(line) < columns for line in lines)
    kept = "".join(texts).replace("\t", "    ")
    assert "".join(line[2:] for line in lines) == visible(kept).replace("\n", "")


@given(st.text(max_size=200))
def test_an_argument_is_one_line_whatever_stands_in_it(text: str) -> None:
    (line,) = arguments_shown({"x": text})

    assert "\n" not in visible(line)
    assert json.loads(line.removeprefix('"x": ')) == text


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("y", (Verdict.ALLOW, "")),
        (" YES ", (Verdict.ALLOW, "")),
        ("n", (Verdict.DENY, "")),
        ("no not  now", (Verdict.DENY, "not  now")),
        ("", (None, "")),
        ("ok", (None, "")),
        ("y please", (None, "")),
        ("yn", (None, "")),
        ("allow", (None, "")),
    ],
)
def test_only_a_clear_word_is_a_verdict(said: str, verdict: tuple[Verdict | None, str]) -> None:
    assert meant(said) == verdict


def test_the_history_is_for_its_user_alone_and_bounded(tmp_path: Path) -> None:
    history = History(tmp_path / "state" / "chat_history", lines_max=3)
    for n in range(7):
        history.add(f"line {n}\nsecond")
    history.add("x" * (LINE_CHARS_MAX + 1))

    loaded = History(history.path, lines_max=3).load()

    assert loaded == [f"line {n}\nsecond" for n in (4, 5, 6)]
    assert len(history.path.read_text().splitlines()) == 3
    assert history.path.stat().st_mode & 0o777 == 0o600
    assert history.path.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_no_line_of_the_history_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_bytes(b'lf of a line"\n"good"\n[1]\n\xff\n"last"\n')

    assert History(path).load() == ["good", "last"]


def test_a_history_that_cannot_be_kept_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (tmp_path / "chat_history").symlink_to(elsewhere)
    history = History(tmp_path / "chat_history")

    history.add("one")
    history.add("two")

    assert capsys.readouterr().err.count("what you type is not kept") == 1
    assert elsewhere.read_text() == ""
