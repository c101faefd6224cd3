"""import: session files become conversations of the store, each whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli
from tests.history.session_files import CUT_OFF, DATA, WHOLE, call, document, llm, user, write


def test_every_file_is_told_and_one_that_is_refused_keeps_no_other_back(project: Cli) -> None:
    files = sorted(str(path) for path in DATA.glob("*.json"))
    result = project("import", *files, code=3)
    conversations = project.ids()
    verified = project("verify").out
    replayed = project("replay").out

    assert len(conversations) == len(WHOLE) == len(result.out.splitlines()) == 8
    assert f"{CUT_OFF}:1:17390: unterminated string (the file is cut off) (byte 17,389)" in result.err
    assert verified.startswith("ok: ")
    assert "identical: 8 conversations" in replayed


def test_all_commands_that_look_know_what_was_imported(project: Cli) -> None:
    told = project("import", str(DATA / "gh-75.session.json"), "--json").data["files"][0]
    id_ = told["conversation"]
    listed = project.read("ps", "--json").data["conversations"]
    messages = project.read("query", "select role, text from messages order by seq", "--json").data
    shown = project.read("show", id_).out
    lineage = project.read("lineage", id_).out
    request = project.read("show", id_, "--request").out

    assert told["session"] == "2517d663-2a3f-4efd-a9fe-5b9285988289"
    assert (told["kind"], told["new"], told["turns"], told["messages"]) == ("session", True, 1, 12)
    assert [(one["id"], one["agent"], one["state"]) for one in listed] == [(id_, "imported-2517d663", "idle")]
    assert "Update oneshot agent prompt with commit message format requirements" in json.dumps(messages)
    assert "conversation.started" in shown
    assert "by=import" in shown
    assert "bash_grep-files" in lineage
    assert "(as recorded)" in request


def test_the_same_file_is_taken_once(project: Cli) -> None:
    file = str(DATA / "gh-118.session.json")
    first = project("import", file).out
    again = project("import", file)
    refused = project("import", file, "--agent", "helper", code=3).err

    assert "13 messages" in first
    assert "is there already, as conversation_" in again.out
    assert "nothing was written" in again.out
    assert "stays with that" in refused
    assert len(project.ids()) == 1


def test_an_agent_of_the_project_goes_on_with_it(project: Cli) -> None:
    id_ = project("import", str(DATA / "gh-118.session.json"), "-a", "helper", "--json").data["files"][0][
        "conversation"
    ]
    answer = project("run", id_, "-p", 'count_words text="a b c"').out

    assert answer == 'count_words text="a b c": 3\n'
    assert "identical: 1 conversation, 46 entries" in project("replay").out
    assert project("verify").out.startswith("ok: ")


def test_nothing_runs_by_an_import(project: Cli) -> None:
    write(project.folder, document(user("look"), llm("", call("find_text"))))
    told = project("import", "session.json", "--json").data["files"][0]
    refused = project("run", told["conversation"], "-p", "go on", code=3).err

    assert "no agent 'imported-s1' is installed; installed: helper" in refused
    assert project("run", "--resume").err == "no open turn was left behind\n"
    assert project.rows("select state from conversations") == [("idle",)]
    assert project.rows("select count(*) from messages where role = 'user'") == [(1,)]


def test_notes_say_what_could_not_be_kept(cli: Cli) -> None:
    media = {"type": "media", "mimeType": "image/png", "base64Data": "aGVsbG8="}
    write(cli.folder, document(user("look"), llm("", call()), user(None, [call(), media]), llm("seen")))
    result = cli("import", "session.json")

    assert "session.json: note: the bytes of an attachment are left out; a line stands in its place" in result.err


def test_a_store_of_another_kind_takes_sessions_too(cli: Cli, postgres: PostgresServer) -> None:
    file = str(DATA / "gh-157.session.json")
    heads = set()
    for url in ("file:folder", "sqlite:///one.db", postgres.new_schema_url()):
        cli("import", file, "--store", url)
        heads.add(cli("verify", "--store", url).out.splitlines()[0])

    assert heads == {"ok: 34 entries and 25 payloads in 1 logs"}


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b"", 3, "thing: it is empty"),
        (b"{}", 3, "thing: the whole: it has no turns"),
        (b"\x00\x01", 3, "thing: neither a bundle nor a session of agents-exe, nor anything else that can be imported"),
        (None, 1, "thing: No such file or directory"),
    ],
)
def test_what_is_no_session_is_refused_and_makes_no_store(cli: Cli, body: bytes | None, code: int, reason: str) -> None:
    if body is not None:
        (cli.folder / "thing").write_bytes(body)
    result = cli("import", "thing", code=code)
    told = cli("import", "thing", "--json", code=code).data["files"]

    assert reason in result.err
    assert reason in told[0]["error"] or told[0]["error"] in reason
    assert list(cli.folder.iterdir()) == ([cli.folder / "thing"] if body is not None else [])


def test_an_import_without_files_is_a_slip(cli: Cli) -> None:
    assert "name the files to import" in cli("import", code=2).err
    assert not list(Path(cli.folder).iterdir())
