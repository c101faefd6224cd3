"""Files that are no whole session are refused with their place, and nothing of them is used."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import SessionRefused
from agentos.history.sessions import (
    Edit,
    EditKind,
    PrintOptions,
    Session,
    Shown,
    edited,
    import_session,
    markdown_of,
    parse,
    read_session,
    session_of,
)
from agentos.history.sessions import source as source_module
from agentos.persistence.memory import MemoryStore
from tests.history.session_files import CUT_OFF, DATA, call, document, llm, partial, tool, user, write
from tests.history.support import assert_history_holds


def refused(path: Path) -> SessionRefused:
    with pytest.raises(SessionRefused) as caught:
        read_session(path)
    return caught.value


def test_the_truncated_file_is_refused_at_the_text_that_nobody_closes() -> None:
    error = refused(DATA / CUT_OFF)

    assert (error.line, error.column, error.offset) == (1, 17390, 17389)
    assert str(error) == f"{DATA / CUT_OFF}:1:17390: unterminated string (the file is cut off) (byte 17,389)"


@given(st.data())
def test_a_session_that_is_cut_anywhere_is_refused(data: st.DataObject) -> None:
    text = json.dumps(
        document(user("hä\n", tools=[tool()]), llm(None, call()), user(None, [call(), "there"])), indent=1
    )
    cut = data.draw(st.integers(0, len(text) - 1))

    with pytest.raises(SessionRefused) as caught:
        session_of(parse(text[:cut], "here"), "here")

    if cut and caught.value.line is not None:
        assert caught.value.line <= text[:cut].count("\n") + 1
        assert (caught.value.offset or 0) <= len(text[:cut].encode())


def test_line_and_column_count_characters_and_the_offset_bytes(tmp_path: Path) -> None:
    error = refused(write(tmp_path, '{"sessionId": "x",\n "ä": "öö", oops}'))

    assert (error.line, error.column) == (2, 13)
    assert error.offset == len('{"sessionId": "x",\n "ä": "öö", '.encode())


def test_of_documents_in_lines_the_last_one_is_told_by_its_own_line(tmp_path: Path) -> None:
    whole = json.dumps(document(user("hi")))
    error = refused(write(tmp_path, f"{whole}\n{whole[:40]}"))

    assert error.line == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n ", "it is empty"),
        ("[]", "the whole: an object is needed here, not a list"),
        ('{"turns": null, "sessionId": "s"}', "it has no turns"),
        ("{}", "it has no turns; a session of agents-exe is an object with sessionId and turns"),
        ('{"turns": NaN, "sessionId": "s"}', "NaN is no JSON"),
        ('{"turns": 1e999, "sessionId": "s"}', ": the number 1e999 is too large"),
        ("[" * 200, "nested deeper than 100 levels (SESSION_DEPTH_MAX)"),
        ('{"turns": ' + "9" * 5_000 + "}", "more than 1,000 digits (INTEGER_DIGITS_MAX)"),
        ('{"turns": [], "sessionId": 5}', "sessionId: a text is needed here, not a number"),
        ('{"turns": [], "sessionId": "s", "sessionVersion": 3}', "sessionVersion: the form 3 of sessions is not known"),
        ('{"turns": {}, "sessionId": "s"}', "turns: a list is needed here, not an object"),
    ],
)
def test_what_is_no_session_says_why(text: str, reason: str, tmp_path: Path) -> None:
    assert reason in str(refused(write(tmp_path, text)))


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"tag": "OtherTurn", "contents": {}}, "turns[0].tag: a turn is one of UserTurn, LlmTurn, PartialUserTurn"),
        ({"contents": {}}, "turns[0].tag: a text is needed here, not nothing"),
        ({"tag": "LlmTurn", "contents": {}}, "turns[0].contents.llmResponse: an object is needed here"),
        (user(5), "turns[0].contents.userQuery: an object is needed here, not a number"),
        (user({"media": []}), "turns[0].contents.userQuery.text: a text is needed here"),
        (
            user(None, [call()]),
            "turns[0].contents.userToolResponses[0]: a call and its response are needed here, not 1",
        ),
        (user(tools=[{"tag": "V2", "contents": {}}]), "turns[0].contents.userTools[0].tag: a tool is V0 or V1"),
        (partial(trackedToolCalls=5), "turns[0].contents.trackedToolCalls: a list is needed here, not a number"),
    ],
)
def test_what_does_not_fit_is_named_by_its_way(turn: Any, reason: str, tmp_path: Path) -> None:
    path = write(tmp_path, document(turn))

    assert str(refused(path)).startswith(f"{path}: {reason}")


def test_bytes_that_are_no_text_are_told_by_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(b'{"sessionId":\n "\xff"}')

    assert str(refused(path)) == f"{path}:2: no UTF-8 (byte 16)"


def test_a_file_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "SESSION_BYTES_MAX", 100)

    assert "longer than 100 bytes (SESSION_BYTES_MAX)" in str(refused(write(tmp_path, "x" * 101)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_whatever_stands_in_a_file_it_is_a_session_or_refused(data: st.DataObject) -> None:
    """What is read can be printed and edited, and becomes a conversation."""
    made: Any = document(
        user({"text": "see", "media": []}, tools=[tool()]),
        llm("I look.", call(), raw={"usage": {}, "choices": [{}]}),
        partial(trackedToolCalls=[{"call": call(), "result": {"type": "mixed", "parts": []}}]),
        user(None, [call(), {"type": "text", "content": "there"}]),
    )
    _put_somewhere(made, data)
    try:
        read = session_of(made, "here")
    except SessionRefused:
        return

    assert "".join(markdown_of(read, PrintOptions(results=Shown.SHOWN, arguments=Shown.ELIDED)))
    assert edited(made, [Edit(kind) for kind in EditKind])
    asyncio.run(_taken(read))


def _put_somewhere(value: Any, data: st.DataObject) -> None:
    """Puts a random value into the place of a random one."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = data.draw(st.sampled_from(places))
        inner = value[place]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            value[place] = data.draw(JSON)
            return
        value = inner


async def _taken(read: Session) -> None:
    store = MemoryStore()
    await import_session(store, await store.open("importer"), read)
    await assert_history_holds(store)
    await store.close()
