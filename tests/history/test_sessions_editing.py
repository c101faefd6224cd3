"""Edits of session files: what is taken, dropped and censored, and that all else stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.history.sessions import COUNTED, Edit, EditKind, edited, session_of
from tests.history.session_files import DATA, WHOLE, call, document, llm, partial, user

NINE = document(*(user(str(n)) for n in range(9)), anything={"else": [1, 2]})
THOUGHTS = {"reasoning_content": "secret", "content": [{"type": "thinking", "thinking": "secret"}, {"type": "text"}]}


def left(*edits: Edit) -> list[str]:
    """The questions that are left, in the order of the file: newest first."""
    return [turn["contents"]["userQuery"] for turn in edited(NINE, edits)["turns"]]


@pytest.mark.parametrize(
    ("kind", "turns", "questions"),
    [
        (EditKind.TAKE, 1, "8"),
        (EditKind.TAKE, 3, "876"),
        (EditKind.TAKE, 99, "876543210"),
        (EditKind.TAKE, 0, ""),
        (EditKind.TAKE, -3, ""),
        (EditKind.TAKE_TAIL, 3, "210"),
        (EditKind.TAKE_TAIL, 99, "876543210"),
        (EditKind.TAKE_TAIL, 0, ""),
        (EditKind.TAKE_TAIL, -3, ""),
        (EditKind.DROP, 3, "543210"),
        (EditKind.DROP, 99, ""),
        (EditKind.DROP, 0, "876543210"),
        (EditKind.DROP, -3, "876543210"),
        (EditKind.DROP_TAIL, 3, "876543"),
        (EditKind.DROP_TAIL, 99, ""),
        (EditKind.DROP_TAIL, 0, "876543210"),
        (EditKind.DROP_TAIL, -3, "876543210"),
    ],
)
def test_turns_are_taken_and_dropped(kind: EditKind, turns: int, questions: str) -> None:
    assert "".join(left(Edit(kind, turns))) == questions


def test_edits_are_done_from_left_to_right() -> None:
    assert left(Edit(EditKind.DROP, 2), Edit(EditKind.TAKE, 3)) == ["6", "5", "4"]
    assert left(Edit(EditKind.TAKE, 3), Edit(EditKind.DROP, 2)) == ["6"]


@given(st.lists(st.tuples(st.sampled_from(sorted(COUNTED, key=str)), st.integers(-2, 11)), max_size=4))
def test_several_edits_are_one_after_the_other(pairs: list[tuple[EditKind, int]]) -> None:
    one_by_one: dict[str, Any] = NINE
    for kind, turns in pairs:
        one_by_one = edited(one_by_one, [Edit(kind, turns)])

    assert edited(NINE, [Edit(*pair) for pair in pairs]) == one_by_one


def test_all_that_is_not_edited_stays_and_the_given_document_too() -> None:
    before = json.dumps(NINE)
    after = edited(NINE, [Edit(kind) for kind in EditKind])

    assert {key: after[key] for key in NINE if key != "turns"} == {key: NINE[key] for key in NINE if key != "turns"}
    assert json.dumps(NINE) == before
    assert edited(NINE, []) == NINE


def test_censored_calls_are_nowhere_in_the_session() -> None:
    raw = {
        "choices": [{"message": {"content": "said", "tool_calls": [call("secret")]}}],
        "content": [{"type": "tool_use", "name": "secret"}],
    }
    made = document(
        user("a"),
        llm("said", call("secret"), raw=raw),
        partial(trackedToolCalls=[{"call": call("secret"), "state": "Ready"}]),
        partial(completedResponses=[[call("secret"), "secret"]], pendingCalls=[call("secret")]),
        user(None, [call("secret"), "secret"]),
    )
    after = edited(made, [Edit(EditKind.CENSOR_TOOL_CALLS)])

    assert "secret" not in json.dumps(after)
    assert "said" in json.dumps(after)
    assert len(session_of(after, "here").turns) == 5


def test_censored_thinking_is_nowhere_in_the_session() -> None:
    raw = {"choices": [{"message": THOUGHTS}]}
    after = edited(document(llm("said", raw=raw, responseThinking="secret")), [Edit(EditKind.CENSOR_THINKING)])
    response = after["turns"][0]["contents"]["llmResponse"]

    assert "secret" not in json.dumps(after)
    assert response["responseText"] == "said"
    assert response["responseThinking"] is None
    assert response["rawResponse"] == {"choices": [{"message": {"content": [{"type": "text"}]}}]}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", EditKind)
def test_what_is_left_of_a_real_session_is_a_session(name: str, kind: EditKind) -> None:
    after = edited(json.loads((DATA / name).read_text()), [Edit(kind, 2)])
    read = session_of(after, "here")

    if kind is EditKind.CENSOR_TOOL_CALLS:
        assert '"tool_calls":' not in json.dumps(after)
    if kind is EditKind.CENSOR_THINKING:
        assert "reasoning_content" not in json.dumps(after)
    assert len(read.turns) == len(after["turns"])
