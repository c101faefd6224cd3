"""Session files of agents-exe: every form they were ever written in gives the same session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.history.sessions import Session, calls_of, read_session, session_of
from agentos.history.sessions.model import Call, Media, ModelTurn, Tokens, UserTurn
from tests.history.session_files import DATA, WHOLE, call, document, llm, partial, session, tool, user, write

COUNTS = {
    "activation-session.json": (8, 2),
    "conv.0a648c17-d7b5-4838-bb35-956aac37bc93.json": (0, 0),
    "conv.ab93852d-88c9-4057-adf0-0ff526050ec3.json": (2, 0),
    "gh-118.session.json": (8, 8),
    "gh-157.session.json": (12, 6),
    "gh-75.session.json": (12, 5),
    "sqq-ordering.session.json": (10, 4),
    "turn-v0.001.json": (2, 0),
}
PIXEL = {"mimeType": "image/png", "base64Data": "aGVsbG8=", "filename": "a.png"}


def told(query: Any = None, *results: list[Any], **more: Any) -> UserTurn:
    (turn,) = session(user(query, *results, **more)).turns
    assert isinstance(turn, UserTurn)
    return turn


@pytest.mark.parametrize("name", WHOLE)
def test_a_real_session_is_read_whole(name: str) -> None:
    read = read_session(DATA / name)

    assert (len(read.turns), len(calls_of(read))) == COUNTS[name]
    assert read.id == json.loads((DATA / name).read_text())["sessionId"]
    assert all(one.result is not None for one in calls_of(read))


def test_turns_are_told_oldest_first() -> None:
    read = read_session(DATA / "activation-session.json")

    queries = [turn.query for turn in read.turns if isinstance(turn, UserTurn) and turn.query is not None]
    assert queries == ["call the activation tool with argument ask-user", "do you have a ask_user tool now?"]


@pytest.mark.parametrize("version", [None, 1, 2])
def test_every_version_is_read(version: int | None) -> None:
    assert session(user("hi"), sessionVersion=version).version == version


@pytest.mark.parametrize(
    ("response", "text", "value", "media"),
    [
        ("plain", "plain", None, ()),
        ({"rows": [1]}, '{"rows":[1]}', {"rows": [1]}, ()),
        ([1, None], "[1,null]", [1, None], ()),
        ({"type": "text", "content": "plain"}, "plain", None, ()),
        ({"type": "json", "content": {"rows": 1}}, '{"rows":1}', {"rows": 1}, ()),
        ({"type": "json", "content": "a text"}, "a text", None, ()),
        (
            {"type": "media", **PIXEL},
            "[image/png a.png, 5 bytes]",
            None,
            (Media(mime="image/png", name="a.png", bytes=5),),
        ),
        (
            {"type": "mixed", "parts": [{"type": "text", "content": "see"}, {"type": "media", "content": PIXEL}]},
            "see\n[image/png a.png, 5 bytes]",
            None,
            (Media(mime="image/png", name="a.png", bytes=5),),
        ),
        ({"_userToolResponse": "wrapped"}, "wrapped", None, ()),
        ({"_userToolResponse": {"a": 1}}, '{"a":1}', {"a": 1}, ()),
        ({"type": "dog", "name": "Rex"}, '{"type":"dog","name":"Rex"}', {"type": "dog", "name": "Rex"}, ()),
        ({"type": "mixed", "parts": "none"}, '{"type":"mixed","parts":"none"}', {"type": "mixed", "parts": "none"}, ()),
    ],
)
def test_a_response_is_read_in_every_form(response: Any, text: str, value: Any, media: tuple[Media, ...]) -> None:
    (result,) = told(None, [call(), response]).results

    assert (result.text, result.value, result.media) == (text, value, media)
    assert result.call == Call(name="look", id="c1")


def test_a_question_is_a_text_or_has_attachments() -> None:
    assert told("hi\n").query == "hi\n"
    assert told(None).query is None
    assert told({"text": "see", "media": [PIXEL]}).media == (Media(mime="image/png", name="a.png", bytes=5),)
    assert told({"text": "see"}).query == "see"


def test_tools_are_read_in_both_forms() -> None:
    provider = tool("look", properties={"place": {"type": "string"}})["contents"]["raw"]
    old, new = told(tools=[{"tag": "V0", "contents": provider}, tool("look", additionalProperties=False)]).tools

    assert (old.name, old.description) == ("look", "Looks.")
    assert old.schema == {"type": "object", "properties": {"place": {"type": "string"}}}
    assert (new.own_name, new.schema) == ("look", {"type": "object", "additionalProperties": False})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (call(arguments='{"a": 1}'), Call(name="look", arguments={"a": 1}, id="c1")),
        (call(arguments={"a": 1}), Call(name="look", arguments={"a": 1}, id="c1")),
        (call(arguments=""), Call(name="look", id="c1")),
        (call(arguments=None), Call(name="look", id="c1")),
        (call(arguments='{"a": '), Call(name="look", arguments='{"a": ', id="c1")),
        (call(arguments='{"a": 1e999}'), Call(name="look", arguments='{"a": 1e999}', id="c1")),
        (call(arguments="[1]"), Call(name="look", arguments=[1], id="c1")),
        (call(arguments="[" * 200), Call(name="look", arguments="[" * 200, id="c1")),
        ({"name": "look", "input": {"a": 1}, "id": "t"}, Call(name="look", arguments={"a": 1}, id="t")),
        ({"odd": 1}, Call(name="unknown", arguments={"odd": 1})),
        ("text", Call(name="unknown", arguments="text")),
    ],
)
def test_a_call_is_read_in_every_form(raw: Any, expected: Call) -> None:
    (turn,) = session(llm(None, raw)).turns

    assert isinstance(turn, ModelTurn)
    assert turn.calls == (expected,)


def test_a_partial_turn_tells_results_and_what_is_pending() -> None:
    done, late, running = (call(id_=f"c{n}") for n in range(3))
    tracked = [
        {"call": done, "state": "Completed", "result": {"type": "text", "content": "one"}},
        {"call": late, "state": "Completed", "result": "two", "deliveredLate": True},
        {"call": running, "state": "Running"},
    ]
    old = {"completedResponses": [[done, "one"]], "pendingCalls": [late, running], "pendingContinuations": []}
    turns = session(partial(trackedToolCalls=tracked), partial(**old)).turns

    for turn in turns:
        assert isinstance(turn, UserTurn)
        assert turn.partial
        assert [(result.call.id, result.text) for result in turn.results] == [("c0", "one")]
        assert [one.id for one in turn.pending] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("turn", "tokens"),
    [
        (
            llm("a", responseTokenUsage={"prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 3}),
            Tokens(input=7, output=2, cached=3),
        ),
        ({**llm("a"), "byteUsage": {"stepTokenUsage": {"prompt_tokens": 7}}}, Tokens(input=7)),
        (llm("a", raw={"usage": {"input_tokens": 7, "output_tokens": 2}}), Tokens(input=7, output=2)),
        (llm("a", raw={"usage": {"prompt_tokens": -7, "completion_tokens": "two"}}), Tokens()),
        (llm("a"), Tokens()),
    ],
)
def test_tokens_are_read_wherever_they_stand(turn: Any, tokens: Tokens) -> None:
    (read,) = session(turn).turns

    assert isinstance(read, ModelTurn)
    assert read.tokens == tokens


def test_what_the_provider_says_of_an_answer_is_kept() -> None:
    raw = {"model": "m-1", "id": "r-1", "created": 1_700_000_000, "choices": [{"finish_reason": "length"}]}
    (read,) = session(llm("a", raw=raw, responseThinking="hm")).turns

    assert isinstance(read, ModelTurn)
    assert (read.model, read.response, read.finish, read.thinking) == ("m-1", "r-1", "length", "hm")
    assert read.created_at == 1_700_000_000_000_000


def test_a_file_is_pretty_in_one_line_or_a_document_a_line(tmp_path: Path) -> None:
    made = document(user("hi"), llm("hello"))
    older = json.dumps(document(user("hi")))
    files = [
        json.dumps(made),
        json.dumps(made, indent=4),
        f"{older}\n{json.dumps(made)}\n\n",
        "\ufeff" + json.dumps(made),
    ]
    read: list[Session] = [read_session(write(tmp_path, text)) for text in files]

    assert read == [session_of(made, "here")] * len(files)
